"""The arithmetic of what travels, between two real processes over gloo."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.multiprocessing as multiprocessing
from torch import Tensor

from rlcb.algorithms import RECIPES, Recipe
from rlcb.cpu.phases import Phases
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import STORE_FILE, Alone, Together
from tests.conftest import tiny_config

# No clipping, which looks at the length of a gradient: a rank's own is another one than everybody's.
PLAIN = {
    "mode": "cluster",
    "training.max_grad_norm": 1e9,
    "training.reward_scaling": False,
    "training.batch_size": None,
}
UPDATES = 3
WAYS: dict[str, dict[str, Any]] = {
    "allreduce": {},
    "average": {"cluster.sync": "average", "cluster.average_every": 1},
    "seldom": {"cluster.sync": "average", "cluster.average_every": UPDATES},
    "fp16": {"cluster.compression": "fp16"},
    "accumulate": {"cluster.sync": "accumulate", "training.batch_size": 64},
}


def learnt(way: str, ranks: Any) -> Tensor:
    """All weights after a few updates of A2C with plain gradient steps."""
    RECIPES["a2c"] = Recipe(RECIPES["a2c"].algorithm, lambda parameters, rate: torch.optim.SGD([parameters], lr=rate))
    settings = {**PLAIN, "cluster.num_workers": 2, **WAYS[way]}
    run = Lockstep(tiny_config("a2c", settings), ranks)
    for _ in range(UPDATES):
        run.update(learning_rate=0.01)
    run.settle()
    run.close()
    return torch.cat([p.detach().flatten() for p in run.policy.parameters()])


def rank(index: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(index), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    for way in WAYS:
        os.environ[STORE_FILE] = f"{folder}/store_{way}"
        with Together(Phases(), 60.0, compress=way == "fp16") as ranks:
            torch.save(learnt(way, ranks), f"{folder}/{way}_{index}.pt")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """By way; both ranks must have come to the same."""
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(rank, args=(str(folder),), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]
    both = {way: [torch.load(folder / f"{way}_{index}.pt") for index in range(2)] for way in WAYS}
    for way, (first, second) in both.items():
        torch.testing.assert_close(first, second, msg=f"{way}: the ranks differ")
    return {way: first for way, (first, _) in both.items()}


@pytest.fixture(scope="module")
def alone() -> Tensor:
    before = RECIPES["a2c"]
    try:
        return learnt("allreduce", Alone())
    finally:
        RECIPES["a2c"] = before


@pytest.mark.parametrize("way", ["allreduce", "average", "accumulate"])
def test_two_halves_are_a_whole(way: str, weights: dict[str, Tensor], alone: Tensor) -> None:
    """Averaging gradients, or weights after every plain step, or adding up an epoch: the same as one process."""
    torch.testing.assert_close(weights[way], alone, rtol=1e-4, atol=1e-6)


def test_half_precision_is_close(weights: dict[str, Tensor], alone: Tensor) -> None:
    difference = (weights["fp16"] - alone).norm() / alone.norm()
    assert 0 < difference < 1e-4


def test_averaging_seldom_is_another_experiment(weights: dict[str, Tensor], alone: Tensor) -> None:
    assert not torch.allclose(weights["seldom"], alone, rtol=1e-4, atol=1e-6)
