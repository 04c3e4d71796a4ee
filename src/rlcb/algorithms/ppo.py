"""Proximal policy optimisation (Schulman et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlcb.algorithms.interface import ActorCritic, Metrics
from rlcb.algorithms.metrics import fit_of_values
from rlcb.algorithms.minibatches import StepMinibatches, Steps


@dataclass(frozen=True)
class PPO:
    minibatches: StepMinibatches
    clip_range: float
    clip_range_vf: float | None
    ent_coef: float
    vf_coef: float
    target_kl: float | None

    def loss(self, policy: ActorCritic, batch: Steps) -> tuple[Tensor, Metrics]:
        log_probs, entropies, values = policy.evaluate_actions(batch.obs, batch.actions)
        log_ratios = log_probs - batch.log_probs
        ratios = log_ratios.exp()
        clipped = ratios.clamp(1 - self.clip_range, 1 + self.clip_range)
        policy_loss = -torch.min(ratios * batch.advantages, clipped * batch.advantages).mean()
        value_loss = self._value_loss(values, batch)
        entropy = entropies.mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        with torch.no_grad():
            metrics = {
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
                # Always positive and of low variance (Schulman, "Approximating KL divergence", 2020).
                "approx_kl": (ratios - 1 - log_ratios).mean(),
                "clip_fraction": (ratios - 1).abs().gt(self.clip_range).float().mean(),
                **fit_of_values(batch.values, batch.returns),
            }
        return loss, metrics

    def _value_loss(self, values: Tensor, batch: Steps) -> Tensor:
        errors = (values - batch.returns).square()
        if self.clip_range_vf is not None:
            moved = (values - batch.values).clamp(-self.clip_range_vf, self.clip_range_vf)
            errors = torch.max(errors, (batch.values + moved - batch.returns).square())
        return 0.5 * errors.mean()
