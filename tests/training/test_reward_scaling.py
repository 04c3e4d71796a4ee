from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcb.algorithms import Rollout
from rlcb.training.collector import empty_rollout
from rlcb.training.reward_scaling import DiscountedReturns, RewardScale


def rollouts(count: int, steps: int = 6, envs: int = 3) -> list[Rollout]:
    g = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        rollout = empty_rollout(steps, envs)
        rollout.rewards.copy_(torch.randn(steps, envs, generator=g))
        rollout.dones.copy_(torch.rand(steps, envs, generator=g) < 0.3)
        made.append(rollout)
    return made


def test_rewards_are_divided_by_the_std_of_all_discounted_returns_so_far() -> None:
    returns, scale = DiscountedReturns(0.9, 3), RewardScale()
    seen: list[float] = []
    running = np.zeros(3)
    for rollout in rollouts(3):
        rewards, dones = rollout.rewards.clone().double().numpy(), rollout.dones.numpy()
        for reward, done in zip(rewards, dones, strict=True):
            running = 0.9 * running + reward
            seen += running.tolist()
            running[done] = 0
        scale.moments += returns.moments(rollout)[0]
        scale.apply(rollout.rewards)
        assert scale.std == pytest.approx(np.std(seen))
        expected = np.clip(rewards / np.std(seen), -10, 10)
        np.testing.assert_allclose(rollout.rewards.numpy(), expected, rtol=1e-5)


def test_moments_of_parts_add_up() -> None:
    [first] = rollouts(1)
    together = DiscountedReturns(0.9, 3).moments(first)[0]
    parts = torch.zeros(3, dtype=torch.float64)
    for part in (slice(0, 1), slice(1, 3)):
        piece = Rollout(**{name: values[:, part] for name, values in vars(first).items()})
        parts += DiscountedReturns(0.9, part.stop - part.start).moments(piece)[0]
    torch.testing.assert_close(parts, together)
    torch.testing.assert_close(DiscountedReturns(0.9, 3).moments(first, parts=3).sum(0), together)


def test_no_reward_at_all_is_no_trouble() -> None:
    [rollout] = rollouts(1)
    rollout.rewards.zero_()
    scale = RewardScale()
    scale.apply(rollout.rewards)
    scale.moments += DiscountedReturns(0.99, 3).moments(rollout)[0]
    scale.apply(rollout.rewards)
    assert torch.equal(rollout.rewards, torch.zeros_like(rollout.rewards))
