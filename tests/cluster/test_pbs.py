"""Job scripts for PBS, submitted by `rlcb launch` to a stand-in: `make test-slurm`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rlcb.runs.files import read_json_lines
from tests.cluster.pbs import Pbs
from tests.cluster.slurm import wait_for
from tests.conftest import ROOT

pytestmark = pytest.mark.slurm

SMALL = ["--algo", "ppo", "--num-workers", "2", "--num-envs", "8", "--n-steps", "16", "--batch-size", "64"]
UPDATE = 128  # steps
# Long enough to come to the first updates, and short enough to cut a run of LONGER seconds.
LIMIT = ["--time", "0:00:30", "--save-seconds", "10"]
LONGER = 25


@pytest.fixture
def pbs(tmp_path: Path) -> Iterator[Pbs]:
    scheduler = Pbs(tmp_path)
    yield scheduler
    for process in scheduler.processes():
        process.kill()


def launch(pbs: Pbs, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rlcb", "launch", "pbs", *words],
        cwd=folder,
        env={**pbs.environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_nodes_are_cut_by_the_time_limit_and_go_on(pbs: Pbs, tmp_path: Path) -> None:
    budget = ["--duration", str(LONGER / 3600)]
    launch(pbs, tmp_path, "--nodes", "2", *LIMIT, "--output-dir", "the run", "--", *SMALL, *budget)
    wait_for(lambda: 0 in pbs.codes().values(), 150, pbs.log)
    assert set(list(pbs.codes().values())[:-1]) == {138}, pbs.log()  # a slow machine is cut more than once
    wait_for(lambda: not pbs.processes(), 30, lambda: f"{pbs.processes()}\n{pbs.log()}")
    run = tmp_path / "the run"
    summary = json.loads((run / "training_summary.json").read_text())
    assert (summary["status"], summary["total_timesteps"]) == ("finished", UPDATE * summary["total_updates"])
    resumed = re.findall(r"Resumed at step: ([\d,]+)", pbs.log())
    assert len(resumed) == len(pbs.codes()) - 1
    updates = [record["updates"] for record in read_json_lines(run / "logs/PPO_Cluster/metrics.jsonl")]
    assert updates == list(range(1, summary["total_updates"] + 1)), "a gap, or counted twice"


def test_an_array_of_a_suites_runs(pbs: Pbs, tmp_path: Path) -> None:
    suite = {
        "output": "out",
        "games": ["starpilot"],
        "runs": [{"name": "one"}, {"name": "two", "mode": "cluster", "settings": {"parallel.num_workers": 2}}],
        "duration": LONGER / 3600,
        "settings": {"env.num_envs": 8, "training.n_steps": 16, "training.batch_size": 64},
        "evaluation": {"num_episodes": 1, "levels": "train"},
    }
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    launch(pbs, tmp_path, "--suite", "suite.yaml", "--cpus-per-node", "1", *LIMIT)
    wait_for(lambda: list(pbs.codes().values()).count(0) == 2, 200, pbs.log)
    assert {"1[1]", "1[2]"} < set(pbs.codes())
    assert set(pbs.codes().values()) == {0, 138}, pbs.log()
    wait_for(lambda: not pbs.processes(), 30, lambda: f"{pbs.processes()}\n{pbs.log()}")
    for run in ("one_starpilot", "two_starpilot"):
        summary = json.loads((tmp_path / f"out/{run}/training_summary.json").read_text())
        assert 3600 * summary["duration_hours"] >= LONGER
        assert summary["hardware"]["cores"] == 1, "more than the job was given"
        [metrics] = (tmp_path / f"out/{run}/logs").glob("*/metrics.jsonl")
        updates = [record["updates"] for record in read_json_lines(metrics)]
        assert updates == list(range(1, summary["total_updates"] + 1)), "a gap, or counted twice"
        assert (tmp_path / f"out/{run}/checkpoints/evaluation.json").is_file()
        assert "Resumed at step" in (tmp_path / f"out/logs/{run}.log").read_text()
