"""The arithmetic of what travels, between two real processes: over gloo, and in memory that they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from rlcb.algorithms import RECIPES, Recipe
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Alone
from tests.conftest import tiny_config
from tests.ranks import run_ranks, together

# No clipping, which looks at the length of a gradient: a rank's own is another one than everybody's.
PLAIN = {
    "mode": "cluster",
    "cluster.num_workers": 1,  # as many as there are decide by themselves, as after the loss of a node
    "training.max_grad_norm": 1e9,
    "training.reward_scaling": False,
    "training.batch_size": None,
}
UPDATES = 3
NEVER = 1000


def sgd(parameters: Tensor, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([parameters], lr=rate)


class Way(NamedTuple):
    settings: dict[str, Any]
    optimizer: Callable[[Tensor, float], torch.optim.Optimizer] = sgd
    settles: bool = True
    hosts: int = 2


def average(every: int, **more: Any) -> dict[str, Any]:
    return {"cluster.sync": "average", "cluster.average_every": every, **more}


FP16 = {"cluster.compression": "fp16"}
UNEVEN = {"env.num_envs": 7}  # 4 here and 3 there
ADAM = RECIPES["ppo"].optimizer
WAYS = {
    "allreduce": Way({}),
    "one host": Way({}, hosts=1),
    "fp16": Way(FP16),
    "accumulate": Way({"cluster.sync": "accumulate", "training.batch_size": 64}),
    "average": Way(average(1)),
    "uneven": Way(UNEVEN),
    "uneven average": Way({**average(1), **UNEVEN}),
    "apart": Way(average(NEVER), ADAM, settles=False),
    "seldom": Way(average(UPDATES), ADAM),
    "often": Way(average(1), ADAM),
    "often fp16": Way({**average(1), **FP16}, ADAM),
}


class Learnt(NamedTuple):
    weights: Tensor
    memory: list[Tensor]  # of the optimizer


def learn(way: str, ranks: Any) -> Learnt:
    """A few updates of A2C."""
    RECIPES["a2c"] = Recipe(RECIPES["a2c"].algorithm, WAYS[way].optimizer)
    run = Lockstep(tiny_config("a2c", {**PLAIN, **WAYS[way].settings}), ranks)
    for _ in range(UPDATES):
        run.update(learning_rate=0.01)
    if WAYS[way].settles:
        run.settle()
    state = run.state()["optimizer"]["state"].get(0, {})
    run.close()
    memory = [state[name].flatten() for name in ("exp_avg", "exp_avg_sq") if name in state]
    return Learnt(torch.cat([p.detach().flatten() for p in run.policy.parameters()]), memory)


def rank(index: int, folder: Path) -> None:
    for way, (settings, _, _, hosts) in WAYS.items():
        with together(index, 2, folder / way, local=2 // hosts, half="cluster.compression" in settings) as ranks:
            torch.save(tuple(learn(way, ranks)), folder / f"{way}_{index}.pt")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Learnt]]:
    """What the two ranks have learnt, by way."""
    folder = tmp_path_factory.mktemp("ranks")
    run_ranks(2, rank, folder)
    return {way: [Learnt(*torch.load(folder / f"{way}_{index}.pt")) for index in range(2)] for way in WAYS}


@pytest.fixture(scope="module")
def alone() -> dict[str, Tensor]:
    """All weights of one process with the environments of both."""
    before = RECIPES["a2c"]
    try:
        return {way: learn(way, Alone()).weights for way in ("allreduce", "uneven")}
    finally:
        RECIPES["a2c"] = before


@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way].settles])
def test_both_come_to_the_same(way: str, both: dict[str, list[Learnt]]) -> None:
    first, second = both[way]
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("way", "whole"),
    [
        ("allreduce", "allreduce"),
        ("one host", "allreduce"),
        ("average", "allreduce"),
        ("accumulate", "allreduce"),
        ("uneven", "uneven"),
        ("uneven average", "uneven"),
    ],
)
def test_two_parts_are_a_whole(way: str, whole: str, both: dict[str, list[Learnt]], alone: dict[str, Tensor]) -> None:
    """Averaging gradients, or weights after every plain step, or adding up an epoch: the same as one process."""
    torch.testing.assert_close(both[way][0].weights, alone[whole], rtol=1e-4, atol=1e-6)


def test_shared_memory_and_gloo_add_up_alike(both: dict[str, list[Learnt]]) -> None:
    """Of two ranks, whose order makes no difference."""
    torch.testing.assert_close(both["one host"], both["allreduce"], rtol=0, atol=0)


def test_averaging_seldom_is_the_mean_of_those_who_went_by_themselves(both: dict[str, list[Learnt]]) -> None:
    (first, first_memory), (second, second_memory) = both["apart"]
    mean, memory = both["seldom"][0]
    assert not torch.allclose(first, second, rtol=1e-2)
    torch.testing.assert_close(mean, (first + second) / 2)
    assert len(memory) == 2, "both moments of Adam"
    for averaged, mine, theirs in zip(memory, first_memory, second_memory, strict=True):
        torch.testing.assert_close(averaged, (mine + theirs) / 2)


def test_half_precision_is_close(both: dict[str, list[Learnt]], alone: dict[str, Tensor]) -> None:
    assert 0 < distance(both["fp16"][0].weights, alone["allreduce"]) < 1e-4


def test_half_precision_of_weights_is_close(both: dict[str, list[Learnt]]) -> None:
    """What Adam divides by is far below what half precision can hold, and must not become nothing: that would make 3.3
    of the 0.007 that are seen here."""
    assert 0 < distance(both["often fp16"][0].weights, both["often"][0].weights) < 0.02


def distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())
