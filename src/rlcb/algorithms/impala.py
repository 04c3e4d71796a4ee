"""IMPALA: the policy gradient corrected for old data by V-trace (Espeholt et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rlcb.algorithms.interface import ActorCritic, Metrics, Ranks, Rollout, Shuffle
from rlcb.algorithms.metrics import fit_of_values
from rlcb.algorithms.returns import vtrace


@dataclass
class Unroll:
    """L successive steps of B environments, and the observation after them."""

    obs: Tensor  # [L+1, B, H, W, C] uint8
    actions: Tensor  # [L, B]
    log_probs: Tensor  # [L, B] under the policy that acted
    rewards: Tensor  # [L, B]
    discounts: Tensor  # [L, B]
    parts: ClassVar[int] = 1

    def __len__(self) -> int:
        return self.actions.numel()

    def split(self, size: int) -> list[tuple[Unroll, float]]:
        """By environments: V-trace needs the steps of one together."""
        length, n_envs = self.actions.shape
        columns = [column.split(max(1, size // length), dim=1) for column in vars(self).values()]
        return [(Unroll(*part), part[1].shape[1] / n_envs) for part in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Unrolls:
    """A rollout as unrolls of all environments, in the order they happened: slices, no copies."""

    gamma: float
    n_epochs: int
    length: int

    def __call__(self, rollout: Rollout, shuffle: Shuffle, ranks: Ranks) -> Iterator[Unroll]:
        discounts = rollout.discounts(self.gamma)
        for _ in range(self.n_epochs):
            for start in range(0, len(rollout.actions), self.length):
                end = start + self.length
                yield Unroll(
                    rollout.obs[start : end + 1],
                    rollout.actions[start:end],
                    rollout.log_probs[start:end],
                    rollout.rewards[start:end],
                    discounts[start:end],
                )


@dataclass(frozen=True)
class IMPALA:
    minibatches: Unrolls
    gae_lambda: float
    clip_rho: float
    clip_pg_rho: float
    ent_coef: float
    vf_coef: float
    target_kl: None = None

    def loss(self, policy: ActorCritic, batch: Unroll) -> tuple[Tensor, Metrics]:
        log_probs, entropies, values = (
            x.view_as(batch.actions)
            for x in policy.evaluate_actions(batch.obs[:-1].flatten(0, 1), batch.actions.flatten())
        )
        with torch.no_grad():
            after = policy.value(batch.obs[-1])  # nothing is learnt from it
            targets, advantages = vtrace(
                log_probs,
                batch.log_probs,
                batch.rewards,
                torch.cat([values, after.unsqueeze(0)]),
                batch.discounts,
                self.gae_lambda,
                self.clip_rho,
                self.clip_pg_rho,
            )
        policy_loss = -(log_probs * advantages).mean()
        value_loss = 0.5 * (values - targets).square().mean()
        entropy = entropies.mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        with torch.no_grad():
            log_ratios = log_probs - batch.log_probs
            ratios = log_ratios.exp()
            metrics = {
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
                "approx_kl": (ratios - 1 - log_ratios).mean(),
                "clip_fraction": ratios.gt(self.clip_rho).float().mean(),
                **fit_of_values(values, targets),
            }
        return loss, metrics
