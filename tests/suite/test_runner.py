"""Whole suites with real runs of a few steps."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from rlcb.errors import UserError
from rlcb.runs.files import read_json_lines
from rlcb.suite.plan import Plan, load_plan
from rlcb.suite.progress import SuiteProgress
from rlcb.suite.state import Position, commands, seconds_left

TINY = {
    "env.num_envs": 4,
    "training.n_steps": 4,
    "training.batch_size": None,
    "training.n_epochs": 1,
    "training.save_interval": 10**6,
    "hardware.num_threads": 1,
}
UPDATE = 16  # steps
SUITE: dict[str, Any] = {
    "output": "out",
    "games": ["starpilot"],  # short episodes
    "algorithms": ["ppo"],
    "total_timesteps": 2 * UPDATE,
    "settings": TINY,
    "evaluation": {"num_episodes": 1, "levels": "train"},
}


def suite(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlcb", "suite", "suite.yaml", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(folder: Path, *words: str) -> tuple[int, str, str]:
    process = suite(folder, *words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_two_at_a_time_and_a_failure_does_not_stop_the_other(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({**SUITE, "seeds": [1, 2]}))
    bad, good = (tmp_path / f"out/ppo_sequential_starpilot_seed{seed}" for seed in (1, 2))
    bad.mkdir(parents=True)
    with (bad / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as if another process were training there
        code, out, err = outcome(tmp_path, "--jobs", "2")
    assert code == 1
    assert err.startswith(f"error: {bad.name}: failed with exit code 2 (error: --output-dir ")
    assert f"see out/logs/{bad.name}.log" in err
    assert "Traceback" not in err
    summary = json.loads((good / "training_summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["hardware"]["threads"] == len(os.sched_getaffinity(0)) // 2
    evaluation = json.loads((good / "checkpoints/evaluation.json").read_text())
    assert list(evaluation["ppo_sequential_final.pt"]["procgen-starpilot-v0"]) == ["train"]
    log = (tmp_path / f"out/logs/{good.name}.log").read_text()
    assert "TRAINING SUMMARY" in log
    assert "PPO Evaluation Results" in log
    # Again: what is finished is not touched, and the table is there.
    before = files(good)
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({**SUITE, "seeds": [2]}))
    code, out, err = outcome(tmp_path)
    assert (code, err) == (0, "")
    assert "1 of 1 runs finished already" in out
    assert "Total Timesteps" in out
    assert files(good) == before


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A suite's folder with all that tells that its one run is finished, but the agent."""
    monkeypatch.chdir(tmp_path)
    [job] = planned().jobs
    job.run.create().close()
    job.run.config_file.write_text(yaml.safe_dump(job.config.model_dump()))
    (job.run.root / "training_summary.json").write_text(json.dumps({"total_timesteps": 2 * UPDATE}))
    job.run.checkpoint("final").touch()
    result = {"timesteps": 2 * UPDATE, "episodes": 1, "deterministic": True, "seed": 0, "mean_reward": 0.0}
    evaluation = {"ppo_sequential_final.pt": {"procgen-starpilot-v0": {"train": result}}}
    (job.run.checkpoints / "evaluation.json").write_text(json.dumps(evaluation))
    assert commands(job) == []
    return job.run.root


def planned(**changes: Any) -> Plan:
    Path("suite.yaml").write_text(yaml.safe_dump({**SUITE, **changes}))
    return load_plan(Path("suite.yaml"), [])


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"total_timesteps": UPDATE}, []),
        (
            {"total_timesteps": 3 * UPDATE},
            ["train --resume out/ppo_sequential_starpilot --total-timesteps 48", "evaluate"],
        ),
        ({"evaluation": {"num_episodes": 2, "levels": "train"}}, ["evaluate"]),
        ({"evaluation": {"num_episodes": 1, "levels": "both"}}, ["evaluate"]),
        ({"evaluation": {"num_episodes": 1, "levels": "train", "deterministic": False}}, ["evaluate"]),
    ],
)
def test_only_what_is_missing_is_done(finished: Path, changes: dict[str, Any], left: list[str]) -> None:
    [job] = planned(**changes).jobs
    words = [" ".join(command) for command in commands(job)]
    assert len(words) == len(left)
    assert all(word.startswith(start) for word, start in zip(words, left, strict=True))


def test_an_agent_that_was_trained_on_is_evaluated_again(finished: Path) -> None:
    (finished / "training_summary.json").write_text(json.dumps({"total_timesteps": 4 * UPDATE}))
    [job] = planned().jobs
    assert [command[0] for command in commands(job)] == ["evaluate"]


def test_a_run_without_a_checkpoint_starts_again(finished: Path) -> None:
    (finished / "checkpoints/ppo_sequential_final.pt").unlink()
    [job] = planned().jobs
    training, _ = commands(job)
    assert "--resume" not in training
    assert training[-1] == "--overwrite"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"settings": {**TINY, "training.gamma": 0.5}},
            "holds a run with training.gamma 0.999, but the suite says 0.5",
        ),
        ({"runs": [{"name": "ppo_sequential", "algo": "a2c"}]}, "holds a run with algo ppo, but the suite says a2c"),
    ],
)
def test_another_experiment_is_not_taken_for_this_one(finished: Path, changes: dict[str, Any], expected: str) -> None:
    if "runs" in changes:
        changes = {**changes, "algorithms": None}
    with pytest.raises(UserError) as refusal:
        planned(**changes)
    [problem] = refusal.value.problems
    assert expected in problem
    (finished / "config.yaml").unlink()
    with pytest.raises(UserError, match="has checkpoints, but no config"):
        planned(**changes)


def test_a_run_from_a_machine_with_other_cores_is_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite leaves the number of workers open: a node of a cluster may have others than the machine that looks."""
    monkeypatch.chdir(tmp_path)
    changes = {"modes": ["parallel"], "algorithms": ["ppo"]}
    [there] = planned(**changes).jobs
    there.run.create().close()
    there.run.config_file.write_text(yaml.safe_dump(there.config.model_dump()))
    there.run.checkpoint("final").touch()
    [here] = load_plan(Path("suite.yaml"), [], cores=2).jobs
    assert here.config == there.config
    assert here.config.parallel.num_workers == 1
    with pytest.raises(UserError, match=r"holds a run with parallel.num_workers 1, but the suite says 2"):
        planned(**changes, settings={**TINY, "parallel.num_workers": 2})


def test_a_suite_that_is_killed_and_interrupted_goes_on(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({**SUITE, "total_timesteps": 10**9}))
    run, log = tmp_path / "out/ppo_sequential_starpilot", tmp_path / "out/logs/ppo_sequential_starpilot.log"
    with begun(tmp_path, log) as (killed, child):
        killed.kill()
        child.wait(10)  # it does not outlive the suite
    assert not list((run / "checkpoints").iterdir())
    # What had no checkpoint is begun anew; interrupted, it saves.
    with begun(tmp_path, log) as (interrupted, child):
        interrupted.send_signal(signal.SIGINT)
        out, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, err
    assert not child.is_running()
    assert out.endswith("0 of 1 runs finished; run the same command again to continue\n")
    summary = json.loads((run / "training_summary.json").read_text())
    assert summary["status"] == "interrupted"
    # With a budget that is within reach, it is resumed, finished and evaluated.
    steps = summary["total_timesteps"] + 2 * UPDATE
    code, out, err = outcome(tmp_path, "--total-timesteps", str(steps))
    assert (code, err) == (0, "")
    assert log.read_text().count("--overwrite") == 1
    assert f"Resumed at step: {summary['total_timesteps']:,}" in log.read_text()
    assert json.loads((run / "training_summary.json").read_text())["total_timesteps"] == steps
    updates = [record["updates"] for record in read_json_lines(run / "logs/PPO_Sequential/metrics.jsonl")]
    assert updates == list(range(1, steps // UPDATE + 1))
    assert (run / "checkpoints/evaluation.json").is_file()


@contextmanager
def begun(folder: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A suite whose first run has made a few updates, and that run's process."""
    before = log.stat().st_size if log.exists() else 0
    with suite(folder) as process:
        try:
            wait_for(lambda: log.exists() and log.read_bytes()[before:].count(b"Update: ") >= 3)
            [child] = psutil.Process(process.pid).children()
            yield process, child
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_progress_is_a_live_line_on_a_terminal_and_plain_lines_elsewhere() -> None:
    parent, child = pty.openpty()
    plain = io.StringIO()
    with os.fdopen(child, "w") as terminal, SuiteProgress(4, terminal) as live, SuiteProgress(4, plain) as lines:
        for progress in (live, lines):
            assert progress.due
            progress.show(1, {"a": 0.5, "b": 0.0}, 0.375, None)
            assert not progress.due
            progress.say("b: failed")
            progress.show(2, {"a": 1.0}, 0.75, 62.0)
    shown = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(parent, 65536):
            shown += piece
    os.close(parent)
    first, said, last = plain.getvalue().splitlines()
    assert first == "1/4 runs done | a 50%, b 0% | ETA unknown"
    assert said == "b: failed"
    assert last == "2/4 runs done | a evaluation | ETA 01:02"
    assert b"Suite:  38%|" in shown
    assert b"Suite:  75%|" in shown
    assert b"b: failed\r\n" in shown


def test_the_time_left_is_that_of_all_runs() -> None:
    assert seconds_left([Position(0.0, None), Position(0.0, None)], 1) is None
    timed = [Position(1.0, 100.0), Position(0.25, 100.0), Position(0.0, 100.0)]
    assert seconds_left(timed, 1) == 175.0
    assert seconds_left(timed, 2) == 87.5
    by_steps = [Position(0.5, 60.0), Position(1.0, 100.0), Position(0.0, None)]
    assert seconds_left(by_steps, 1) == 30.0 + 80.0


def test_no_torch_in_the_process_that_only_waits() -> None:
    code = "import sys, rlcb.suite.runner; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
