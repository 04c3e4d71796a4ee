"""Every command line of the guides for sequential training and for evaluation, with a tiny budget."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

COMMANDS = [
    line.removeprefix("python ")
    for line in (ROOT / "tests/guides/commands.txt").read_text().splitlines()
    if line.startswith("python ")
]
SEQUENTIAL = {
    "train_timed.py",
    "train_ppo_sequential.py",
    "train_impala_sequential.py",
    "train_impala_sequential_timed.py",
}
TRAINING = [command for command in COMMANDS if command.split()[0] in SEQUENTIAL]
EVALUATION = [command for command in COMMANDS if command.startswith("evaluate") and "parallel" not in command]
# One update of a few steps; flags that come last win.
TINY = ["--total-timesteps", "1", "--n-steps", "4", "--batch-size", "null", "--n-epochs", "1"]
# Under load, threads that wait for each other are slow; commands that name a number keep it.
ONE_THREAD = ["--num-threads", "1"]


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", [str(ROOT / words[0]), *words[1:]])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(sys.argv[0], run_name="__main__")
    assert isinstance(end.value.code, int)
    return end.value.code


def value(words: list[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words else None


@pytest.mark.parametrize("command", TRAINING)
def test_training(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(command)
    threads = [] if "--num-threads" in words else ONE_THREAD
    assert run([*words, *TINY, *threads], monkeypatch) == 0, capsys.readouterr().err
    algo = "impala" if "impala" in words[0] else "ppo"
    output, checkpoints = value(words, "--output-dir"), value(words, "--checkpoint-dir")
    if output:
        folder, logs = project / output / "checkpoints", project / output / "logs"
    elif "timed" in words[0]:
        [place] = (project / "benchmarks").iterdir()
        folder, logs = place / "checkpoints", place / "logs"
    else:
        stem = Path(value(words, "--config") or f"{algo}_sequential.yaml").stem
        folder = project / (checkpoints or f"checkpoints/{stem}")
        logs = project / (value(words, "--log-dir") or "logs")
    assert (folder / f"{algo}_sequential_final.pt").is_file()
    name = f"{algo.upper()}_Sequential"
    assert (logs / name / "metrics.jsonl").is_file()
    assert list((logs / name).glob("events.out.tfevents.*"))
    out = capsys.readouterr().out
    assert "TRAINING SUMMARY" in out
    assert value(words, "--env") is None or value(words, "--env").split("-")[1] in out  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each algorithm."""
    from rlcb.training.train import train
    from tests.conftest import tiny_config

    made = {}
    for algo in ("ppo", "impala"):
        folder = tmp_path_factory.mktemp(algo)
        settings = {"training.total_timesteps": 1, "logging.output_dir": str(folder)}
        assert train(tiny_config(algo, settings)) == 0
        made[algo] = folder / f"checkpoints/{algo}_sequential_final.pt"
    return made


@pytest.mark.parametrize("command", EVALUATION)
def test_evaluation(
    command: str,
    project: Path,
    agents: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = shlex.split(command)
    algo = "impala" if "impala" in command else "ppo"
    checkpoint = project / str(value(words, "--checkpoint"))
    checkpoint.parent.mkdir(parents=True)
    shutil.copy(agents[algo], checkpoint)
    assert run([*words, "--num-episodes", "2", *ONE_THREAD], monkeypatch) == 0
    out = capsys.readouterr().out
    title = f"{algo.upper()} Evaluation Results" if words[0] == "evaluate_universal.py" else "\nEvaluation Results"
    assert title in out
    for line in ("Episodes: 2", "Mean Reward: ", "Min/Max Reward: ", "Mean Episode Length: "):
        assert line in out
    assert (checkpoint.parent / "evaluation.json").is_file()


def test_configuration_files_that_the_guides_name_exist() -> None:
    named = {value(shlex.split(command), "--config") for command in COMMANDS} - {None}
    for file in named:
        assert (ROOT / str(file)).is_file()
    assert os.access(ROOT / "setup.sh", os.X_OK)
