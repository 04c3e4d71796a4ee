"""Job scripts under a real Slurm, as `rlcb launch` writes and submits them: `make test-slurm`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcb.runs.files import read_json_lines
from tests.cluster.slurm import WHY_NOT, Slurm, can_run_slurm, running_slurm, wait_for

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(not can_run_slurm(), reason=WHY_NOT)]

SMALL = [
    "--algo",
    "ppo",
    "--num-workers",
    "2",
    "--num-envs",
    "8",
    "--n-steps",
    "16",
    "--batch-size",
    "64",
    "--seed",
    "7",
]
UPDATE = 128  # steps
BEGIN_SECONDS, END_SECONDS = 90.0, 180.0


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with running_slurm() as daemons:
        yield daemons


class Folder:
    """Where a test submits its jobs from."""

    def __init__(self, slurm: Slurm, place: Path) -> None:
        self.slurm, self.place = slurm, place

    def rlcb(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rlcb", *words],
            cwd=self.place,
            env=self.slurm.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, *words: str) -> str:
        """`rlcb launch slurm`; the number of the job."""
        printed = self.rlcb("launch", "slurm", *words)
        return printed.split("Submitted batch job ")[1].strip()

    def ends(self, job: str, state: str, seconds: float = END_SECONDS) -> None:
        """And leaves nothing behind."""

        def over() -> bool:
            now = self.slurm.job(job)["JobState"]
            assert now in (state, "PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SIGNALING"), f"{now}\n{self.why()}"
            return now == state

        wait_for(over, seconds, self.why)
        wait_for(lambda: not self.slurm.processes(), 30, lambda: f"{self.slurm.processes()}\n{self.why()}")

    def updates(self, run: str = "run") -> list[int]:
        files = self.place.glob(f"{run}/logs/*/metrics.jsonl")
        return [record["updates"] for file in files for record in read_json_lines(file)]

    def reaches(self, update: int, run: str = "run") -> None:
        wait_for(lambda: update in self.updates(run), BEGIN_SECONDS, self.why)

    def log(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.place.glob("*.log")))

    def why(self) -> str:
        return f"{self.log()}\n{self.slurm.logs()}"

    def summary(self, run: str = "run") -> Any:
        return json.loads((self.place / run / "training_summary.json").read_text())


@pytest.fixture
def folder(slurm: Slurm, tmp_path: Path) -> Folder:
    return Folder(slurm, tmp_path)


def test_two_nodes_with_the_cores_of_the_allocation(folder: Folder) -> None:
    job = folder.submit("--nodes", "2", "--output-dir", "run", "--", *SMALL, "--total-timesteps", str(60 * UPDATE))
    folder.reaches(2)
    ranks = [process for process in folder.slurm.processes() if process.name().startswith("rlcb-rank-")]
    assert sorted(process.name() for process in ranks) == ["rlcb-rank-0", "rlcb-rank-1"]
    assert [len(process.cpu_affinity()) for process in ranks] == [1, 1]  # one worker per node, so one CPU
    assert {process.environ()["SLURMD_NODENAME"] for process in ranks} == {"node1", "node2"}
    assert {process.environ()["OMP_NUM_THREADS"] for process in ranks} == {"1"}
    folder.ends(job, "COMPLETED")
    assert folder.updates() == list(range(1, 61))
    assert folder.summary()["status"] == "finished"


def test_the_time_limit_saves_and_the_job_goes_on(folder: Folder) -> None:
    """Slurm counts in minutes, and may say it a minute early: here half a minute after the start at the soonest. So the
    job comes to its end in two pieces, or in three."""
    limit = ["--time", "0:02:00", "--save-seconds", "59"]
    hours = str(75 / 3600)
    job = folder.submit("--nodes", "2", *limit, "--output-dir", "run", "--", *SMALL, "--duration", hours)
    folder.ends(job, "COMPLETED", 2 * END_SECONDS)
    restarts = int(folder.slurm.job(job)["Restarts"])
    assert restarts in (1, 2), folder.why()
    assert folder.log().count("Saved before the time limit; queued again") == restarts
    resumed = [int(step.replace(",", "")) for step in re.findall(r"Resumed at step: ([\d,]+)", folder.log())]
    assert len(resumed) == restarts
    assert all(later > before for before, later in pairwise([UPDATE, *resumed])), resumed
    summary = folder.summary()
    assert (summary["status"], summary["total_timesteps"]) == ("finished", UPDATE * summary["total_updates"])
    assert folder.updates() == list(range(1, summary["total_updates"] + 1)), "a gap, or counted twice"


def test_scancel_saves_and_the_run_can_go_on(folder: Folder) -> None:
    job = folder.submit("--nodes", "2", "--output-dir", "run", "--", *SMALL, "--duration", "1")
    folder.reaches(3)
    folder.slurm.run("scancel", job)
    folder.ends(job, "CANCELLED")
    done = folder.summary()["total_updates"]
    assert folder.summary()["status"] == "interrupted"
    steps = str((done + 20) * UPDATE)
    job = folder.submit("--nodes", "2", "--resume", "--output-dir", "run", "--", "--total-timesteps", steps)
    folder.ends(job, "COMPLETED")
    assert f"Resumed at step: {done * UPDATE:,}" in folder.log()
    assert folder.updates() == list(range(1, done + 21)), "a gap, or counted twice"


def test_an_array_of_a_suites_runs(folder: Folder) -> None:
    """One of them is told to save, as before its time limit, and is queued again; the other does not notice."""
    suite = {
        "output": "out",
        "games": ["starpilot"],
        "runs": [{"name": "one"}, {"name": "two", "mode": "parallel", "settings": {"parallel.num_workers": 2}}],
        "duration": 20 / 3600,
        "settings": {"env.num_envs": 8, "training.n_steps": 16, "training.batch_size": 64},
        "evaluation": {"num_episodes": 1, "levels": "train"},
    }
    (folder.place / "suite.yaml").write_text(yaml.safe_dump(suite))
    job = folder.submit("--suite", "suite.yaml", "--cpus-per-node", "1")
    for run in ("one", "two"):
        folder.reaches(2, f"out/{run}_starpilot")
    folder.slurm.run("scancel", "--signal=USR1", f"{job}_1")
    for index, restarts in ((1, "1"), (2, "0")):
        folder.ends(f"{job}_{index}", "COMPLETED")
        assert folder.slurm.job(f"{job}_{index}")["Restarts"] == restarts, folder.why()
    for run in ("out/one_starpilot", "out/two_starpilot"):
        summary = folder.summary(run)
        assert (summary["status"], summary["hardware"]["threads"]) == ("finished", 1)  # of one CPU
        assert folder.updates(run) == list(range(1, summary["total_updates"] + 1)), "a gap, or counted twice"
        assert (folder.place / run / "checkpoints/evaluation.json").is_file()
    assert "2 of 2 runs finished already" in folder.rlcb("suite", "suite.yaml")
