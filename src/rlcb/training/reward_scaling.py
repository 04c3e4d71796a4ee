"""Rewards divided by the running std of discounted returns, so that one learning rate suits all games."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rlcb.algorithms import Ranks, Rollout


class RewardScaler:
    """Statistics are taken over all environments of all ranks, once per rollout, before it is scaled."""

    def __init__(self, gamma: float, n_envs: int, ranks: Ranks, limit: float = 10.0) -> None:
        self._gamma = gamma
        self._ranks = ranks
        self._limit = limit
        self._returns = torch.zeros(n_envs, dtype=torch.float64)
        self._moments = torch.zeros(3, dtype=torch.float64)  # count, sum, sum of squares

    @property
    def std(self) -> float:
        count, total, squares = self._moments.tolist()
        return max(squares / count - (total / count) ** 2, 0.0) ** 0.5 if count else 1.0

    def scale(self, rollout: Rollout) -> None:
        """In place."""
        moments = self._moments_of(rollout.rewards.double(), (~rollout.dones).double())
        self._ranks.sum(moments)
        self._moments += moments
        rollout.rewards.div_(self.std + 1e-8).clamp_(-self._limit, self._limit)

    def _moments_of(self, rewards: Tensor, going_on: Tensor) -> Tensor:
        returns = torch.empty_like(rewards)
        for t in range(len(rewards)):
            returns[t] = self._returns = self._gamma * self._returns + rewards[t]
            # The reward of the last step still counts; the next episode starts from nothing.
            self._returns = self._returns * going_on[t]
        return torch.stack([torch.tensor(float(returns.numel())).double(), returns.sum(), returns.square().sum()])

    def state(self) -> dict[str, Any]:
        return {"returns": self._returns.clone(), "moments": self._moments.clone()}

    def load(self, state: dict[str, Any], part: slice) -> None:
        self._returns = state["returns"][part].clone()
        self._moments = state["moments"].clone()
