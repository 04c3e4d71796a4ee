"""Lockstep execution: every rank collects from its own environments and computes its share of every gradient.

Sequential training is this with one rank that has all environments.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rlcb.algorithms import parts_here
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.training.assembly import make_collector, make_learner, make_policy, part_of
from rlcb.training.collector import empty_rollout
from rlcb.training.execution import Report
from rlcb.training.ranks import Alone, Ranks
from rlcb.training.reward_scaling import DiscountedReturns, RewardScale
from rlcb.training.straggler import StragglerCut


class Lockstep:
    """One rank, with its share of the environments."""

    def __init__(self, config: Config, ranks: Ranks, phases: Phases | None = None) -> None:
        training = config.training
        self._ranks, self._phases = ranks, phases or Phases()
        self._part = part_of(config.num_envs, ranks.index, ranks.size)
        self._n_steps = training.n_steps
        self._update = 0
        self.policy = make_policy(config)
        self._n_envs = self._part.stop - self._part.start
        self._gradient_parts = parts_here(config.gradient_parts, ranks.size, self._n_envs)
        self._weight = self._n_envs * ranks.size / config.num_envs  # 1 where all ranks have as many
        averages = config.sync == "average" and ranks.size > 1
        self._average_every = config.cluster.average_every if averages else None
        if averages:  # each rank learns by itself between two averages
            self._learner = make_learner(config, self.policy, Alone())
        else:
            self._learner = make_learner(config, self.policy, ranks, batch_share=config.batch_size / ranks.size)
        minibatches = config.rollout_size // config.batch_size
        cuts = config.cuts_stragglers
        self._cut = StragglerCut(ranks.count, ranks.size, self._n_steps, minibatches) if cuts else None
        self._collector, self._randomness = make_collector(config, self._part, self.policy, self._phases)
        self._rollout = empty_rollout(self._n_steps, self._n_envs)
        self._returns = DiscountedReturns(training.gamma, self._n_envs)
        self._scale = RewardScale() if training.reward_scaling else None

    def started(self) -> list[int]:
        return [self._n_envs] if self._ranks.size > 1 else []

    def update(self, learning_rate: float) -> Report:
        """Collect one rollout and learn from it."""
        episodes = self._collector.collect(self._rollout, enough=self._cut)
        rollout = self._rollout.first(self._collector.taken)
        if self._cut:
            self._cut.finish()
        if self._scale:
            self._scale.moments += self._ranks.total(self._returns.moments(rollout, self._gradient_parts))
            self._scale.apply(rollout.rewards)
        self._phases.mark("other")
        self._learner.learn(rollout, self._shuffle, learning_rate)
        metrics = self._learner.take_metrics()
        if self._cut:
            metrics["left_out_count"] = self._n_envs * self._n_steps - rollout.actions.numel()
        self._update += 1
        self._phases.mark("learn")
        if self._average_every and self._update % self._average_every == 0:
            self._average()
        return Report(
            metrics,
            episodes,
            {f"worker_{self._ranks.index}": self._phases.take()},
            rollout.actions.numel(),
            self._learner.take_skipped(),
        )

    def _shuffle(self, epoch: int) -> Tensor:
        return self._randomness.order(self._update, epoch, self._collector.taken)

    def settle(self) -> None:
        """Between two updates nothing is under way; ranks that step by themselves agree: there is one checkpoint."""
        if self._average_every:
            self._average()

    def _average(self) -> None:
        """Weights, and what the optimizer remembers of their gradients; who has more environments counts for more."""
        for values in (self._learner.parameters, *self._learner.optimizer_memory()):
            values *= self._weight
        self._ranks.mean(self._learner.parameters)
        for memory in self._learner.optimizer_memory():
            self._ranks.mean(memory, wide=True)

    def state(self) -> dict[str, Any]:
        return {
            "update": self._update,
            "step": self._collector.step,
            **self._learner.state(),
            "reward_moments": self._scale.moments.clone() if self._scale else None,
            "envs": {**self._collector.state(), "discounted_returns": self._returns.returns.clone()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Of all environments; this rank takes its own."""
        envs = {name: values[self._part] for name, values in state["envs"].items()}
        self._update = state["update"]
        self._learner.load(state)
        self._collector.load(envs, state["step"])
        self._returns.returns = envs["discounted_returns"].clone()
        if self._scale:
            self._scale.moments = state["reward_moments"].clone()

    def close(self) -> None:
        self._collector.close()
