"""A process that dies or freezes costs a little time, and nothing else."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from rlcb.runs.checkpoint import load_checkpoint
from rlcb.training.signals import Stop
from tests.faults.conftest import Run, running, with_signal
from tests.parallel.conftest import records

TINY = ["--num-envs", "8", "--n-steps", "16", "--env", "starpilot"]
LOCKSTEP = [*TINY, "--algo", "ppo", "--mode", "parallel", "--num-workers", "2", "--batch-size", "64"]
IMPALA = [*TINY, "--algo", "impala", "--mode", "parallel", "--num-actors", "2", "--num-learners", "1"]
TWO_LEARNERS = [*IMPALA, "--num-learners", "2", "--timeout", "12"]
A3C = [*TINY, "--algo", "a3c", "--mode", "parallel", "--num-workers", "2"]
UPDATE = 8 * 16


def assert_no_gap(run: Run, updates: int) -> None:
    """Every update once, every step counted once."""
    counted = [(record["updates"], record["timesteps"]) for record in run.records()]
    assert counted == [(number, number * UPDATE) for number in range(1, updates + 1)]


@pytest.fixture(scope="module")
def unhurt(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    place = tmp_path_factory.mktemp("unhurt") / "run"
    with running(place, *LOCKSTEP, "--total-timesteps", str(40 * UPDATE)) as run:
        assert run.ends() == 0, run.text()
    model: dict[str, torch.Tensor] = load_checkpoint(place / "checkpoints/ppo_parallel_final.pt")["execution"]["model"]
    return model


@pytest.mark.parametrize(
    ("rank", "how", "at_update"),
    [
        (1, signal.SIGKILL, 1),
        (0, signal.SIGSTOP, 7),
        pytest.param(0, signal.SIGKILL, 20, marks=pytest.mark.slow),
        pytest.param(1, signal.SIGSTOP, 20, marks=pytest.mark.slow),
    ],
)
def test_a_lost_rank_is_started_again_from_the_last_checkpoint(
    rank: int, how: signal.Signals, at_update: int, tmp_path: Path, unhurt: dict[str, torch.Tensor]
) -> None:
    words = [*LOCKSTEP, "--total-timesteps", str(40 * UPDATE), "--save-interval", "5", "--timeout", "3"]
    with running(tmp_path / "run", *words) as run:
        run.reaches(at_update)
        with_signal(run.ranks()[rank], how)
        assert run.ends() == 0, run.text()
        assert "Restart 1 of 3" in run.text()
        assert "torch/" not in run.text(), "what torch has to say about it"
        assert_no_gap(run, 40)
    found = load_checkpoint(tmp_path / "run/checkpoints/ppo_parallel_final.pt")["execution"]["model"]
    torch.testing.assert_close(found, unhurt, rtol=0, atol=0)


def test_a_run_whose_ranks_keep_dying_ends_with_one_clear_line(tmp_path: Path) -> None:
    with running(tmp_path / "run", *LOCKSTEP, "--total-timesteps", "10_000_000", "--max-restarts", "0") as run:
        run.reaches(2)
        with_signal(run.ranks()[1], signal.SIGKILL)
        assert run.ends() == 1
        assert "0 restarts are used up" in run.text().splitlines()[-1]
        assert "Traceback" not in run.text()


@pytest.mark.parametrize(
    ("words", "how"),
    [
        (IMPALA, signal.SIGSTOP),
        (A3C, signal.SIGKILL),
        pytest.param(IMPALA, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(A3C, signal.SIGSTOP, marks=pytest.mark.slow),
        pytest.param(TWO_LEARNERS, signal.SIGSTOP, marks=pytest.mark.slow),  # one waits for the other meanwhile
    ],
    ids=["impala-stopped", "a3c-killed", "impala-killed", "a3c-stopped", "two-learners"],
)
def test_a_lost_member_of_the_crew_is_replaced(words: list[str], how: signal.Signals, tmp_path: Path) -> None:
    with running(tmp_path / "run", "--timeout", "4", *words, "--duration", "0.5", "--learning-rate", "1e-5") as run:
        run.reaches(3)
        hurt = run.crew()[0]
        with_signal(hurt, how)
        run.until(lambda: run.records()[-1]["system/lost_processes"] >= 1, "the loss is counted")
        run.until(lambda: len(run.crew()) == 2 and hurt not in run.crew(), "someone new is there")
        at = run.records()[-1]["updates"]
        run.reaches(at + 20)
        run.process.send_signal(signal.SIGTERM)
        assert run.ends() == 143, run.text()
        assert "another takes its place" in run.text()
        assert "Restart" not in run.text()
        updates = [record["updates"] for record in run.records()]
        assert updates == list(range(1, len(updates) + 1))


def test_a_lost_learner_is_started_again_with_its_actors(tmp_path: Path) -> None:
    with running(tmp_path / "run", *IMPALA, "--total-timesteps", str(60 * UPDATE), "--save-interval", "5") as run:
        run.reaches(7)
        before = run.crew()
        with_signal(run.ranks()[0], signal.SIGKILL)
        assert run.ends() == 0, run.text()
        assert not any(process.is_running() for process in before)
        assert_no_gap(run, 60)


@pytest.mark.parametrize(
    ("words", "at_update"),
    [
        (LOCKSTEP, 3),
        (IMPALA, 3),
        (A3C, 3),
        (LOCKSTEP, 0),
        pytest.param(IMPALA, 0, marks=pytest.mark.slow),
        pytest.param(A3C, 0, marks=pytest.mark.slow),
    ],
    ids=["lockstep", "impala", "a3c", "lockstep-at-once", "impala-at-once", "a3c-at-once"],
)
def test_nothing_is_left_of_a_killed_run(words: list[str], at_update: int, tmp_path: Path) -> None:
    with running(tmp_path / "run", *words, "--duration", "1") as run:
        if at_update:
            run.reaches(at_update)
        else:
            run.until(lambda: len(run.ranks()) > 0, "the first rank")
        tree = run.tree()
        shared = {file for process in tree for file in shared_memory_files(process)}
        assert len(tree) > 2
        run.process.kill()
        assert run.ends() == -signal.SIGKILL
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (any(map(_runs, tree)) or any(map(os.path.exists, shared))):
            time.sleep(0.1)
        assert not [process for process in tree if _runs(process)]
        assert not [file for file in shared if os.path.exists(file)]
        assert "Traceback" not in run.text()


def shared_memory_files(process: psutil.Process) -> list[str]:
    """That have a name."""
    try:
        paths = {mapped.path for mapped in process.memory_maps()}
    except psutil.Error:
        return []
    return [path for path in paths if path.startswith("/dev/shm/") and not path.endswith("(deleted)")]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("words", "number", "code"),
    [
        (LOCKSTEP, signal.SIGINT, 130),
        (IMPALA, signal.SIGTERM, 143),
        (A3C, signal.SIGTERM, 143),
        pytest.param(LOCKSTEP, signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(IMPALA, signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param(A3C, signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
    ids=["lockstep-2", "impala-15", "a3c-15", "lockstep-15", "impala-2", "a3c-2"],
)
def test_a_signal_ends_a_run_with_everything_saved(
    words: list[str], number: signal.Signals, code: int, tmp_path: Path
) -> None:
    with running(tmp_path / "run", *words, "--duration", "1") as run:
        run.reaches(3)
        run.process.send_signal(number)
        assert run.ends() == code, run.text()
        assert "Status: interrupted" in run.text()
        steps = run.records()[-1]["timesteps"]
    (saved,) = (tmp_path / "run/checkpoints").glob("*_step_*.pt")
    assert load_checkpoint(saved)["progress"]["timesteps"] >= steps
    with running(
        tmp_path / "run", *words[len(TINY) :], "--resume", "--total-timesteps", str(steps + 5 * UPDATE)
    ) as run:
        assert run.ends() == 0, run.text()
        assert f"Resumed at step: {load_checkpoint_steps(saved):,}" in run.text()


def test_ctrl_c_reaches_all_processes_of_a_terminal(tmp_path: Path) -> None:
    """The one that measures costs as well, before there is anything to save."""
    with running(tmp_path / "run", *IMPALA[:-2], "--duration", "1") as run:
        run.until(lambda: "Measuring" in run.text(), "measuring")
        time.sleep(0.5)
        os.killpg(run.process.pid, signal.SIGINT)
        assert run.ends() == 130, run.text()
        assert "Status: interrupted" in run.text()
        assert "Traceback" not in run.text()


@pytest.mark.parametrize("words", [[*TINY, "--algo", "a2c"], LOCKSTEP], ids=["sequential", "lockstep"])
def test_who_reads_the_output_may_go_away(words: list[str], tmp_path: Path) -> None:
    """Ctrl-C ends `| tee` before the run has said its last."""
    command = [sys.executable, "-m", "rlcb", "train", *words, "--duration", "1", "--output-dir", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any("Step:" in line for line in process.stdout)
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.wait()
    assert list((tmp_path / "run/checkpoints").glob("*_step_*.pt"))
    assert "TRAINING SUMMARY" in next((tmp_path / "run").rglob("training.log")).read_text()


def test_nohup_outlives_the_terminal(tmp_path: Path) -> None:
    command = ["nohup", sys.executable, "-m", "rlcb", "train", *LOCKSTEP, "--duration", "1", "--output-dir", "run"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        for seen in (2, 5):
            while len(records(tmp_path / "run")) < seen:
                assert process.poll() is None, "it has ended"
                assert time.monotonic() < deadline
                time.sleep(0.1)
            process.send_signal(signal.SIGHUP)
        time.sleep(7)  # longer than ranks get to end
        before = len(records(tmp_path / "run"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert before > 5
    finally:
        process.kill()
        process.wait()


def test_a_signal_that_comes_too_late_ends_nothing() -> None:
    stop = Stop()
    stop.received = signal.SIGUSR1
    assert stop.exit_code == 0
    stop.obeyed = True
    assert stop.exit_code == 138


@pytest.mark.parametrize("words", [LOCKSTEP, IMPALA, A3C], ids=["lockstep", "impala", "a3c"])
def test_no_room_for_a_checkpoint_is_one_line(words: list[str], tmp_path: Path) -> None:
    """And no reason to start again, nor to wait for actors and workers, who hear no signal. Files may have 4 MB."""
    command = [sys.executable, "-m", "rlcb", "train", *words, "--total-timesteps", "128", "--output-dir", "run"]
    limited = ["bash", "-c", f"ulimit -f 4000; exec {shlex.join(command)}"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: run: cannot write (File too large); make room, then rlcb train --resume run"
    ]
    assert "Restart" not in done.stdout


def test_a_checkpoint_of_a3c_is_named_by_the_steps_in_it(tmp_path: Path) -> None:
    with running(tmp_path / "run", *A3C, "--save-interval", "3", "--total-timesteps", str(20 * UPDATE)) as run:
        assert run.ends() == 0, run.text()
    saved = list((tmp_path / "run/checkpoints").glob("*_step_*.pt"))
    assert saved
    assert [file.stem for file in saved] == [f"a3c_parallel_step_{load_checkpoint_steps(file)}" for file in saved]


def test_impala_goes_on_with_other_actors(tmp_path: Path) -> None:
    with running(tmp_path / "run", *IMPALA, "--total-timesteps", str(4 * UPDATE)) as run:
        assert run.ends() == 0, run.text()
    more = ["--num-actors", "4", "--total-timesteps", str(8 * UPDATE)]
    with running(tmp_path / "run", "--resume", *more) as run:
        assert run.ends() == 0, run.text()
        assert "Actor 3 started with 2 environments" in run.text()
        assert_no_gap(run, 8)


def load_checkpoint_steps(file: Path) -> int:
    return int(load_checkpoint(file)["progress"]["timesteps"])
