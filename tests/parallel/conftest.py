"""Runs of several processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlcb.runs.checkpoint import load_checkpoint
from tests.conftest import command_line

TINY_FLAGS = ["--num-envs", "16", "--n-steps", "16", "--env", "starpilot"]  # short episodes


def train_here(place: Path, *words: str) -> int:
    """From this process: torch is imported already, and all runs are forked from one server. The exit code."""
    return command_line("train", *TINY_FLAGS, "--output-dir", str(place), *words)


def train(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rlcb", "train", *TINY_FLAGS, "--output-dir", str(place), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def records(place: Path) -> list[dict[str, Any]]:
    """Of metrics.jsonl, as far as it is written."""
    lines = [line for file in place.glob("logs/*/metrics.jsonl") for line in file.read_text().splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def final_state(place: Path) -> dict[str, Any]:
    (file,) = place.glob("checkpoints/*_final.pt")
    return load_checkpoint(file)


@pytest.fixture
def finished(tmp_path: Path) -> Callable[..., Path]:
    """Train to the end, and give the directory of the run."""

    def run(name: str, *words: str) -> Path:
        assert train_here(tmp_path / name, *words) == 0
        return tmp_path / name

    return run
