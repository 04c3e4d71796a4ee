"""Hogwild execution: every worker collects and learns by itself, and changes the weights of all without asking.

Weights and the optimizer's statistics are shared memory. Two workers that write at the same moment may lose a little
of each other's step; a lock would cost more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.training.assembly import make_collector, make_learner, make_optimizer, make_policy, part_of
from rlcb.training.collector import empty_rollout
from rlcb.training.crew import Crew, receive, send
from rlcb.training.execution import Report
from rlcb.training.merging import add_phases, join_envs, merge_metrics
from rlcb.training.ranks import Alone, Ranks
from rlcb.training.reward_scaling import DiscountedReturns, RewardScale
from rlcb.training.shared import shared

ROLLOUT, STATE = "rollout", "state"
AHEAD = 2  # rollouts that a worker may begin without being asked again: it never waits for this process


class Shared(NamedTuple):
    """What all workers read and write."""

    weights: Tensor
    statistics: dict[str, Tensor]  # of the optimizer
    learning_rate: Tensor
    reward_moments: Tensor  # [workers + 1, 3]: each adds to its own row; the last is from before a resume
    pause: Tensor  # true: begin nothing more


class Hogwild:
    """Starts the workers, counts what they did, and saves. It does not learn itself."""

    def __init__(self, config: Config, ranks: Ranks, phases: Phases) -> None:
        crew, budget = config.crew, config.training.total_timesteps
        assert crew is not None
        self._config, self._ranks = config, ranks
        self._workers_here = range(crew.number)[part_of(crew.number, ranks.index, ranks.size)]
        self._number, self._n_envs = len(self._workers_here), crew.envs_each
        self._rollout_size = crew.envs_each * config.training.n_steps
        rollouts = None if budget is None else -(-budget // self._rollout_size)
        self._rollouts = None if rollouts is None else -(-rollouts // ranks.size)
        self._updates = 0
        self.policy = make_policy(config)
        self._learner = make_learner(config, self.policy, Alone())
        self._moments_before = torch.zeros(3, dtype=torch.float64)
        self._envs: dict[str, Any] | None = None
        self._begun = 0  # rollouts, of all workers here
        self._owed = [0] * self._number
        self._done: list[Report] = []  # not yet part of an update
        self._crew: Crew | None = None

    def started(self) -> list[int]:
        self._workers().wait_until_ready()
        return [self._n_envs] * self._number

    def _workers(self) -> Crew:
        """They start when the weights are known: after a checkpoint was loaded."""
        if self._crew is None:
            statistics = optimizer_statistics(self._learner.optimizer)
            moments = torch.zeros(self._number + 1, 3, dtype=torch.float64)
            moments[-1] = self._moments_before
            self._common = Shared(
                shared(self._learner.parameters),
                {name: shared(value) for name, value in statistics.items()},
                shared(torch.zeros(1)),
                shared(moments),
                shared(torch.zeros(1, dtype=torch.bool)),
            )
            self._crew = Crew(self._number, work, self._arguments, self._name, self._config.patience)
        return self._crew

    def _name(self, worker: int) -> str:
        return f"rlcb-worker-{self._workers_here[worker]}"

    def _arguments(self, worker: int, life: int) -> tuple[Any, ...]:
        index = self._workers_here[worker]
        part = slice(index * self._n_envs, (index + 1) * self._n_envs)
        envs = None
        if self._envs is not None and life == 0:  # a checkpoint has those of all nodes
            envs = {name: values[part] for name, values in self._envs.items()}
        return (self._config, part, life, self._common, worker, index, envs)

    def update(self, learning_rate: float) -> Report:
        """One rollout per worker on average, whoever was first."""
        crew = self._workers()
        self._common.learning_rate.fill_(learning_rate)
        self._listen(wait=False)  # someone who was replaced before all were ready has begun nothing
        self._hand_out()
        while len(self._done) < self._number and any(self._owed):
            self._listen(wait=True)
            self._hand_out()
        counted, self._done = self._done[: self._number], self._done[self._number :]
        self._updates += 1
        if self._ranks.size > 1 and self._updates % self._config.cluster.average_every == 0:
            self._average()
        return self._merged(counted, crew)

    def _average(self) -> None:
        """Over the nodes. What workers here add meanwhile stays: the mean's distance from a copy is added."""
        squares = self._common.statistics["square_avg"]
        for mine in (self._common.weights, squares):
            before = mine.clone()
            mean = before.clone()
            self._ranks.mean(mean, wide=mine is squares)
            mine.add_(mean - before)
        squares.clamp_(min=0)

    def _hand_out(self) -> None:
        """Every worker has something to begin, as far as the budget goes."""
        for worker in range(self._number):
            while self._owed[worker] < AHEAD and (self._rollouts is None or self._begun < self._rollouts):
                self._begun += 1
                self._owed[worker] += 1
                self._workers().send(worker, ROLLOUT)

    def _listen(self, wait: bool) -> None:
        messages, replaced = self._workers().receive(wait)
        for worker, report in messages:
            self._owed[worker] -= 1
            if report is None:  # there was a pause
                self._begun -= 1
            else:
                self._done.append(report)
        for worker in replaced:  # what it had begun is to be done by others
            self._begun -= self._owed[worker]
            self._owed[worker] = 0

    def _merged(self, reports: list[Report], crew: Crew) -> Report:
        return Report(
            metrics=merge_metrics([report.metrics for report in reports]),
            episodes=[episode for report in reports for episode in report.episodes],
            phases=add_phases(report.phases for report in reports),
            timesteps=sum(report.timesteps for report in reports),
            skipped=sum(report.skipped for report in reports),
            replaced=crew.replaced,
        )

    def settle(self) -> Report | None:
        """Nobody begins anything new; what comes in meanwhile counts."""
        self._workers()
        self._common.pause.fill_(True)
        while any(self._owed):
            self._listen(wait=True)
        self._common.pause.fill_(False)
        counted, self._done = self._done, []
        together = self._ranks.size > 1  # all nodes report, or none
        if together:
            self._average()  # there is one checkpoint
        return self._merged(counted, self._workers()) if counted or together else None

    def state(self) -> dict[str, Any]:
        """Workers that have settled tell where their environments are."""
        crew = self._workers()
        parts: dict[int, dict[str, Any]] = {}
        for worker in range(self._number):
            crew.send(worker, STATE)
        while len(parts) < self._number:
            messages, replaced = crew.receive(wait=True)
            parts.update(messages)
            for worker in replaced:
                if worker not in parts:
                    crew.send(worker, STATE)
        begun = torch.tensor(float(self._begun * self._rollout_size), dtype=torch.float64)
        self._ranks.sum(begun)
        return {
            "begun": int(begun),  # steps, on all nodes: with other workers, rollouts have another size
            **self._learner.state(),
            "reward_moments": self._common.reward_moments.sum(0),
            "envs": join_envs([parts[worker] for worker in range(self._number)]),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._begun, self._envs = state["begun"] // self._rollout_size // self._ranks.size, state["envs"]
        self._learner.load(state)
        self._moments_before = state["reward_moments"].clone()

    def close(self) -> None:
        if self._crew is not None:
            self._crew.close()


def optimizer_statistics(optimizer: Optimizer) -> dict[str, Tensor]:
    """RMSProp's, made if it has not stepped yet."""
    (parameters,) = optimizer.param_groups[0]["params"]
    if not optimizer.state[parameters]:
        optimizer.state[parameters] = {"step": torch.tensor(0.0), "square_avg": torch.zeros_like(parameters.data)}
    statistics: dict[str, Tensor] = optimizer.state[parameters]
    return statistics


def work(
    pipe: Any,
    config: Config,
    part: slice,
    life: int,
    common: Shared,
    row: int,
    index: int,
    envs: dict[str, Any] | None,
) -> None:
    """A worker's life."""
    worker = Worker(config, part, life, common, row, index)
    if envs is not None:
        worker.load(envs)
    send(pipe, "ready")
    while (task := worker.wait_for(pipe)) is not None:
        send(pipe, worker.state() if task == STATE else None if common.pause else worker.rollout())


class Worker:
    """Copies the weights of all, collects, steps the weights of all."""

    def __init__(self, config: Config, part: slice, life: int, common: Shared, row: int, index: int) -> None:
        """`row` is its place among the workers of this node, `index` among all."""
        training, n_envs = config.training, part.stop - part.start
        self._common, self._row, self._index, self._phases = common, row, index, Phases()
        self._n_steps = training.n_steps
        policy = make_policy(config)
        self._learner = make_learner(config, policy, Alone(), lambda mine: _on_shared(config, mine, common))
        self._collector, self._randomness = make_collector(config, part, policy, self._phases, life)
        self._rollout = empty_rollout(training.n_steps, n_envs)
        self._returns = DiscountedReturns(training.gamma, n_envs)
        self._scale = RewardScale() if training.reward_scaling else None

    def wait_for(self, pipe: Any) -> Any:
        with self._phases.during("wait"):
            return receive(pipe)

    def rollout(self) -> Report:
        rollout, common = self._rollout, self._common
        self._learner.parameters.copy_(common.weights)
        episodes = self._collector.collect(rollout)
        if self._scale:
            common.reward_moments[self._row] += self._returns.moments(rollout)[0]
            self._scale.moments = common.reward_moments.sum(0)
            self._scale.apply(rollout.rewards)
        self._phases.mark("other")
        self._learner.learn(rollout, self._shuffle, float(common.learning_rate))
        metrics = self._learner.take_metrics()
        self._phases.mark("learn")
        phases = {f"worker_{self._index}": self._phases.take()}
        return Report(metrics, episodes, phases, rollout.actions.numel(), self._learner.take_skipped())

    def _shuffle(self, epoch: int) -> Tensor:
        return self._randomness.order(self._collector.step // self._n_steps, epoch, self._n_steps)

    def state(self) -> dict[str, Any]:
        returns = self._returns.returns.clone()
        steps = torch.full((len(returns),), self._collector.step)
        return {**self._collector.state(), "discounted_returns": returns, "steps": steps}

    def load(self, envs: dict[str, Any]) -> None:
        self._collector.load(envs, int(envs["steps"][0]))
        self._returns.returns = envs["discounted_returns"].clone()


def _on_shared(config: Config, mine: nn.Parameter, common: Shared) -> Optimizer:
    """This worker's gradient, applied to everybody's weights with everybody's statistics."""
    weights = nn.Parameter(common.weights)
    weights.grad = mine.grad
    optimizer = make_optimizer(config, weights)
    optimizer.state[weights] = common.statistics
    return optimizer
