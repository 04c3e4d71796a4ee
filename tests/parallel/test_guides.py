"""Every command line of the guides for parallel training, with a tiny budget, and the evaluations of what it leaves."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_guides import COMMANDS, TINY, value

PARALLEL = {
    "train_ppo_parallel.py",
    "train_parallel_timed.py",
    "train_impala_parallel.py",
    "train_impala_parallel_timed.py",
}
TRAINING = [command for command in COMMANDS if command.split()[0] in PARALLEL]
EVALUATION = [command for command in COMMANDS if command.startswith("evaluate") and "parallel" in command]
# Total environments that a command line stands for: workers × environments of each.
TOTALS = {"--num-workers 8": 64, "--num-workers 2": 16, "--num-envs 32": 128, "ppo_parallel_ryzen7": 64,
          "impala_parallel_ryzen7": 48}  # fmt: skip


def run(words: list[str], place: Path) -> str:
    if not (place / "config").exists():
        (place / "config").symlink_to(ROOT / "config")
    command = [sys.executable, str(ROOT / words[0]), *words[1:]]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", TRAINING)
def test_training(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    algo = "impala" if "impala" in words[0] else "ppo"
    # Measuring what learning costs, to choose the number of learners, takes longer than the rest; one command does it.
    settled = ["--num-learners", "1"] if algo == "impala" and "timed" in words[0] else []
    out = run([*words, *TINY, *settled], tmp_path)
    [checkpoint] = tmp_path.rglob(f"{algo}_parallel_final.pt")
    output = value(words, "--output-dir")
    if output:
        assert checkpoint.is_relative_to(tmp_path / output)
    elif "timed" not in words[0]:
        stem = Path(value(words, "--config") or f"{algo}_parallel.yaml").stem
        assert checkpoint.is_relative_to(tmp_path / "checkpoints" / stem)
    total = next((total for mark, total in TOTALS.items() if mark in command), 32)
    assert f"Total environments: {total}\n" in out
    assert f"Total Environments: {total}\n" in out
    crew = "Actor" if algo == "impala" else "Worker"
    assert f"{crew} 0 started with " in out
    assert "TRAINING SUMMARY" in out
    for evaluation in EVALUATION:
        if output and f"{output}/" in evaluation:
            text = run([*shlex.split(evaluation), "--num-episodes", "2"], tmp_path)
            assert "Mean" in text


def test_every_evaluation_of_a_parallel_agent_is_replayed() -> None:
    outputs = [value(shlex.split(command), "--output-dir") for command in TRAINING]
    assert all(any(output and f"{output}/" in evaluation for output in outputs) for evaluation in EVALUATION)
    assert len(TRAINING) >= 12
