from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import mean
from typing import Any

import pytest

from rlcb.config import Config, Override, load_config
from rlcb.scale.costs import Costs, Curve
from rlcb.scale.messages import all_reduces
from rlcb.scale.model import Machines, predict
from rlcb.scale.network import ring
from tests.scale.conftest import costs

NO_NETWORK = Machines(cores=2, latency_ms=0.0, mbits=1e12)


def run(algo: str = "ppo", **settings: Any) -> Config:
    """On a cluster of four nodes with two workers each."""
    kind = "actors" if algo == "impala" else "workers"
    usual = {"algo": algo, "mode": "cluster", "cluster.nodes": 4, f"parallel.num_{kind}": 8}
    given = {**usual, **{name.replace("__", "."): value for name, value in settings.items()}}
    return load_config(None, [Override(path, value, path) for path, value in given.items()])


def alone(config: Config) -> Config:
    return config.model_copy(update={"mode": "sequential"})


@pytest.mark.parametrize("algo", ["ppo", "a2c", "a3c"])
@pytest.mark.parametrize("sync", ["allreduce", "accumulate", "average"])
def test_without_exchange_every_core_is_one_core_more(algo: str, sync: str) -> None:
    """But for the value after the last step, nothing is counted that one core does not do."""
    config = run(algo, cluster__sync=sync)
    one = predict(alone(config), costs(algo=algo), NO_NETWORK)
    assert predict(config, costs(algo=algo), NO_NETWORK).fps == pytest.approx(8 * one.fps)


def test_impala_is_as_fast_as_the_slower_side() -> None:
    """Here one sample costs as much to learn as half a step to play: the learner is the slower one from three actors
    on, and actors are idle."""
    machines = replace(NO_NETWORK, cores=64)
    for actors, expected in ((1, 1 / 2e-4), (2, 2 / 2e-4), (4, 1 / 1e-4), (8, 1 / 1e-4)):
        config = run("impala", parallel__num_actors=4 * actors)
        assert predict(config, costs(algo="impala"), machines).fps == pytest.approx(4 * expected, rel=0.02)


def test_impala_on_few_cores_is_as_fast_as_they_can_work() -> None:
    config = run("impala")  # two actors and a learner on two cores
    assert predict(config, costs(algo="impala"), NO_NETWORK).fps == pytest.approx(8 / 3e-4, rel=0.02)


def test_the_clock_adds_up(real_costs: Costs) -> None:
    """Written out: PPO of 32 environments × 128 steps on two ranks of one node."""
    config = run(cluster__nodes=1, parallel__num_workers=2)
    found = predict(config, real_costs, Machines(2, 0.1, 1000)).seconds
    working = 128 * 16e-4 + 129 * 16e-4 + 16 * 512e-4
    assert found.environment + found.act + found.learn == pytest.approx(working)
    assert found.wait == pytest.approx(working * (real_costs.slowest_of(2) - 1))
    few = 5 * 3e-5 + (1 / 4 + 1) * 2e-4  # in memory: advantages of four epochs, metrics; to tell and to gather: gloo
    assert found.exchange == pytest.approx(16 * 1e-3 + few, rel=0.01), "sixteen gradients in shared memory"
    assert found.other == pytest.approx(42 * 3e-5 + 5e-3), "numbers about the update and both ranks, and the time used"


def speed(config: Config, costs: Costs, **changed: Any) -> float:
    return predict(config, costs, replace(Machines(2, 0.1, 1000), **changed)).fps


@pytest.mark.parametrize("algo", ["ppo", "a2c", "impala", "a3c"])
def test_a_slower_network_is_never_faster(algo: str, real_costs: Costs) -> None:
    config = run(algo)
    by_latency = [speed(config, real_costs, latency_ms=ms) for ms in (0, 0.1, 1, 10, 100)]
    by_bandwidth = [speed(config, real_costs, mbits=mbits) for mbits in (1e6, 1e4, 1000, 100, 10)]
    for speeds in (by_latency, by_bandwidth):
        assert speeds == sorted(speeds, reverse=True)
        assert speeds[-1] < 0.9 * speeds[0]


def test_ways_to_exchange_less_are_faster_on_a_slow_network(real_costs: Costs) -> None:
    ways = [
        run(),
        run(cluster__compression="fp16"),
        run(cluster__sync="accumulate"),
        run(cluster__sync="average", cluster__average_every=4),
        run(cluster__sync="average", cluster__average_every=40),
    ]
    speeds = [speed(config, real_costs, mbits=50) for config in ways]
    assert speeds == sorted(speeds)
    assert len(set(speeds)) == len(speeds)


def test_on_one_node_the_network_is_nothing(real_costs: Costs) -> None:
    config = run(cluster__nodes=1)
    assert speed(config, real_costs, mbits=1) == speed(config, real_costs, mbits=1e6)


def test_ranks_of_a_node_share_memory(real_costs: Costs) -> None:
    """On one machine alone, what is compressed goes through gloo; a few numbers never are."""
    fast = real_costs.model_copy(update={"shared_exchange": 1e-6})
    for settings, sharing in (
        ({}, True),
        ({"cluster__sync": "average"}, True),
        ({"cluster__compression": "fp16"}, False),
    ):
        for nodes in (1, 2):
            config = run(cluster__nodes=nodes, **settings)
            *few, large = sorted(all_reduces(config, real_costs.parameters, real_costs.optimizer_tensors))
            assert large.shares_memory(config) == (sharing or nodes == 2), (settings, nodes)
            assert all(message.shares_memory(config) for message in few)
            assert speed(config, fast) > speed(config, real_costs)


def test_more_ranks_on_a_node_have_nothing_more_to_send(real_costs: Costs) -> None:
    """The first talks for all: over a slow network, exchange takes as long with eight as with one."""
    slow = Machines(8, 20.0, 100)
    one, eight = (run(cluster__nodes=4, parallel__num_workers=4 * each) for each in (1, 8))
    here, there = (predict(config, real_costs, slow).seconds.exchange for config in (one, eight))
    assert there < 1.1 * here


def test_a3c_averages_while_it_works(real_costs: Costs) -> None:
    """What two rollouts hide costs nothing; what takes longer does."""
    config = run("a3c")
    hidden = predict(config, real_costs, Machines(2, 0.1, 10_000))
    seen = predict(config, real_costs, Machines(2, 0.1, 10))
    assert hidden.exchange_share == 0
    assert seen.exchange_share > 0.5


def test_more_processes_than_cores_take_turns() -> None:
    config = run(cluster__nodes=1, parallel__num_workers=4)
    two, four = (predict(config, costs(), Machines(cores, 0, 1e12)) for cores in (2, 4))
    assert four.fps == pytest.approx(2 * two.fps)
    assert predict(config, costs(), Machines(1, 0, 1e12)).fps == pytest.approx(two.fps / 2), "beyond what is measured"


def test_a_busy_machine_is_slower_than_an_idle_one() -> None:
    busy = costs(crowd_learn=Curve(points=((0.5, 0.8), (1, 1.0))))
    config = run(cluster__nodes=1, parallel__num_workers=1)
    few, many = (predict(config, busy, Machines(cores, 0, 1e12)) for cores in (1, 2))
    assert many.seconds.learn == pytest.approx(0.8 * few.seconds.learn)


def test_the_slowest_of_some_is_the_mean_of_all_draws() -> None:
    spread = (0.9, 0.95, 1.0, 1.15)
    for processes in (1, 2, 3):
        literal = mean(max(draw) for draw in product(spread, repeat=processes))
        assert costs(spread=spread).slowest_of(processes) == pytest.approx(literal)
    assert costs(spread=spread).slowest_of(10_000) == pytest.approx(1.15)
    crowded = costs(spread=spread, crowded_spread=(0.5, 1.5))
    assert crowded.slowest_of(2, load=1.5) == pytest.approx(1.25)
    assert crowded.slowest_of(2, load=1.0) == costs(spread=spread).slowest_of(2)


def test_curves_go_through_what_was_measured() -> None:
    curve = Curve(points=((4, 1.0), (8, 1.5), (16, 4.0)))
    assert [curve.at(size) for size in (4, 8, 16)] == [1.0, 1.5, 4.0]
    assert curve.at(6) == 1.25
    assert curve.at(1) == 1.0
    assert curve.at(32) == 8.0


def test_the_link_here_reproduces_what_was_measured(real_costs: Costs) -> None:
    for compression, seconds in real_costs.exchange.items():
        link = real_costs.here(compression)
        width = 2 if compression == "fp16" else 4
        assert ring(2, link, real_costs.parameters, width) == pytest.approx(seconds)
        assert ring(2, link, 3, 8) == pytest.approx(real_costs.smallest_exchange, rel=1e-3)


def test_a_shared_sum_is_what_was_measured(real_costs: Costs) -> None:
    gradient = 4 * real_costs.parameters
    assert real_costs.shared_sum(2, gradient) == pytest.approx(1e-3)
    assert real_costs.shared_sum(2, gradient, turns=2.0) == pytest.approx(3e-5 + 2 * 9.7e-4), "one meeting"
    assert real_costs.shared_sum(8, gradient) == pytest.approx(3e-5 + 9 / 3 * 9.7e-4), "one written, eight read"
