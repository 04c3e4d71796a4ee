"""Minibatches of single steps, for PPO and A2C.

Sums are rounded, so their bits depend on the order of what is added up. Here that order belongs to the experiment: the
environments are cut into parts, always the same ones, whatever sums over samples is summed up within a part first, and
the parts are added up as a tree (rlcb.kernels.add_up). A rank has one or more whole parts, next to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rlcb.algorithms.interface import Ranks, Rollout, Shuffle
from rlcb.algorithms.returns import gae


@dataclass
class Steps:
    """N steps, part by part."""

    obs: Tensor  # [N, H, W, C] uint8
    actions: Tensor  # [N]
    log_probs: Tensor  # [N] under the policy that acted
    values: Tensor  # [N] likewise
    advantages: Tensor  # [N]
    returns: Tensor  # [N]
    parts: int = 1

    def __len__(self) -> int:
        return len(self.actions)

    def split(self, size: int) -> list[tuple[Steps, float]]:
        """A power of two of them: whole parts, or as many pieces of every part."""
        pieces = 1
        while len(self) > size * pieces and len(self) >= 2 * pieces:
            pieces *= 2
        whole, of_each, parts = min(pieces, self.parts), max(1, pieces // self.parts), max(1, self.parts // pieces)
        columns = {
            name: [piece for part in column.tensor_split(whole) for piece in part.tensor_split(of_each)]
            for name, column in vars(self).items()
            if name != "parts"
        }
        split = (
            replace(self, parts=parts, **{name: column[n] for name, column in columns.items()}) for n in range(pieces)
        )
        return [(piece, len(piece) / len(self)) for piece in split]


@dataclass(frozen=True)
class StepMinibatches:
    """Each minibatch takes as many steps from every environment, so any split of environments over ranks yields the
    same global minibatches. Of a rollout that was cut short it takes fewer, but there are as many minibatches."""

    gamma: float
    gae_lambda: float
    n_epochs: int
    per_epoch: int
    normalize_advantage: bool
    parts: int = 1  # of all environments

    def __call__(self, rollout: Rollout, shuffle: Shuffle, ranks: Ranks) -> Iterator[Steps]:
        advantages = gae(rollout.rewards, rollout.values, rollout.discounts(self.gamma), self.gae_lambda)
        returns = (advantages + rollout.values[:-1]).flatten()
        n_envs = rollout.actions.shape[1]
        parts = parts_here(self.parts, ranks.size, n_envs)
        obs = rollout.obs[:-1].flatten(0, 1)
        actions, log_probs, values = (x.flatten() for x in (rollout.actions, rollout.log_probs, rollout.values[:-1]))
        for epoch in range(self.n_epochs):
            indices: list[Tensor | None] = [None]  # all there is, as it lies
            if self.parts > 1 or self.per_epoch > 1:
                in_order = torch.arange(len(rollout.actions)).unsqueeze(1)
                indices = self._indices(in_order if self.per_epoch == 1 else shuffle(epoch), n_envs)
            chosen = [_take(advantages.flatten(), index) for index in indices]
            if self.normalize_advantage:
                chosen = _normalised(chosen, parts, ranks)
            for index, advantage in zip(indices, chosen, strict=True):
                yield Steps(
                    _take(obs, index),
                    _take(actions, index),
                    _take(log_probs, index),
                    _take(values, index),
                    advantage,
                    _take(returns, index),
                    parts,
                )

    def _indices(self, order: Tensor, n_envs: int) -> list[Tensor | None]:
        """Of every minibatch, environment by environment."""
        places = order * n_envs + torch.arange(n_envs)
        return [minibatch.T.flatten() for minibatch in places.tensor_split(self.per_epoch)]


def parts_here(parts: int, ranks: int, n_envs: int) -> int:
    """How many whole parts a rank has, of `parts` of all environments; 1 where they do not divide."""
    here, left = divmod(parts, ranks)
    return here if here and not left and n_envs % here == 0 else 1


def _take(column: Tensor, index: Tensor | None) -> Tensor:
    return column if index is None else column.index_select(0, index)


def _normalised(minibatches: list[Tensor], parts: int, ranks: Ranks) -> list[Tensor]:
    """Each with mean 0 and std 1, taken over its samples on all ranks."""
    wide = [advantages.double() for advantages in minibatches]
    rows = [torch.stack([moments(part) for part in x.tensor_split(parts)]) for x in wide]
    count, total, squares = ranks.total(torch.stack(rows, dim=1)).T
    means = total / count
    stds = (squares / count - means.square()).clamp(min=0).sqrt() + 1e-8
    return [((x - mean) / std).float() for x, mean, std in zip(wide, means, stds, strict=True)]


def moments(values: Tensor) -> Tensor:
    """Their count, sum and sum of squares, in double precision. NumPy adds up on one thread, whatever their number."""
    wide = values.double().numpy()
    return torch.tensor([wide.size, wide.sum(), np.square(wide).sum()], dtype=torch.float64)
