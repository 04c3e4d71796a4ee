"""Lockstep execution: every rank collects from its own environments and computes its share of every gradient.

Sequential training is this with one rank that has all environments.
"""

from __future__ import annotations

from typing import Any

from rlcb.algorithms import RECIPES, Ranks
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, make_envs
from rlcb.envs.randomness import EnvRandomness
from rlcb.policy import MICRO_BATCH_SIZES, Policy
from rlcb.training.collector import Collector
from rlcb.training.execution import Report
from rlcb.training.learner import Learner
from rlcb.training.reward_scaling import RewardScaler


class Lockstep:
    """One rank, with the environments `part` of the run's."""

    def __init__(self, config: Config, ranks: Ranks, part: slice | None = None) -> None:
        env, training, recipe = config.env, config.training, RECIPES[config.algo]
        self._part = part or slice(0, config.num_envs)
        self._n_steps = training.n_steps
        self._update = 0
        self._phases = Phases()
        self._envs = make_envs(
            env.name,
            config.num_envs,
            seed=env.seed,
            part=self._part,
            distribution_mode=env.distribution_mode,
            num_levels=env.num_levels,
            start_level=env.start_level,
        )
        self.policy = Policy(config.model.arch, OBS_SHAPE, N_ACTIONS, seed=env.seed)
        self._randomness = EnvRandomness(env.seed, range(config.num_envs)[self._part])
        self._learner = Learner(
            self.policy,
            recipe.algorithm(config),
            lambda parameters: recipe.optimizer(parameters, training.learning_rate),
            max_grad_norm=training.max_grad_norm,
            micro_batch_size=config.hardware.micro_batch_size or MICRO_BATCH_SIZES[config.model.arch],
            ranks=ranks,
        )
        self._collector = Collector(self._envs, self.policy, training.n_steps, self._randomness, self._phases)
        self._scaler = RewardScaler(training.gamma, self._envs.num_envs, ranks) if training.reward_scaling else None

    def update(self, learning_rate: float) -> Report:
        """Collect one rollout and learn from it."""
        episodes = self._collector.collect()
        if self._scaler:
            self._scaler.scale(self._collector.rollout)
        self._phases.mark("other")
        metrics = self._learner.learn(self._collector.rollout, self._shuffle, learning_rate)
        self._update += 1
        self._phases.mark("learn")
        return Report(metrics, episodes, self._phases.take(), self._learner.skipped)

    def _shuffle(self, epoch: int) -> Any:
        return self._randomness.order(self._update, epoch, self._n_steps)

    def state(self) -> dict[str, Any]:
        """Everything that the next update depends on."""
        return {
            "update": self._update,
            **self._learner.state(),
            "envs": self._collector.state(),
            "reward_scaling": self._scaler.state() if self._scaler else None,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._update = state["update"]
        self._learner.load(state)
        self._collector.load(state["envs"], self._part)
        if self._scaler:
            self._scaler.load(state["reward_scaling"], self._part)

    def close(self) -> None:
        self._envs.close()
