"""What the model says of messages is what ranks really hand to gloo."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch import Tensor

from rlcb.algorithms import RECIPES
from rlcb.cpu.phases import Phases
from rlcb.scale import messages
from rlcb.scale.messages import Message, all_reduces
from rlcb.training.actor_learner import ActorLearner
from rlcb.training.hogwild import Hogwild
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import MOST_SHARING, STORE_FILE, Together
from tests.conftest import tiny_config

EVERY = 2
UPDATES = 2 * EVERY


def said(algo: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[Any, ...]:
    """Elements and bytes of every all-reduce of a rank that takes itself for one of two; nobody answers, so it hears
    itself."""
    kind = "actors" if algo == "impala" else "workers"
    everything = {"mode": "cluster", "cluster.average_every": EVERY, f"parallel.num_{kind}": 2, **settings}
    config = tiny_config(algo, everything)
    counted: Counter[tuple[int, int]] = Counter()
    real = dist.all_reduce

    def counting(values: Tensor, group: Any) -> None:
        counted[values.numel(), values.element_size()] += 1
        real(values, group=group)

    monkeypatch.setattr(dist, "all_reduce", counting)
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv(STORE_FILE, str(folder / "store"))
    with Together(Phases(), 30.0, config.compresses) as ranks:
        ranks.size = 2
        run: Any = ActorLearner(config, ranks, Phases()) if algo == "impala" else Lockstep(config, ranks)
        for _ in range(UPDATES):
            run.update(1e-4)
        (remembered,) = run.state()["optimizer"]["state"].values()
        run.close()
    parameters = sum(p.numel() for p in run.policy.parameters())
    tensors = sum(isinstance(value, Tensor) and value.dim() > 0 for value in remembered.values())
    return config, parameters, tensors, counted


def expected(said: list[Message]) -> Counter[tuple[int, int]]:
    counts: Counter[tuple[int, int]] = Counter()
    for message in said:
        counts[message.elements, message.element_bytes] += round(UPDATES * message.per_update)
    return counts


@pytest.mark.parametrize(
    ("algo", "settings"),
    [
        ("ppo", {}),
        ("ppo", {"training.normalize_advantage": False, "training.reward_scaling": False}),
        ("ppo", {"cluster.sync": "accumulate"}),
        ("ppo", {"cluster.sync": "average"}),
        ("ppo", {"cluster.compression": "fp16"}),
        ("ppo", {"cluster.sync": "average", "cluster.compression": "fp16"}),
        ("a2c", {"training.batch_size": None}),
        ("a2c", {"cluster.sync": "average"}),
    ],
)
def test_lockstep(algo: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config, parameters, tensors, counted = said(algo, settings, monkeypatch, tmp_path)
    assert counted == expected(all_reduces(config, parameters, tensors))


def test_learners(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two batches per update, each with its gradient; the rest is said once."""
    settings = {"training.n_steps": 16, "training.batch_size": 64, "cluster.nodes": 2}
    config, parameters, tensors, counted = said("impala", settings, monkeypatch, tmp_path)
    assert config.rollout_size == 2 * config.batch_size
    assert counted == expected(all_reduces(config, parameters, tensors))


def test_who_shares_memory() -> None:
    assert messages.MOST_SHARING == MOST_SHARING


def test_coordinators_average_weights_and_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlcb.scale.model import AHEAD
    from rlcb.training import hogwild

    config = tiny_config(
        "a3c",
        {
            "mode": "cluster",
            "cluster.nodes": 2,
            "parallel.num_workers": 2,
            "cluster.average_every": 5,
            "training.batch_size": None,
        },
    )
    learner = Hogwild(config, _Two(), Phases())._learner
    tensors = [t for t in hogwild.optimizer_statistics(learner.optimizer).values() if t.dim() > 0]
    parameters = learner.parameters.numel()
    assert all_reduces(config, parameters, len(tensors)) == [Message(parameters, 4, 2 / 5)]
    assert AHEAD == hogwild.AHEAD


class _Two:
    index, size = 0, 2

    def sum(self, values: Tensor) -> None: ...

    def total(self, rows: Tensor) -> Tensor:
        return rows

    def mean(self, values: Tensor, wide: bool = False) -> None: ...

    def count(self, more: int) -> int:
        return 0


@pytest.mark.parametrize("algo", RECIPES)
def test_one_rank_says_nothing(algo: str) -> None:
    settings = {"training.batch_size": None} if algo == "a3c" else {}
    assert all_reduces(tiny_config(algo, {"mode": "cluster", **settings, "cluster.num_workers": 1}), 100, 2) == []
