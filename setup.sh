#!/usr/bin/env bash
# Makes a virtual environment with everything that training needs: ./setup.sh [DIRECTORY] [--dev]
set -euo pipefail
cd "$(dirname "$0")"

venv=venv
requirements=requirements.txt
for argument in "$@"; do
  case $argument in
    --dev) requirements=requirements-dev.txt ;;
    -*) echo "error: $argument: unknown flag; use ./setup.sh [DIRECTORY] [--dev]" >&2; exit 2 ;;
    *) venv=$argument ;;
  esac
done

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
whole() { [ -x "$venv/bin/python" ] && supported "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

if ! whole; then
  for python in ${PYTHON:-} python3 python3.12 python3.11 python; do
    if command -v "$python" >/dev/null 2>&1 && supported "$python"; then
      echo "Making $venv with $("$python" --version)"
      "$python" -m venv --clear "$venv"
      break
    fi
  done
fi
if ! whole; then
  found=$(python3 --version 2>/dev/null || echo "no Python")
  echo "error: $found is not supported; install Python 3.11 or 3.12 with venv and pip, or name one: export PYTHON=/path/to/python3.11, and again" >&2
  exit 2
fi

echo "Installing $requirements into $venv (torch is large: a few minutes the first time)"
# torch first and pinned: whatever depends on it must find it there.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$(grep '^torch==' requirements.txt)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
[ $requirements = requirements.txt ] || touch "$venv/.installed"  # all that make's targets need
echo "Done. Next: source $venv/bin/activate && python quick_test.py"
