"""Minibatches of single steps, for PPO and A2C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rlcb.algorithms.interface import Ranks, Rollout, Shuffle
from rlcb.algorithms.returns import gae


@dataclass
class Steps:
    """N steps, in any order."""

    obs: Tensor  # [N, H, W, C] uint8
    actions: Tensor  # [N]
    log_probs: Tensor  # [N] under the policy that acted
    values: Tensor  # [N] likewise
    advantages: Tensor  # [N]
    returns: Tensor  # [N]

    def split(self, size: int) -> list[tuple[Steps, float]]:
        columns = [column.split(size) for column in vars(self).values()]
        total = len(self.actions)
        return [(Steps(*part), len(part[1]) / total) for part in zip(*columns, strict=True)]


@dataclass(frozen=True)
class StepMinibatches:
    """Each minibatch takes `steps_per_env` steps from every environment, so any split of environments over ranks
    yields the same global minibatches."""

    gamma: float
    gae_lambda: float
    n_epochs: int
    steps_per_env: int
    normalize_advantage: bool

    def __call__(self, rollout: Rollout, shuffle: Shuffle, ranks: Ranks) -> Iterator[Steps]:
        advantages = gae(rollout.rewards, rollout.values, rollout.discounts(self.gamma), self.gae_lambda)
        returns = (advantages + rollout.values[:-1]).flatten()
        n_steps, n_envs = rollout.actions.shape
        columns = torch.arange(n_envs)
        obs = rollout.obs.flatten(0, 1)
        actions, log_probs, values = (x.flatten() for x in (rollout.actions, rollout.log_probs, rollout.values[:-1]))
        for epoch in range(self.n_epochs):
            indices = (shuffle(epoch) * n_envs + columns).view(n_steps // self.steps_per_env, -1)  # [minibatches, N]
            chosen = advantages.flatten()[indices]
            if self.normalize_advantage:
                chosen = _normalised(chosen, ranks)
            for index, advantage in zip(indices, chosen, strict=True):
                yield Steps(
                    obs.index_select(0, index),
                    actions[index],
                    log_probs[index],
                    values[index],
                    advantage,
                    returns[index],
                )


def _normalised(advantages: Tensor, ranks: Ranks) -> Tensor:
    """Every row with mean 0 and std 1, taken over the row's samples on all ranks."""
    wide = advantages.double()
    moments = torch.stack([torch.ones_like(wide).sum(1), wide.sum(1), wide.square().sum(1)])
    ranks.sum(moments)
    count, total, squares = moments
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=0).sqrt()
    normal: Tensor = (wide - mean[:, None]) / (std[:, None] + 1e-8)
    return normal.to(advantages.dtype)
