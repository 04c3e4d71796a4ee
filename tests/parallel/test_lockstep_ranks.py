"""Execution changes time, and nothing else: 1, 2 and 4 ranks are the same experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from rlcb.kernels.library import kernels
from rlcb.training.assembly import make_policy
from tests.conftest import assert_equal, tiny_config
from tests.parallel.conftest import final_state, records, train, train_here

STEPS = 16 * 16
FIVE_UPDATES = ("--total-timesteps", str(5 * STEPS))


def parallel(algo: str, workers: int, *more: str) -> list[str]:
    return [*_batch(algo), "--mode", "parallel", "--num-workers", str(workers), *more]


def sequential(algo: str, threads: int = 1) -> list[str]:
    return [*_batch(algo), "--num-threads", str(threads)]


def _batch(algo: str) -> list[str]:
    return ["--algo", algo, *(["--batch-size", "128"] if algo == "ppo" else [])]


def assert_same_experiment(found: Path, expected: Path) -> None:
    """Games, weights, what the optimizer remembers: bit for bit. What is printed of it agrees but for rounding."""
    state = final_state(found)["execution"]
    assert_equal(state, final_state(expected)["execution"])
    assert len(state["envs"]["games"]) == 16
    names = [
        "updates", "timesteps", "rollout/episodes", "rollout/ep_reward_mean", "rollout/ep_length_mean",
        "train/grad_norm",
    ]  # fmt: skip
    for ours, theirs in zip(records(found), records(expected), strict=True):
        assert [ours.get(name) for name in names] == [theirs.get(name) for name in names]
        assert ours["train/loss"] == pytest.approx(theirs["train/loss"], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_one_two_and_four_ranks_learn_the_same(algo: str, finished: Callable[..., Path]) -> None:
    alone = finished("sequential", *sequential(algo), *FIVE_UPDATES)
    assert records(alone)[-1]["rollout/episodes"] > 5, "no episode ended: the test shows little"
    if kernels().library is not None:  # torch's convolutions promise nothing
        assert_same_experiment(finished("two_threads", *sequential(algo, threads=2), *FIVE_UPDATES), alone)
    for workers in (1, 2, 4):
        assert_same_experiment(finished(f"ranks_{workers}", *parallel(algo, workers), *FIVE_UPDATES), alone)


@pytest.mark.parametrize("words", [["--arch", "impala"], ["--no-normalize-advantage", "--micro-batch-size", "16"]])
def test_another_network_and_pieces_smaller_than_parts(words: list[str], finished: Callable[..., Path]) -> None:
    alone = finished("sequential", *sequential("ppo"), "--total-timesteps", str(2 * STEPS), *words)
    two = finished("ranks_2", *parallel("ppo", 2), "--total-timesteps", str(2 * STEPS), *words)
    assert_same_experiment(two, alone)


def test_ranks_that_parts_do_not_divide_by_differ_by_rounding(finished: Callable[..., Path]) -> None:
    """Eight ranks, four parts. Small steps: learning amplifies what rounding begins."""
    small = ["--learning-rate", "2e-5", *FIVE_UPDATES]
    alone, eight = finished("sequential", *sequential("ppo"), *small), finished("eight", *parallel("ppo", 8), *small)
    one, other = (final_state(run)["execution"] for run in (alone, eight))
    assert_equal(other["envs"]["games"], one["envs"]["games"])
    weights, at_first = one["model"], dict(make_policy(tiny_config()).state_dict())
    assert 0 < _distance(other["model"], weights) < 1e-3 * _distance(weights, at_first)


def _distance(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return float(torch.cat([(one[name] - other[name]).flatten() for name in one]).norm())


def test_a_run_of_four_ranks_goes_on_with_two_or_one(finished: Callable[..., Path], tmp_path: Path) -> None:
    """Bit for bit as if it had been one from the start, and had never stopped."""
    alone = finished("sequential", *sequential("ppo"), *FIVE_UPDATES)
    begun = finished("begun", *parallel("ppo", 4), "--total-timesteps", str(3 * STEPS))
    for workers in (2, 1):
        copy = tmp_path / f"on_{workers}"
        _copy(begun, copy)
        _resume(copy, workers, 4)
        _resume(copy, workers, 5)
        assert_same_experiment(copy, alone)


def _copy(run: Path, to: Path) -> None:
    import shutil

    shutil.copytree(run, to)


def _resume(run: Path, workers: int, updates: int) -> None:
    words = ["--resume", str(run), "--num-workers", str(workers), "--total-timesteps", str(updates * STEPS)]
    assert train_here(run, *words) == 0


def test_everything_that_a_sequential_run_has(finished: Callable[..., Path]) -> None:
    place = finished("run", *parallel("ppo", 2), *FIVE_UPDATES)
    names = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert {"config.yaml", "training_summary.json", "benchmark_metrics.json", "metrics.json"} <= names
    assert {"checkpoints/ppo_parallel_final.pt", "logs/PPO_Parallel/metrics.jsonl"} <= names
    log = (place / "logs/PPO_Parallel/training.log").read_text()
    assert "Worker 0 started with 8 environments\nWorker 1 started with 8 environments" in log
    assert "Workers: 2\nTotal Environments: 16\n" in log
    for record in records(place):
        for worker in ("worker_0", "worker_1"):
            phases = {name: record[f"{worker}/{name}_seconds"] for name in ("environment", "act", "learn")}
            assert all(seconds > 0 for seconds in phases.values())
            assert record[f"{worker}/synchronise_seconds"] > 0
            assert record[f"{worker}/wait_seconds"] >= 0
    summary = json.loads((place / "training_summary.json").read_text())
    assert summary["num_workers"] == 2
    assert 0.2 < summary["peak_memory_gb"] < 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--num-workers", "3"], "env.num_envs: 16 environments cannot be divided by 3 workers; use 15 or 18"),
        (["--num-workers", "32"], "parallel.num_workers: 32, but there are 16 environments"),
        (["--algo", "impala", "--num-actors", "4", "--num-learners", "3"], "parallel.num_learners: 3 learners cannot"),
        (["--algo", "impala", "--num-workers", "4"], "IMPALA collects with actors; use parallel.num_actors"),
    ],
)
def test_numbers_that_do_not_fit(words: list[str], says: str, tmp_path: Path) -> None:
    done = train(tmp_path / "run", "--mode", "parallel", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "run").exists()
