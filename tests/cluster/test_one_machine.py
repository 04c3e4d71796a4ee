"""Cluster mode on one machine: no setup, no ports."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.parallel.conftest import train
from tests.test_guides import COMMANDS, TINY


def test_the_guides_command(tmp_path: Path) -> None:
    """As printed, address and all: with one node there is nobody to find there."""
    (command,) = [command for command in COMMANDS if command.startswith("train_ppo_distributed.py")]
    (tmp_path / "config").symlink_to(ROOT / "config")
    script, *words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *words, *TINY], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Worker 3 started with 8 environments" in done.stdout
    assert (tmp_path / "checkpoints/ppo_cpu_cluster/ppo_cluster_final.pt").is_file()


@pytest.mark.cluster
@pytest.mark.parametrize(
    "words", [["--sync", "accumulate"], ["--sync", "average", "--average-every", "2"], ["--compression", "fp16"]]
)
def test_every_way_to_exchange(words: list[str], tmp_path: Path) -> None:
    common = ["--algo", "ppo", "--mode", "cluster", "--num-workers", "2", "--batch-size", "64"]
    done = train(tmp_path / "run", *common, "--total-timesteps", "1280", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "run/training_summary.json").read_text())["total_timesteps"] == 1280
