"""What to compute from a rollout: pure maths, one table of recipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rlcb.algorithms.a2c import A2C
from rlcb.algorithms.impala import IMPALA, Unrolls
from rlcb.algorithms.interface import Algorithm, Batch, Metrics, Ranks, Rollout, Shuffle
from rlcb.algorithms.minibatches import StepMinibatches, moments, parts_here
from rlcb.algorithms.ppo import PPO
from rlcb.config import Config
from rlcb.kernels import RMSprop

__all__ = [
    "RECIPES",
    "Algorithm",
    "Batch",
    "Metrics",
    "Ranks",
    "Recipe",
    "Rollout",
    "Shuffle",
    "moments",
    "parts_here",
]


class Recipe(NamedTuple):
    algorithm: Callable[[Config], Algorithm]
    optimizer: Callable[[Tensor, float], torch.optim.Optimizer]  # (all parameters, learning rate)


def _adam(parameters: Tensor, learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.Adam([parameters], lr=learning_rate, eps=1e-5, fused=True)


def _rmsprop(parameters: Tensor, learning_rate: float) -> torch.optim.Optimizer:
    return RMSprop([parameters], lr=learning_rate, alpha=0.99, eps=1e-5)


def _step_minibatches(config: Config) -> StepMinibatches:
    training = config.training
    return StepMinibatches(
        gamma=training.gamma,
        gae_lambda=training.gae_lambda,
        n_epochs=training.n_epochs,
        per_epoch=config.rollout_size // config.batch_size,
        normalize_advantage=training.normalize_advantage,
        parts=config.gradient_parts,
    )


def _ppo(config: Config) -> PPO:
    return PPO(
        _step_minibatches(config),
        clip_range=config.ppo.clip_range,
        clip_range_vf=config.ppo.clip_range_vf,
        ent_coef=config.training.ent_coef,
        vf_coef=config.training.vf_coef,
        target_kl=config.ppo.target_kl,
    )


def _a2c(config: Config) -> A2C:
    return A2C(_step_minibatches(config), ent_coef=config.training.ent_coef, vf_coef=config.training.vf_coef)


def _impala(config: Config) -> IMPALA:
    training, settings = config.training, config.impala
    return IMPALA(
        Unrolls(training.gamma, training.n_epochs, length=config.batch_size // config.num_envs),
        gae_lambda=training.gae_lambda,
        clip_rho=settings.vtrace_clip_rho_threshold,
        clip_pg_rho=settings.vtrace_clip_pg_rho_threshold,
        ent_coef=training.ent_coef,
        vf_coef=training.vf_coef,
    )


RECIPES: dict[str, Recipe] = {
    "ppo": Recipe(_ppo, _adam),
    "a2c": Recipe(_a2c, _rmsprop),
    "a3c": Recipe(_a2c, _rmsprop),  # the same loss; asynchrony is a matter of execution
    "impala": Recipe(_impala, _rmsprop),
}
