from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlcb.algorithms import Rollout
from rlcb.errors import TrainingFailed
from rlcb.training.flat import FlatParameters
from rlcb.training.learner import Learner
from rlcb.training.ranks import Alone


class Line(nn.Module):
    """Two weights, each with a gradient of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2, 2))


@dataclass
class Factor:
    value: float
    parts: int = 1

    def __len__(self) -> int:
        return 1

    def split(self, size: int) -> list[tuple[Factor, float]]:
        return [(self, 0.25), (self, 0.75)]


@dataclass
class Given:
    """Losses a * f, with the factors that the test gives."""

    factors: list[float]
    kls: list[float]
    target_kl: float | None = None

    def minibatches(self, rollout: Any, shuffle: Any, ranks: Any) -> Iterator[Factor]:
        return map(Factor, self.factors)

    def loss(self, policy: Any, batch: Factor) -> tuple[Tensor, dict[str, Tensor]]:
        kl = self.kls[self.factors.index(batch.value)] if self.kls else 0.0
        moments = dict.fromkeys(("return_mean", "return_square", "error_mean", "error_square"), torch.zeros(()))
        return (policy.a * batch.value).sum() + 0 * policy.b.sum(), {"approx_kl": torch.tensor(kl), **moments}


def learner(factors: list[float], max_grad_norm: float = 1e9, **given: Any) -> tuple[Learner, Line]:
    policy = Line()
    algorithm = Given(factors, given.pop("kls", []), **given)
    result = Learner(
        policy,  # type: ignore[arg-type]
        algorithm,  # type: ignore[arg-type]
        lambda parameters: torch.optim.SGD([parameters], lr=1.0),
        max_grad_norm=max_grad_norm,
        micro_batch_size=1,
        ranks=Alone(),
    )
    return result, policy


def learn(learner: Learner, rate: float = 1.0) -> dict[str, float]:
    learner.learn(None, None, rate)  # type: ignore[arg-type]
    return learner.take_metrics()


def test_steps_descend_with_the_learning_rate_given() -> None:
    subject, policy = learner([2.0, 3.0])
    metrics = learn(subject, rate=0.1)
    assert policy.a.item() == pytest.approx(-0.5)
    assert metrics["grad_norm"] == pytest.approx(2.5)


def test_long_gradients_are_shortened() -> None:
    subject, policy = learner([40.0], max_grad_norm=0.5)
    learn(subject)
    assert policy.a.item() == pytest.approx(-0.5, abs=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_skipped_and_counted(bad: float) -> None:
    subject, policy = learner([1.0, bad, 1.0])
    learn(subject)
    assert policy.a.item() == pytest.approx(-2.0)
    assert [subject.take_skipped(), subject.take_skipped()] == [1, 0]


def test_ten_in_a_row_end_the_run() -> None:
    subject, _ = learner([float("nan")] * 9 + [1.0] + [float("nan")] * 9)
    learn(subject)
    assert subject.take_skipped() == 18
    subject, policy = learner([1.0] + [float("nan")] * 10)
    with pytest.raises(TrainingFailed, match="not finite 10 times"):
        learn(subject)
    assert policy.a.item() == pytest.approx(-1.0)


def test_the_target_kl_ends_the_update_before_the_step() -> None:
    subject, policy = learner([1.0, 2.0, 4.0], kls=[0.0, 0.014, 0.016], target_kl=0.01)
    learn(subject)
    assert policy.a.item() == pytest.approx(-3.0)


def test_flat_parameters_are_the_parameters() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2))
    twin = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4, 2))
    twin.load_state_dict(module.state_dict())
    flat = FlatParameters(module)
    x = torch.randn(5, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    for _ in range(2):  # gradients add up, as they do without
        module(x).square().sum().backward()
        twin(x).square().sum().backward()
    expected = torch.cat([p.grad.flatten() for p in twin.parameters() if p.grad is not None])
    torch.testing.assert_close(flat.gradients, expected)
    with torch.no_grad():
        flat.parameters.zero_()
    assert all(bool((p == 0).all()) for p in module.parameters())


def test_state_is_a_copy() -> None:
    subject, _ = learner([1.0])
    state = subject.state()
    learn(subject)
    assert state["model"]["a"].item() == 0.0


def test_a_rollout_knows_its_discounts() -> None:
    empty = torch.zeros(2, 1)
    rollout = Rollout(empty, empty, empty, torch.tensor([[True], [False]]), empty, empty)
    assert rollout.discounts(0.9).flatten().tolist() == pytest.approx([0.0, 0.9])
