"""`rlcb scale` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image

from rlcb.scale.measure import chosen_sizes
from tests.scale.conftest import costs

Rlcb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def measured(tmp_path: Path) -> str:
    """A file of costs, as an earlier prediction leaves it."""
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({"costs": costs().model_dump()}))
    return str(file)


def rows(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text())["predictions"]
    return found


def test_measures_and_predicts(rlcb: Rlcb, tmp_path: Path) -> None:
    words = ["--algo", "a2c", "--num-envs", "8", "--nodes", "1,2,4", "--cores-per-node", "2", "--output", "out/a.png"]
    done = rlcb("scale", *words)
    assert done.returncode == 0, done.stderr
    assert "Measuring" in done.stdout
    assert "time to 25M" in done.stdout
    assert image.imread(tmp_path / "out/a.png").ndim == 3
    tree = json.loads((tmp_path / "out/a.json").read_text())
    here = tree["costs"]
    assert here["parameters"] > 500_000
    assert here["optimizer_tensors"] == 1, "RMSProp's mean squares"
    assert all(seconds > 0 for curve in ("environment", "act", "learn") for _, seconds in here[curve]["points"])
    assert 0 < here["smallest_exchange"] < here["exchange"]["none"] < 1
    assert 0 < here["meeting"] < here["shared_exchange"] < 1
    assert len(tree["predictions"]) == 9
    assert all(row["fps"] > 0 and row["efficiency"] > 0 for row in tree["predictions"])
    again = rlcb("scale", *words[:-1], "b.png", "--costs", "out/a.json")
    assert again.returncode == 0, again.stderr
    assert "Measuring" not in again.stdout
    assert rows(tmp_path / "b.json") == tree["predictions"]


def test_the_training_stays_the_same(rlcb: Rlcb, tmp_path: Path, measured: str) -> None:
    """32 environments: 16 nodes have work for two workers each, however many cores they have."""
    done = rlcb("scale", "--costs", measured, "--nodes", "16,1", "--cores-per-node", "16", "--sync", "allreduce")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "scale.json")
    assert [(row["nodes"], row["workers"], row["num_envs"]) for row in found] == [(1, 16, 32), (16, 32, 32)]
    assert found[1]["efficiency"] < 32 / 256
    assert found[1]["hours"] == pytest.approx(25_000_000 / found[1]["fps"] / 3600)


def test_the_training_grows_with_the_workers(rlcb: Rlcb, tmp_path: Path, measured: str) -> None:
    words = ["--num-envs-per-worker", "8", "--nodes", "1,4", "--cores-per-node", "16", "--total-timesteps", "1e6"]
    done = rlcb("scale", "--costs", measured, *words, "--sync", "allreduce")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "scale.json")
    assert [(row["workers"], row["num_envs"], row["batch_size"]) for row in found] == [
        (16, 128, 4096),
        (64, 512, 16384),
    ]
    assert found[0]["steps"] == 1_000_000
    assert "time to 1M" in done.stdout


def test_what_cannot_be_divided_is_said(rlcb: Rlcb, measured: str) -> None:
    done = rlcb("scale", "--costs", measured, "--nodes", "2,3", "--sync", "average")
    assert done.returncode == 0, done.stderr
    assert "3 nodes: 32 environments cannot be divided among them; use --num-envs 33" in done.stdout
    assert rlcb("scale", "--costs", measured, "--nodes", "3").returncode == 2


def test_a_configuration_file(rlcb: Rlcb, tmp_path: Path, measured: str) -> None:
    """Its own mode and numbers of workers are what this command varies."""
    (tmp_path / "c.yaml").write_text("mode: parallel\nparallel: {num_workers: 4, num_envs_per_worker: 16}\n")
    done = rlcb("scale", "--config", "c.yaml", "--costs", measured, "--nodes", "2", "--cores-per-node", "8")
    assert done.returncode == 0, done.stderr
    assert [(row["workers"], row["num_envs"]) for row in rows(tmp_path / "scale.json")] == [(16, 64)] * 3


def test_mistakes_are_one_line_each(rlcb: Rlcb, tmp_path: Path) -> None:
    words = ["--nodes", "1,x", "--latency", "-1", "--bandwidth", "fast", "--cores-per-node", "0", "--output", "a.txt"]
    done = rlcb("scale", *words, "--costs", "none.json", "--nodez", "3")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    for part in (
        "--nodez",
        "--nodes 1,x",
        "--latency -1",
        "--bandwidth fast",
        "--cores-per-node 0",
        "a.txt",
        "none.json",
    ):
        assert sum(part in line for line in lines) == 1, part
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sync", "never"], "--sync never is not a choice"),
        (["--algo", "impala", "--sync", "average"], "IMPALA knows no other way than allreduce"),
        (["--workers-per-node", "3"], "32 environments cannot be divided by 1 × 3 workers; use --num-envs 33"),
        (["--batch-size", "7"], "training.batch_size: 7 does not divide"),
        (["--compression", "zip"], "--compression zip is not a choice"),
    ],
)
def test_settings_that_cannot_be(rlcb: Rlcb, words: list[str], complaint: str) -> None:
    done = rlcb("scale", "--nodes", "1", *words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_costs_of_another_training_are_refused(rlcb: Rlcb, tmp_path: Path, measured: str) -> None:
    done = rlcb("scale", "--costs", measured, "--algo", "a2c", "--env", "maze")
    assert done.returncode == 2
    assert "measured with algo ppo, asked for a2c" in done.stderr
    assert "measured with game procgen-coinrun-v0, asked for procgen-maze-v0" in done.stderr
    (tmp_path / "other.json").write_text('{"costs": {"algo": "ppo"}}')
    done = rlcb("scale", "--costs", "other.json")
    assert done.returncode == 2
    assert "not a file that rlcb scale wrote" in done.stderr


def test_a_few_sizes_stand_for_many() -> None:
    assert chosen_sizes({3, 7}) == [3, 7]
    assert chosen_sizes({1, 2, 4, 8, 16, 32, 512}) == [1, 4, 16, 64]
    assert chosen_sizes({0}) == [1]
