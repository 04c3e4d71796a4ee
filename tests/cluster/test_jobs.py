"""What `rlcb launch` writes, prints and refuses. test_slurm.py and test_pbs.py run it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rlcb.cli import main
from tests.conftest import tiny_config

TRAINING = ["--", "--algo", "ppo", "--num-workers", "4", "--num-envs", "8", "--batch-size", "64"]


class Done(NamedTuple):
    code: object
    out: str
    err: str


Rlcb = Callable[..., Done]


@pytest.fixture
def rlcb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rlcb:
    """The command line in an empty directory; in this process, since nothing is started."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        with pytest.raises(SystemExit) as end:
            main(argv=words)
        return Done(end.value.code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        (
            "slurm",
            ["#SBATCH --nodes=2", "#SBATCH --cpus-per-task=2", "#SBATCH --mem=16G", "#SBATCH --signal=USR1@120"],
        ),
        ("pbs", ["#PBS -l select=2:ncpus=2:mpiprocs=1:mem=16gb", "#PBS -l walltime=1:00:00", "#PBS -r y"]),
    ],
)
def test_a_job_script(how: str, lines: list[str], rlcb: Rlcb, tmp_path: Path) -> None:
    words = ["--nodes", "2", "--memory-per-node", "16", "--time", "1:00:00", "--dry-run", "--script", "job.sh"]
    done = rlcb("launch", how, *words, *TRAINING)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Job script: {tmp_path}/job.sh\n"
    script = (tmp_path / "job.sh").read_text()
    assert set(lines) <= set(script.splitlines()), script
    assert "--algo ppo --num-workers 4" in script
    assert "--mode cluster --nodes 2" in script
    assert "--master-port $((20000 + " in script, "jobs on one node must not meet"
    assert subprocess.run(["bash", "-n", str(tmp_path / "job.sh")]).returncode == 0
    other = rlcb("launch", how, "--nodes", "2", "--cpus-per-node", "8", "--dry-run", *TRAINING)
    assert "2 threads on 8 CPUs of every node" in other.err


def test_commands_to_type(rlcb: Rlcb) -> None:
    done = rlcb("launch", "manual", "--hosts", "node1,node2", *TRAINING)
    assert done.code == 0, done.err
    first, second = [line for line in done.out.splitlines() if not line.startswith("#")]
    assert "--nodes 2 --master-addr node1 --master-port 29500 --run-id " in first
    assert (first[:-1], first[-1], second[-1]) == (second[:-1], "0", "1"), "they differ in the number of the node"
    again = rlcb("launch", "manual", "--hosts", "node1,node2", *TRAINING).out
    assert first not in again, "the id is random"


@pytest.mark.parametrize(
    ("words", "complaints"),
    [
        (
            ["slurm", "--nodes", "3", "--time", "soon", "--", "--num-workers", "4", "--gama", "0.9"],
            ["--time soon", "did you mean --gamma", "4 workers cannot be divided by 3 nodes"],
        ),
        (["ssh", "--time", "1:00:00", *TRAINING], ["--hosts: ssh needs", "--time: ssh asks no scheduler"]),
        (["pbs", "--hosts", "a,b", "--min-nodes", "2", *TRAINING], ["--hosts: the scheduler", "--min-nodes 2: more"]),
        (["slurm", "--time", "0:03:00", *TRAINING], ["--time 0:03:00: the run may be told to save from the start on"]),
        (["slurm", "--save-seconds", "60", "--job-name", "a b", *TRAINING], ["--job-name 'a b'", "give --time"]),
        (["slurm", *TRAINING, "--mode", "parallel", "--output-dir=x"], ["--mode: settled", "--output-dir: settled"]),
        (["slurm", "--resume", "--output-dir", "absent"], ["absent: no run there"]),
        (["slurm", "--suite", "absent.yaml", "--cpus-per-node", "2"], ["absent.yaml: no such file"]),
        (
            ["slurm", "--suite", "two.yaml", "--nodes", "2", "--", "--duraton", "1"],
            ["--nodes: runs of a suite", "--cpus-per-node: missing", "did you mean --duration?"],
        ),
        (["manual", "--hosts", "a", "--suite", "two.yaml"], ["--suite: manual asks no scheduler", "--cpus-per-node"]),
        (["pbs", "--suite", "two.yaml", "--cpus-per-node", "1", "--", "--jobs", "2"], ["--jobs: not for the runs"]),
    ],
)
def test_mistakes_are_found_before_anything_is_written(
    words: list[str], complaints: list[str], rlcb: Rlcb, tmp_path: Path
) -> None:
    (tmp_path / "two.yaml").write_text("algorithms: [ppo]\nseeds: [1, 2]\n")
    done = rlcb("launch", *words)
    assert done.code == 2
    lines = done.err.splitlines()
    assert len(lines) == len(complaints), done.err
    for line, complaint in zip(lines, complaints, strict=True):
        assert complaint in line
    assert [path.name for path in tmp_path.iterdir()] == ["two.yaml"]


def test_a_run_that_is_there_is_continued_only_if_asked(rlcb: Rlcb, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump(tiny_config("ppo", {"mode": "cluster"}).model_dump()))
    words = ["launch", "slurm", "--output-dir", "run", "--dry-run"]
    refused = rlcb(*words, *TRAINING)
    assert refused.code == 2
    assert "already holds a run" in refused.err
    done = rlcb(*words, "--resume", "--", "--total-timesteps", "4096")
    assert done.code == 0, done.err
    assert f"run=(--resume {run} --total-timesteps 4096)" in (tmp_path / "run.sh").read_text()


def test_one_run_of_a_suite(rlcb: Rlcb, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text("algorithms: [ppo]\nseeds: [1, 2]\n")
    done = rlcb("suite", "two.yaml", "--only", "2", "--dry-run")
    assert [line.split()[1] for line in done.out.splitlines()] == ["train", "evaluate"]
    assert "--seed 2" in done.out
    refused = rlcb("suite", "two.yaml", "--only", "3", "--dry-run")
    assert (refused.code, refused.err) == (2, "error: --only 3: the suite has 2 runs; use at most that\n")
