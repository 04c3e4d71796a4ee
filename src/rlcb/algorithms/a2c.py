"""Advantage actor-critic: the policy gradient, one pass over every rollout (Mnih et al., 2016, without asynchrony)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlcb.algorithms.interface import ActorCritic, Metrics
from rlcb.algorithms.metrics import fit_of_values
from rlcb.algorithms.minibatches import StepMinibatches, Steps


@dataclass(frozen=True)
class A2C:
    minibatches: StepMinibatches
    ent_coef: float
    vf_coef: float
    target_kl: None = None

    def loss(self, policy: ActorCritic, batch: Steps) -> tuple[Tensor, Metrics]:
        log_probs, entropies, values = policy.evaluate_actions(batch.obs, batch.actions)
        policy_loss = -(log_probs * batch.advantages).mean()
        value_loss = 0.5 * (values - batch.returns).square().mean()
        entropy = entropies.mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        with torch.no_grad():
            metrics = {
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
                **fit_of_values(batch.values, batch.returns),
            }
        return loss, metrics
