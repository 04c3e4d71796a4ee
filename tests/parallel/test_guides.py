"""Every command line of the guides for parallel training, with a tiny budget, and the evaluations of what it leaves."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.test_guides import COMMANDS, ONE_THREAD, TINY, run, value

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


@pytest.mark.parametrize("command", TRAINING)
def test_training(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    algo = "impala" if "impala" in words[0] else "ppo"
    # Measuring what learning costs, to choose the number of learners, takes longer than the rest; one command does it.
    settled = ["--num-learners", "1"] if algo == "impala" and "timed" in words[0] else []
    assert run([*words, *TINY, *settled], monkeypatch) == 0, capsys.readouterr().err
    [checkpoint] = project.rglob(f"{algo}_parallel_final.pt")
    output = value(words, "--output-dir")
    if output:
        assert checkpoint.is_relative_to(project / output)
    elif "timed" not in words[0]:
        stem = Path(value(words, "--config") or f"{algo}_parallel.yaml").stem
        assert checkpoint.is_relative_to(project / "checkpoints" / stem)
    total = next((total for mark, total in TOTALS.items() if mark in command), 32)
    [log] = project.rglob("training.log")
    out = log.read_text()
    assert f"Total environments: {total}\n" in out
    assert f"Total Environments: {total}\n" in out
    crew = "Actor" if algo == "impala" else "Worker"
    assert f"{crew} 0 started with " in out
    assert "TRAINING SUMMARY" in out
    for evaluation in EVALUATION:
        if output and f"{output}/" in evaluation:
            assert run([*shlex.split(evaluation), "--num-episodes", "2", *ONE_THREAD], monkeypatch) == 0
            assert "Mean" in capsys.readouterr().out


def test_every_evaluation_of_a_parallel_agent_is_replayed() -> None:
    outputs = [value(shlex.split(command), "--output-dir") for command in TRAINING]
    assert all(any(output and f"{output}/" in evaluation for output in outputs) for evaluation in EVALUATION)
    assert len(TRAINING) >= 12
