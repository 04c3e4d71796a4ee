"""Started by torchrun itself: every process is a rank."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlcb.runs.checkpoint import load_checkpoint
from tests.conftest import ROOT, assert_equal
from tests.parallel.conftest import TINY_FLAGS, records, train

pytestmark = pytest.mark.cluster
WORDS = ["--batch-size", "64", "--seed", "7"]


def command(processes: int, *words: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1"]
    script = [str(ROOT / "train_ppo_distributed.py"), *TINY_FLAGS, *WORDS, "--output-dir", "run", *words]
    return [*launcher, "--nproc-per-node", str(processes), *script]


def torchrun(folder: Path, processes: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(processes, *words), cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("torchrun")
    done = torchrun(folder, 2, "--total-timesteps", "512")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_it_is_the_same_experiment(started: tuple[Path, str], tmp_path: Path) -> None:
    folder, printed = started
    assert printed.count("Worker 1 started with 8 environments") == 1
    summary = json.loads((folder / "run/training_summary.json").read_text())
    assert (summary["status"], summary["total_timesteps"]) == ("finished", 512)
    one = train(
        tmp_path / "one",
        "--algo",
        "ppo",
        "--mode",
        "parallel",
        "--num-workers",
        "2",
        *WORDS,
        "--total-timesteps",
        "512",
    )
    assert one.returncode == 0, one.stderr
    mine = load_checkpoint(folder / "run/checkpoints/ppo_cluster_final.pt")["execution"]["model"]
    theirs = load_checkpoint(tmp_path / "one/checkpoints/ppo_parallel_final.pt")["execution"]["model"]
    assert_equal(mine, theirs)


def test_a_run_that_is_there_is_refused_and_can_be_resumed(started: tuple[Path, str]) -> None:
    folder, _ = started
    before = (folder / "run/config.yaml").read_text()
    done = torchrun(folder, 2, "--total-timesteps", "1024", "--learning-rate", "1e-3")
    assert done.returncode != 0
    assert done.stderr.count("already holds a run") == 2, "torchrun tries again, and is refused again"
    assert (folder / "run/config.yaml").read_text() == before
    done = torchrun(folder, 1, "--resume", "--total-timesteps", "1024")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((folder / "run/training_summary.json").read_text())["total_timesteps"] == 1024


def test_what_torchrun_has_decided_is_not_asked_twice(tmp_path: Path) -> None:
    done = torchrun(tmp_path, 1, "--num-workers", "4")
    assert "--num-workers 4: torchrun has started 1 processes; leave it out" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_lost_rank_is_started_again(tmp_path: Path) -> None:
    words = ["--total-timesteps", "10_240", "--save-interval", "4"]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(command(2, *words), cwd=tmp_path, stdout=log, stderr=log)
    try:
        until = time.monotonic() + 90
        while len(records(tmp_path / "run")) < 6:
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.1)
        ranks = [one for one in psutil.Process(run.pid).children() if "--batch-size" in one.cmdline()]
        os.kill(ranks[1].pid, signal.SIGKILL)
        assert run.wait(120) == 0, (tmp_path / "log").read_text()
    finally:
        run.kill()
    assert [record["updates"] for record in records(tmp_path / "run")] == list(range(1, 41))
    assert "Restart 1 of" in (tmp_path / "log").read_text()
