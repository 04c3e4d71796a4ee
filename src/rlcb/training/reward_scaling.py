"""Rewards divided by the running std of discounted returns, so that one learning rate suits all games."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcb.algorithms import Rollout, moments

LIMIT = 10.0  # of a scaled reward


class DiscountedReturns:
    """Of some environments, from their last reset on."""

    def __init__(self, gamma: float, n_envs: int) -> None:
        self._gamma = gamma
        self.returns = torch.zeros(n_envs, dtype=torch.float64)

    def moments(self, rollout: Rollout, parts: int = 1) -> Tensor:
        """Count, sum and sum of squares of the returns during the rollout, of so many parts of the environments:
        [parts, 3]."""
        rewards, going_on = rollout.rewards.double(), (~rollout.dones).double()
        returns = torch.empty_like(rewards)
        for t in range(len(rewards)):
            returns[t] = self.returns = self._gamma * self.returns + rewards[t]
            # The reward of the last step still counts; the next episode starts from nothing.
            self.returns = self.returns * going_on[t]
        return torch.stack([moments(part.contiguous()) for part in returns.tensor_split(parts, dim=1)])


class RewardScale:
    """One for all environments of all processes: add the moments of every rollout before it is scaled."""

    def __init__(self) -> None:
        self.moments = torch.zeros(3, dtype=torch.float64)

    @property
    def std(self) -> float:
        count, total, squares = self.moments.tolist()
        return max(squares / count - (total / count) ** 2, 0.0) ** 0.5 if count else 1.0

    def apply(self, rewards: Tensor) -> None:
        """In place."""
        rewards.div_(self.std + 1e-8).clamp_(-LIMIT, LIMIT)
