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

    def __len__(self) -> int:
        return len(self.actions)

    def split(self, size: int) -> list[tuple[Steps, float]]:
        columns = [column.split(size) for column in vars(self).values()]
        return [(Steps(*part), len(part[1]) / len(self)) for part in zip(*columns, strict=True)]


@dataclass(frozen=True)
class StepMinibatches:
    """Each minibatch takes as many steps from every environment, so any split of environments over ranks yields the
    same global minibatches. Of a rollout that was cut short it takes fewer, but there are as many minibatches."""

    gamma: float
    gae_lambda: float
    n_epochs: int
    per_epoch: int
    normalize_advantage: bool

    def __call__(self, rollout: Rollout, shuffle: Shuffle, ranks: Ranks) -> Iterator[Steps]:
        advantages = gae(rollout.rewards, rollout.values, rollout.discounts(self.gamma), self.gae_lambda)
        returns = (advantages + rollout.values[:-1]).flatten()
        n_envs = rollout.actions.shape[1]
        obs = rollout.obs[:-1].flatten(0, 1)
        actions, log_probs, values = (x.flatten() for x in (rollout.actions, rollout.log_probs, rollout.values[:-1]))
        for epoch in range(self.n_epochs):
            indices: list[Tensor | None] = [None] if self.per_epoch == 1 else self._indices(shuffle(epoch), n_envs)
            chosen = [_take(advantages.flatten(), index) for index in indices]
            if self.normalize_advantage:
                chosen = _normalised(chosen, ranks)
            for index, advantage in zip(indices, chosen, strict=True):
                yield Steps(
                    _take(obs, index),
                    _take(actions, index),
                    _take(log_probs, index),
                    _take(values, index),
                    advantage,
                    _take(returns, index),
                )

    def _indices(self, order: Tensor, n_envs: int) -> list[Tensor | None]:
        """Of every minibatch. None: all there is, in whatever order, so that nothing needs to be moved."""
        return [part.flatten() for part in (order * n_envs + torch.arange(n_envs)).tensor_split(self.per_epoch)]


def _take(column: Tensor, index: Tensor | None) -> Tensor:
    return column if index is None else column.index_select(0, index)


def _normalised(minibatches: list[Tensor], ranks: Ranks) -> list[Tensor]:
    """Each with mean 0 and std 1, taken over its samples on all ranks."""
    wide = [advantages.double() for advantages in minibatches]
    moments = torch.stack([torch.stack([torch.ones_like(x).sum(), x.sum(), x.square().sum()]) for x in wide])
    ranks.sum(moments)
    count, total, squares = moments.T
    means = total / count
    stds = (squares / count - means.square()).clamp(min=0).sqrt() + 1e-8
    return [((x - mean) / std).float() for x, mean, std in zip(wide, means, stds, strict=True)]
