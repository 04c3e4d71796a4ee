"""From costs and a cluster to seconds per update. docs/cluster.md says what is assumed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlcb.config import Config
from rlcb.scale.costs import Costs
from rlcb.scale.messages import all_reduces
from rlcb.scale.network import Link, Network, wire

AHEAD = 2  # rollouts that an A3C worker has to do while its node talks to others
RECORDED, RECORDED_OF_EACH = 30, 6  # numbers about an update, and about each of its processes


@dataclass(frozen=True)
class Machines:
    """Nodes that are alike, and the network between them."""

    cores: int  # of each node
    latency_ms: float  # one way
    mbits: float  # of every node's link, each way


@dataclass(frozen=True)
class Seconds:
    """Of one update, as the clock on the wall sees it."""

    environment: float
    act: float
    learn: float
    other: float
    exchange: float
    wait: float  # for whoever is slowest

    @property
    def total(self) -> float:
        return self.environment + self.act + self.learn + self.other + self.exchange + self.wait


@dataclass(frozen=True)
class Prediction:
    config: Config
    machines: Machines
    seconds: Seconds

    @property
    def fps(self) -> float:
        return self.config.rollout_size / self.seconds.total

    @property
    def exchange_share(self) -> float:
        """Of the time: messages, and waiting for the slowest."""
        return (self.seconds.exchange + self.seconds.wait) / self.seconds.total


def predict(config: Config, costs: Costs, machines: Machines) -> Prediction:
    ways = {"impala": _actors_and_learners, "a3c": _hogwild}
    way = _lockstep if config.mode == "sequential" else ways.get(config.algo, _lockstep)
    return Prediction(config, machines, way(config, costs, machines))


def _lockstep(config: Config, costs: Costs, machines: Machines) -> Seconds:
    """Everybody plays, then everybody computes a share of every gradient; whoever is first waits."""
    ranks = config.num_ranks
    load = ranks / config.num_nodes / machines.cores
    play, learn = costs.crowd_play.at(load), costs.crowd_learn.at(load)
    n_envs, n_steps = config.num_envs / ranks, config.training.n_steps
    gradients = config.training.n_epochs * config.rollout_size // config.batch_size
    working = Seconds(
        environment=n_steps * costs.environment.at(n_envs) * play,
        act=(n_steps + 1) * costs.act.at(n_envs) * play,  # once more, for the value after the last step
        learn=gradients * costs.learn.at(config.batch_size / ranks) * learn,
        other=n_steps * costs.other.at(n_envs) * play,
        exchange=0.0,
        wait=0.0,
    )
    waited = (costs.slowest_of(ranks, load) - 1) * working.total
    return replace(
        working,
        other=working.other + _bookkeeping(config, costs, ranks),
        exchange=_exchange(config, costs, machines, max(load, 1.0)),
        wait=max(0.0, waited),
    )


def _actors_and_learners(config: Config, costs: Costs, machines: Machines) -> Seconds:
    """A learner on every node; it learns from what its actors have played meanwhile. The slower of the two sets the
    pace, or the cores do, where there are fewer of them than processes."""
    crew = config.crew
    assert crew is not None
    actors = crew.number // config.num_nodes
    length = config.batch_size // config.num_envs
    batches = config.training.n_steps // length
    load = (actors + 1) / machines.cores
    turns = max(load, 1.0)  # a process has its core for one in so many turns
    play, learn = costs.crowd_play.at(load) / turns, costs.crowd_learn.at(load) / turns
    played = length * (costs.environment.at(crew.envs_each) + costs.other.at(crew.envs_each)) * play
    played += length * costs.act.at(crew.envs_each) * play
    learnt = config.training.n_epochs * costs.learn.at(config.batch_size / config.num_ranks) * learn
    exchanged = _exchange(config, costs, machines, turns) / batches
    waited = (costs.slowest_of(config.num_ranks, load) - 1) * learnt
    learner = learnt + waited + exchanged
    pace = max(learner, played, (actors * played + learnt) / machines.cores)
    # The rest of the pace is the learner waiting for pictures: playing is what it waits for.
    share = (pace - learner) / played
    playing = length * share * play
    return Seconds(
        environment=batches * playing * costs.environment.at(crew.envs_each),
        act=batches * playing * costs.act.at(crew.envs_each),
        learn=batches * learnt,
        other=batches * playing * costs.other.at(crew.envs_each)
        + _bookkeeping(config, costs, crew.number + config.num_ranks),
        exchange=batches * exchanged,
        wait=batches * waited,
    )


def _hogwild(config: Config, costs: Costs, machines: Machines) -> Seconds:
    """Workers never wait for each other. While the nodes average their weights they have a little to do, and they wait
    if it takes longer than that."""
    crew = config.crew
    assert crew is not None
    load = crew.number / config.num_nodes / machines.cores
    play, learn = costs.crowd_play.at(load), costs.crowd_learn.at(load)
    n_steps, n_envs = config.training.n_steps, crew.envs_each
    working = Seconds(
        environment=n_steps * costs.environment.at(n_envs) * play,
        act=(n_steps + 1) * costs.act.at(n_envs) * play,
        learn=config.training.n_epochs * costs.learn.at(n_envs * n_steps) * learn,
        other=n_steps * costs.other.at(n_envs) * play,
        exchange=0.0,
        wait=0.0,
    )
    every = config.cluster.average_every
    average = every * _exchange(config, costs, machines, max(load, 1.0))
    return replace(working, exchange=max(0.0, average - AHEAD * working.total) / every)


def _bookkeeping(config: Config, costs: Costs, processes: int) -> float:
    """What the first rank writes down about an update, for every process, while the others wait; all nodes look at the
    time that they have used before."""
    numbers = RECORDED + (RECORDED_OF_EACH * processes if processes > 1 else 0)
    return costs.record_number * numbers + costs.look_at_processes * min(2, config.num_nodes)


def _network(config: Config, costs: Costs, machines: Machines, turns: float) -> Network:
    """Copying bytes takes a core; where several share one, they take turns at it."""
    here = costs.here(config.cluster.compression)
    here = Link(here.latency, here.seconds_per_byte * turns)
    between = wire(machines.latency_ms, machines.mbits, here)
    return Network(config.num_nodes, config.num_ranks // config.num_nodes, here, between)


def _exchange(config: Config, costs: Costs, machines: Machines, turns: float) -> float:
    """Everything that is said during one update."""
    network = _network(config, costs, machines, turns)
    several, ranks = network.nodes > 1, network.ranks_per_node
    summed = 0.0
    for message in all_reduces(config, costs.parameters, costs.optimizer_tensors):
        seconds, shares = 0.0, message.shares_memory(config)
        if shares:
            seconds += costs.shared_sum(ranks, message.size_in_memory, turns)
        if several or not shares:
            seconds += network.all_reduce(message.elements, message.element_bytes)
        if several and shares:
            seconds += costs.hand_round(ranks, message.size_in_memory, turns)
        summed += message.per_update * seconds
    return summed + network.tell() + network.gather(costs.report_bytes)
