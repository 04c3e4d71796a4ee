"""The virtual environment of Stable-Baselines3: made once, and again when the pins change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS = Path(__file__).with_name("requirements-sb3.txt")
VENV = ROOT / ".venv-sb3"
TORCH = "torch==2.13.0"  # exactly: any other spelling may bring gigabytes of GPU packages


def sb3_python() -> Path:
    """The interpreter to measure with."""
    python, done = VENV / "bin" / "python", VENV / ".installed"
    if not (done.is_file() and done.read_text(encoding="utf-8") == PINS.read_text(encoding="utf-8")):
        print(f"Making {VENV.name} (torch is large: a few minutes, once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        for what in ([TORCH], ["-r", str(PINS)]):
            print(f"  pip install {' '.join(what)}", flush=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], check=True
            )
        done.write_text(PINS.read_text(encoding="utf-8"), encoding="utf-8")
    return python
