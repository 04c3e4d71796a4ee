"""Cluster mode on one machine: no setup, no ports."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.parallel.conftest import train_here
from tests.test_guides import COMMANDS, TINY, run


def test_the_guides_command(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As printed, address and all: with one node there is nobody to find there."""
    (command,) = [command for command in COMMANDS if command.startswith("train_ppo_distributed.py")]
    assert run([*shlex.split(command), *TINY], monkeypatch) == 0
    [log] = project.rglob("training.log")
    assert "Worker 3 started with 8 environments" in log.read_text()
    assert (project / "checkpoints/ppo_cpu_cluster/ppo_cluster_final.pt").is_file()
    assert "--nodes is 1, so nobody is sought at --master-addr 192.168.1.100" in capsys.readouterr().err


@pytest.mark.cluster
@pytest.mark.parametrize(
    "words", [["--sync", "accumulate"], ["--sync", "average", "--average-every", "2"], ["--compression", "fp16"]]
)
def test_every_way_to_exchange(words: list[str], tmp_path: Path) -> None:
    common = ["--algo", "ppo", "--mode", "cluster", "--num-workers", "2", "--batch-size", "64"]
    assert train_here(tmp_path / "run", *common, "--total-timesteps", "1280", *words) == 0
    assert json.loads((tmp_path / "run/training_summary.json").read_text())["total_timesteps"] == 1280
