"""Estimators of what an action was worth. Pure functions; T steps, B environments, time first.

`discounts` [T, B] are gamma where the episode goes on and 0 where it ended; `values` [T+1, B] include the bootstrap.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class VTrace(NamedTuple):
    targets: Tensor  # [T, B] what the values should have been
    advantages: Tensor  # [T, B] of the policy gradient, importance weight included


def gae(rewards: Tensor, values: Tensor, discounts: Tensor, lambda_: float) -> Tensor:
    """Generalised advantage estimation [T, B] (Schulman et al., 2016)."""
    errors = rewards + discounts * values[1:] - values[:-1]
    return _backward_sum(errors, discounts * lambda_)


def vtrace(
    target_log_probs: Tensor,
    behaviour_log_probs: Tensor,
    rewards: Tensor,
    values: Tensor,
    discounts: Tensor,
    lambda_: float = 1.0,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
) -> VTrace:
    """V-trace (Espeholt et al., 2018): the same sum, weighted by how much likelier the actions have become."""
    ratios = (target_log_probs - behaviour_log_probs).exp()
    errors = ratios.clamp(max=clip_rho) * (rewards + discounts * values[1:] - values[:-1])
    targets = values[:-1] + _backward_sum(errors, discounts * lambda_ * ratios.clamp(max=1.0))
    next_targets = torch.cat([targets[1:], values[-1:]])
    advantages = ratios.clamp(max=clip_pg_rho) * (rewards + discounts * next_targets - values[:-1])
    return VTrace(targets, advantages)


def _backward_sum(terms: Tensor, decays: Tensor) -> Tensor:
    """x_t = terms_t + decays_t * x_{t+1}."""
    sums = torch.empty_like(terms)
    total = torch.zeros_like(terms[0])
    for t in reversed(range(len(terms))):
        total = torch.addcmul(terms[t], decays[t], total, out=sums[t])
    return sums
