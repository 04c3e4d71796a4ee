from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Rlcb = Callable[..., subprocess.CompletedProcess[str]]
TRAINING = ["--", "--algo", "ppo", "--num-workers", "4", "--num-envs", "8", "--batch-size", "64"]


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ("slurm", ["#SBATCH --nodes=2", "#SBATCH --time=1:00:00", "#SBATCH --signal=USR1@120", "#SBATCH --requeue"]),
        ("pbs", ["#PBS -l select=2:ncpus=4", "#PBS -l walltime=1:00:00", "#PBS -r y"]),
    ],
)
def test_a_job_script(how: str, lines: list[str], rlcb: Rlcb, tmp_path: Path) -> None:
    words = ["--nodes", "2", "--cpus-per-node", "4", "--time", "1:00:00", "--dry-run", "--script", "job.sh"]
    done = rlcb("launch", how, *words, *TRAINING)
    assert done.returncode == 0, done.stderr
    script = (tmp_path / "job.sh").read_text()
    assert set(lines) <= set(script.splitlines())
    assert "--algo ppo --num-workers 4" in script
    assert "--mode cluster --nodes 2" in script
    assert subprocess.run(["bash", "-n", str(tmp_path / "job.sh")]).returncode == 0


def test_commands_to_type(rlcb: Rlcb) -> None:
    done = rlcb("launch", "manual", "--hosts", "node1,node2", *TRAINING)
    assert done.returncode == 0, done.stderr
    first, second = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert first == second
    assert "--nodes 2 --master-port 29500 --master-addr node1 --run-id " in first
    again = rlcb("launch", "manual", "--hosts", "node1,node2", *TRAINING).stdout
    assert first not in again, "the id is random"


def test_bad_settings_are_found_before_anything_is_submitted(rlcb: Rlcb, tmp_path: Path) -> None:
    done = rlcb("launch", "slurm", "--nodes", "3", "--time", "soon", "--", "--num-workers", "4", "--gama", "0.9")
    assert done.returncode == 2
    complaints = done.stderr.splitlines()
    assert any("--time soon" in line for line in complaints)
    assert any("did you mean --gamma" in line for line in complaints)
    assert any("4 workers cannot be divided by 3 nodes" in line for line in complaints)
    assert list(tmp_path.iterdir()) == []
    assert rlcb("launch", "ssh", *TRAINING).returncode == 2
