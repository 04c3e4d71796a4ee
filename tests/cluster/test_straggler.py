"""The straggler cut: who stops when, and what a short rollout weighs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from torch import Tensor

from rlcb.algorithms import RECIPES, Recipe
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.training.assembly import make_collector, make_learner, make_policy, part_of
from rlcb.training.collector import empty_rollout
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Alone
from rlcb.training.straggler import StragglerCut
from tests.conftest import tiny_config
from tests.parallel.conftest import TINY_FLAGS, records
from tests.ranks import run_ranks, together

STEPS, ENVS, CUT_AT = 16, 8, 5
RATE = 0.01


class Counter:
    """What ranks share."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, more: int) -> int:
        self.number += more
        return self.number


def test_a_rank_stops_when_most_have_finished_and_it_has_a_quarter() -> None:
    count = Counter()
    fast = [StragglerCut(count, size=5, n_steps=16, minibatches=1) for _ in range(3)]
    slow = StragglerCut(count, size=5, n_steps=16, minibatches=1)
    for update in range(3):
        fast[0].finish()
        fast[1].finish()
        assert not slow(15), f"update {update}: two of five are not 60%"
        fast[2].finish()
        time.sleep(0.001)  # it does not ask all the time
        assert not slow(3), "less than a quarter"
        assert slow(4)
        slow.finish()
        count(1)  # the fifth


def test_every_minibatch_gets_a_step() -> None:
    count = Counter()
    cut = StragglerCut(count, size=1, n_steps=16, minibatches=8)
    count(1)
    assert not cut(7)
    assert cut(8)


def settings() -> Config:
    """One plain gradient step per rollout, of a length that nothing limits."""
    RECIPES["a2c"] = Recipe(RECIPES["a2c"].algorithm, lambda parameters, rate: torch.optim.SGD([parameters], lr=rate))
    free = {"training.max_grad_norm": 1e9, "training.reward_scaling": False, "training.batch_size": None}
    return tiny_config("a2c", {**free, "mode": "cluster", "cluster.num_workers": 2, "cluster.straggler_cut": True})


def stops(index: int, steps: int) -> bool:
    return index == 1 and steps >= CUT_AT


def rank(index: int, folder: Path) -> None:
    StragglerCut.__call__ = lambda cut, steps: stops(index, steps)  # type: ignore[method-assign, assignment]
    with together(index, 2, folder) as ranks:
        run = Lockstep(settings(), ranks)
        report = run.update(RATE)
        state = {"weights": weights(run.policy), "timesteps": report.timesteps, "step": run.state()["step"]}
        run.close()
    torch.save(state, folder / f"{index}.pt")


def weights(policy: torch.nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def one_rank_alone(config: Config, index: int) -> tuple[int, Tensor]:
    """How many samples it brings, and how it would move the weights."""
    policy = make_policy(config)
    part = part_of(ENVS, index, 2)
    collector, randomness = make_collector(config, part, policy, Phases())
    rollout = empty_rollout(STEPS, part.stop - part.start)
    collector.collect(rollout, enough=lambda steps: stops(index, steps))
    collector.close()
    before = weights(policy)
    learner = make_learner(config, policy, Alone())
    mine = rollout.first(collector.taken)
    learner.learn(mine, lambda epoch: randomness.order(0, epoch, collector.taken), RATE)
    return mine.actions.numel(), weights(policy) - before


def test_samples_count_alike_whoever_brought_them(tmp_path: Path) -> None:
    run_ranks(2, rank, tmp_path)
    first, second = (torch.load(tmp_path / f"{index}.pt") for index in range(2))
    assert (first["timesteps"], second["timesteps"]) == (STEPS * ENVS / 2, CUT_AT * ENVS / 2)
    assert first["step"] == second["step"] == STEPS, "the noise of the steps that were left out is not used again"
    before = RECIPES["a2c"]
    try:
        config = settings()
        alone = [one_rank_alone(config, index) for index in range(2)]
        mean = sum(samples * moved for samples, moved in alone) / sum(samples for samples, _ in alone)
        expected = weights(make_policy(config)) + mean
    finally:
        RECIPES["a2c"] = before
    torch.testing.assert_close(first["weights"], second["weights"], rtol=0, atol=0)
    torch.testing.assert_close(first["weights"], expected, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(expected, weights(make_policy(config)) + (alone[0][1] + alone[1][1]) / 2, atol=1e-6)


@pytest.mark.cluster
def test_a_slow_worker_is_cut(tmp_path: Path) -> None:
    """One of four is held up while it collects: the update goes on without the rest of its rollout."""
    place = tmp_path / "run"
    words = ["--algo", "ppo", "--mode", "cluster", "--num-workers", "4", "--batch-size", "64", "--straggler-cut"]
    words += ["--total-timesteps", "100_000", "--output-dir", str(place)]
    run = subprocess.Popen([sys.executable, "-m", "rlcb", "train", *TINY_FLAGS, *words], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 90
        held = None
        while not any(record.get("train/left_out_count") for record in records(place)):
            assert time.monotonic() < until, "nobody was cut"
            assert run.poll() is None
            held = held or next(
                (p for p in psutil.Process(run.pid).children(recursive=True) if p.name() == "rlcb-rank-3"), None
            )
            if held and records(place):
                held.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                held.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 143
    finally:
        run.kill()
    cut = next(record for record in records(place) if record.get("train/left_out_count"))
    assert cut["timesteps"] < cut["updates"] * 256, "what was left out is not counted"
