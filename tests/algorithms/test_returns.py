"""The estimators against their formulas, written out as slow loops."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rlcb.algorithms.returns import gae, vtrace

GAMMA = 0.97


class Inputs(NamedTuple):
    target_log_probs: Tensor
    behaviour_log_probs: Tensor
    rewards: Tensor
    values: Tensor
    discounts: Tensor


def inputs(seed: int, steps: int = 9, envs: int = 4) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    dones = torch.rand(steps, envs, generator=generator) < 0.25
    return Inputs(
        target_log_probs=-normal(steps, envs).abs(),
        behaviour_log_probs=-normal(steps, envs).abs(),
        rewards=normal(steps, envs),
        values=normal(steps + 1, envs),
        discounts=GAMMA * (~dones).double(),
    )


def literal_gae(rewards: Tensor, values: Tensor, discounts: Tensor, lambda_: float) -> Tensor:
    """A_t = sum over k of (product of gamma*lambda over t..t+k-1) delta_{t+k}."""
    steps, envs = rewards.shape
    result = torch.zeros_like(rewards)
    for b in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                weight = 1.0
                for j in range(t, k):
                    weight *= float(discounts[j, b]) * lambda_
                delta = rewards[k, b] + discounts[k, b] * values[k + 1, b] - values[k, b]
                result[t, b] += weight * delta
    return result


def literal_vtrace(x: Inputs, lambda_: float, clip_rho: float, clip_pg_rho: float) -> tuple[Tensor, Tensor]:
    """v_s = V(x_s) + sum over t of gamma^(t-s) (product of c_i over s..t-1) rho_t delta_t V (IMPALA paper, eq. 1)."""
    steps, envs = x.rewards.shape
    targets, advantages = torch.zeros(steps + 1, envs).double(), torch.zeros(steps, envs).double()
    ratios = (x.target_log_probs - x.behaviour_log_probs).exp()
    targets[steps] = x.values[steps]
    for b in range(envs):
        for s in range(steps):
            targets[s, b] = x.values[s, b]
            for t in range(s, steps):
                weight = 1.0
                for i in range(s, t):
                    weight *= float(x.discounts[i, b]) * lambda_ * min(1.0, float(ratios[i, b]))
                rho = min(clip_rho, float(ratios[t, b]))
                delta = x.rewards[t, b] + x.discounts[t, b] * x.values[t + 1, b] - x.values[t, b]
                targets[s, b] += weight * rho * delta
    for b in range(envs):
        for s in range(steps):
            rho = min(clip_pg_rho, float(ratios[s, b]))
            better = x.rewards[s, b] + x.discounts[s, b] * targets[s + 1, b]
            advantages[s, b] = rho * (better - x.values[s, b])
    return targets[:-1], advantages


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lambda_", [0.0, 0.95, 1.0])
def test_gae_is_its_formula(seed: int, lambda_: float) -> None:
    x = inputs(seed)
    found = gae(x.rewards, x.values, x.discounts, lambda_)
    torch.testing.assert_close(found, literal_gae(x.rewards, x.values, x.discounts, lambda_))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("lambda_", "rho", "pg_rho"), [(1.0, 1.0, 1.0), (0.9, 1.0, 2.0), (1.0, 0.5, 1.5)])
def test_vtrace_is_its_formula(seed: int, lambda_: float, rho: float, pg_rho: float) -> None:
    x = inputs(seed)
    targets, advantages = literal_vtrace(x, lambda_, rho, pg_rho)
    found = vtrace(*x, lambda_=lambda_, clip_rho=rho, clip_pg_rho=pg_rho)
    torch.testing.assert_close(found.targets, targets)
    torch.testing.assert_close(found.advantages, advantages)


@pytest.mark.parametrize("seed", range(5))
def test_vtrace_without_lag_is_gae_with_lambda_one(seed: int) -> None:
    x = inputs(seed)
    x.behaviour_log_probs.copy_(x.target_log_probs)
    found = vtrace(*x)
    advantages = gae(x.rewards, x.values, x.discounts, 1.0)
    torch.testing.assert_close(found.targets - x.values[:-1], advantages)
    torch.testing.assert_close(found.advantages, advantages)


def test_nothing_flows_over_the_end_of_an_episode() -> None:
    x = inputs(0)
    x.discounts[4] = 0
    before = gae(x.rewards, x.values, x.discounts, 0.95)[:5].clone()
    x.rewards[5:] += 100
    x.values[5:] -= 50
    torch.testing.assert_close(gae(x.rewards, x.values, x.discounts, 0.95)[:5], before)
