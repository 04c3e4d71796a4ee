"""Virtual environments of peers: each made once, and again when its pins change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = "torch==2.13.0"  # exactly: any other spelling may bring gigabytes of GPU packages


def peer_python(peer: str) -> Path:
    """The interpreter to measure with: of `sb3` or of `sample-factory`."""
    pins, venv = Path(__file__).with_name(f"requirements-{peer}.txt"), ROOT / f".venv-{peer}"
    python, done = venv / "bin" / "python", venv / ".installed"
    if not (done.is_file() and done.read_text(encoding="utf-8") == pins.read_text(encoding="utf-8")):
        print(f"Making {venv.name} (torch is large: a few minutes, once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        for what in ([TORCH], ["-r", str(pins)]):
            print(f"  pip install {' '.join(what)}", flush=True)
            subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what], check=True
            )
        done.write_text(pins.read_text(encoding="utf-8"), encoding="utf-8")
    return python
