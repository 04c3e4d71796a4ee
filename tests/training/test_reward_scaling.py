from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcb.algorithms import Rollout
from rlcb.training.collector import empty_rollout
from rlcb.training.ranks import Alone
from rlcb.training.reward_scaling import RewardScaler


def rollouts(count: int, steps: int = 6, envs: int = 3) -> list[Rollout]:
    g = torch.Generator().manual_seed(0)
    made = []
    for _ in range(count):
        rollout = empty_rollout(steps, envs, (1,))
        rollout.rewards.copy_(torch.randn(steps, envs, generator=g))
        rollout.dones.copy_(torch.rand(steps, envs, generator=g) < 0.3)
        made.append(rollout)
    return made


def test_rewards_are_divided_by_the_std_of_all_discounted_returns_so_far() -> None:
    scaler = RewardScaler(0.9, 3, Alone())
    seen: list[float] = []
    running = np.zeros(3)
    for rollout in rollouts(3):
        rewards, dones = rollout.rewards.clone().double().numpy(), rollout.dones.numpy()
        for reward, done in zip(rewards, dones, strict=True):
            running = 0.9 * running + reward
            seen += running.tolist()
            running[done] = 0
        scaler.scale(rollout)
        assert scaler.std == pytest.approx(np.std(seen))
        expected = np.clip(rewards / np.std(seen), -10, 10)
        np.testing.assert_allclose(rollout.rewards.numpy(), expected, rtol=1e-5)


def test_state_goes_on_and_can_be_sliced() -> None:
    [first] = rollouts(1)
    whole = RewardScaler(0.9, 3, Alone())
    whole.scale(first)
    part = RewardScaler(0.9, 2, Alone())
    part.load(whole.state(), slice(1, 3))
    assert part.std == whole.std
    assert torch.equal(part.state()["returns"], whole.state()["returns"][1:3])


def test_no_reward_at_all_is_no_trouble() -> None:
    rollout = empty_rollout(4, 2, (1,))
    RewardScaler(0.99, 2, Alone()).scale(rollout)
    assert torch.equal(rollout.rewards, torch.zeros(4, 2))
