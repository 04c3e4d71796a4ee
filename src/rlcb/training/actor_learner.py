"""Actor–learner execution: actors fill rollouts all the time, the learner learns from whichever are ready.

Rollouts lie in shared memory, and only the numbers of their slots travel. The weights that an actor plays with may be
a few gradient steps behind the learner's: V-trace makes up for that.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlcb.algorithms import Rollout
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.training.assembly import make_collector, make_learner, make_policy, part_of
from rlcb.training.collector import empty_rollout
from rlcb.training.crew import Crew, receive, send
from rlcb.training.execution import Episode, PhasesOfProcesses, Report
from rlcb.training.flat import FlatParameters
from rlcb.training.merging import add_phases
from rlcb.training.ranks import Ranks
from rlcb.training.reward_scaling import DiscountedReturns, RewardScale
from rlcb.training.shared import SharedWeights, shared_rollout

SLOTS = 2  # per actor: one to fill while the other waits to be learnt from
POLITENESS = 10  # of actors: where cores are scarce, learning from what is ready goes first


class Filled(NamedTuple):
    """What an actor says of a slot that it has filled."""

    slot: int
    version: int  # of the weights that played
    episodes: list[Episode]
    moments: Tensor | None  # of the discounted returns, where rewards are scaled by them
    phases: dict[str, float]


class ActorLearner:
    """One learner with its share of the actors. Several learners average their gradients."""

    def __init__(self, config: Config, ranks: Ranks, phases: Phases) -> None:
        training, crew = config.training, config.crew
        assert crew is not None
        self._config, self._ranks, self._phases = config, ranks, phases
        self._actors = range(crew.number)[part_of(crew.number, ranks.index, ranks.size)]
        self._n_envs, self._length = crew.envs_each, config.batch_size // config.num_envs
        self._steps = training.n_steps // self._length  # gradient steps per update
        self._max_lag = config.parallel.max_policy_lag
        self.policy = make_policy(config)
        self._learner = make_learner(config, self.policy, ranks, batch_share=config.batch_size / ranks.size)
        self._scale = RewardScale() if training.reward_scaling else None
        self._moments, self._shared_moments = torch.zeros(2, 3, dtype=torch.float64)
        self._batch = empty_rollout(self._length, self._n_envs * len(self._actors))
        self._slots = [[shared_rollout(self._length, self._n_envs) for _ in range(SLOTS)] for _ in self._actors]
        self._ready: deque[tuple[int, Filled]] = deque()
        self._crew: Crew | None = None
        self._update = self._late = 0

    def started(self) -> list[int]:
        self._begin().wait_until_ready()
        return [self._n_envs] * len(self._actors)

    def _begin(self) -> Crew:
        """Actors start when the weights are known: after a checkpoint was loaded."""
        if self._crew is None:
            self._weights = SharedWeights(self._learner.parameters)
            self._crew = Crew(len(self._actors), act, self._arguments, self._name, self._config.patience)
            for actor in range(len(self._actors)):
                self._grant_free_slots(actor)
        return self._crew

    def _name(self, actor: int) -> str:
        return f"rlcb-actor-{self._actors[actor]}"

    def _arguments(self, actor: int, life: int) -> tuple[Any, ...]:
        """A resumed run, like a replaced actor, goes on with other levels."""
        part = slice(self._actors[actor] * self._n_envs, (self._actors[actor] + 1) * self._n_envs)
        return (self._config, part, self._update + life, self._weights, self._slots[actor])

    def update(self, learning_rate: float) -> Report:
        """As many gradient steps as a rollout of all environments gives sequentially, from whatever is ready."""
        crew = self._begin()
        self._phases.mark("other")
        episodes: list[Episode] = []
        lags: list[int] = []
        phases: list[PhasesOfProcesses] = []
        for _ in range(self._steps):
            for actor, filled in self._fill_batch():
                episodes += filled.episodes
                lags.append(self._lag(filled))
                phases.append({f"actor_{self._actors[actor]}": filled.phases})
            self._learner.learn(self._batch, _no_shuffle, learning_rate)
            self._weights.publish(self._learner.parameters)
            self._phases.mark("learn")
        self._update += 1
        if self._scale:
            self._share_moments()
        return Report(
            metrics={**self._learner.take_metrics(), **self._lag_metrics(lags)},
            episodes=episodes,
            phases=add_phases([{f"learner_{self._ranks.index}": self._phases.take()}, *phases]),
            timesteps=self._steps * self._length * self._n_envs * len(self._actors),
            skipped=self._learner.take_skipped(),
            replaced=crew.replaced,
        )

    def _lag_metrics(self, lags: list[int]) -> dict[str, float]:
        mean, most = sum(lags) / len(lags), max(lags)
        return {"policy_lag_mean": mean, "policy_lag_max": most, "late_rollouts_count": self._late}

    def _lag(self, filled: Filled) -> int:
        return (self._weights.version - filled.version) * self._config.training.n_epochs

    def _fill_batch(self) -> list[tuple[int, Filled]]:
        """With the oldest that are ready and not too old. A slot is copied, and given back, before anybody else is
        heard of: so it is either among those that are ready, or its actor's, whoever dies."""
        self._hear(wait=False)
        taken: list[tuple[int, Filled]] = []
        while len(taken) < len(self._actors):
            while not self._ready:
                with self._phases.during("wait"):
                    self._hear(wait=True)
            actor, filled = self._ready.popleft()
            if self._lag(filled) > self._max_lag:
                self._late += 1
            else:
                self._copy(actor, filled, len(taken))
                taken.append((actor, filled))
            self._begin().send(actor, filled.slot)
        if self._scale:
            self._scale.moments = self._shared_moments + self._moments
            self._scale.apply(self._batch.rewards)
        self._phases.mark("other")
        return taken

    def _copy(self, actor: int, filled: Filled, place: int) -> None:
        columns = slice(place * self._n_envs, (place + 1) * self._n_envs)
        for name, values in vars(self._slots[actor][filled.slot]).items():
            getattr(self._batch, name)[:, columns].copy_(values)
        if filled.moments is not None:
            self._moments += filled.moments

    def _hear(self, wait: bool) -> None:
        messages, replaced = self._begin().receive(wait)
        self._ready.extend(messages)
        for actor in replaced:
            self._grant_free_slots(actor)

    def _grant_free_slots(self, actor: int) -> None:
        """To someone new: all but those that were filled before and are still to be learnt from."""
        full = {filled.slot for owner, filled in self._ready if owner == actor}
        for slot in set(range(SLOTS)) - full:
            self._begin().send(actor, slot)

    def _share_moments(self) -> None:
        """Learners scale by their own rewards at once, and by the others' from the next update on: nobody waits."""
        self._ranks.sum(self._moments)
        self._shared_moments += self._moments
        self._moments.zero_()

    def settle(self) -> None:
        """Rollouts that are under way count when they are learnt from."""

    def state(self) -> dict[str, Any]:
        """Without the environments: actors go on while this is written."""
        moments = self._shared_moments.clone() if self._scale else None
        return {"update": self._update, **self._learner.state(), "reward_moments": moments, "envs": {}}

    def load(self, state: dict[str, Any]) -> None:
        self._update = state["update"]
        self._learner.load(state)
        if self._scale:
            self._shared_moments = state["reward_moments"].clone()

    def close(self) -> None:
        if self._crew is not None:
            self._crew.close()


def act(pipe: Any, config: Config, part: slice, life: int, weights: SharedWeights, slots: list[Rollout]) -> None:
    """An actor's life: get a slot, fill it with the newest weights, say so."""
    os.nice(POLITENESS)
    phases = Phases()
    policy = make_policy(config)
    mine = FlatParameters(policy).parameters.data
    collector, _ = make_collector(config, part, policy, phases, life)
    scales = config.training.reward_scaling
    returns = DiscountedReturns(config.training.gamma, part.stop - part.start) if scales else None
    version = -1
    send(pipe, "ready")
    while True:
        with phases.during("wait"):
            slot = receive(pipe)
        if slot is None:
            return
        if weights.version != version:
            version = weights.copy_to(mine)
        episodes = collector.collect(slots[slot], bootstrap=False)
        moments = returns.moments(slots[slot])[0] if returns else None
        phases.mark("other")
        send(pipe, Filled(slot, version, episodes, moments, phases.take()))


def _no_shuffle(epoch: int) -> Tensor:
    raise AssertionError("unrolls are learnt from in the order they happened")
