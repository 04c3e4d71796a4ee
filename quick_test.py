"""See whether everything that training needs is installed and works."""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 12):
    sys.exit("error: Python {}.{} is not supported; use 3.11 or 3.12 (./setup.sh)".format(*sys.version_info))

try:
    from rlcb.cli import Door, main
except ImportError as missing:
    sys.exit(f"error: {missing.name} is not installed; run ./setup.sh, or pip install -r requirements.txt")

if __name__ == "__main__":
    main(Door(command="check"))
