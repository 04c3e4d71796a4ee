"""The same configuration gives the same run, and a run that was stopped goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlcb.algorithms import RECIPES
from rlcb.cpu.phases import PHASES
from rlcb.kernels.library import kernels
from rlcb.runs.checkpoint import load_checkpoint, save_checkpoint
from rlcb.training.execution import Report
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Alone
from tests.conftest import assert_equal, tiny_config

RATE = 1e-3


def updates(run: Lockstep, count: int) -> list[Report]:
    return [run.update(RATE) for _ in range(count)]


def without_time(reports: list[Report]) -> list[Any]:
    return [(report.metrics, report.episodes, report.skipped) for report in reports]


@pytest.mark.parametrize("algo", RECIPES)
def test_twice_the_same(algo: str) -> None:
    torch.set_num_threads(2)
    first, second = Lockstep(tiny_config(algo), Alone()), Lockstep(tiny_config(algo), Alone())
    assert without_time(updates(first, 10)) == without_time(updates(second, 10))
    assert_equal(first.state(), second.state())


@pytest.mark.parametrize("algo", RECIPES)
def test_five_and_five_are_ten(algo: str, tmp_path: Path) -> None:
    config = tiny_config(algo, {"env.name": "starpilot"})  # short episodes
    whole = Lockstep(config, Alone())
    expected = updates(whole, 10)

    first = Lockstep(config, Alone())
    reports = updates(first, 5)
    save_checkpoint(tmp_path / "c.pt", first.state())
    second = Lockstep(config, Alone())
    second.load(load_checkpoint(tmp_path / "c.pt"))
    reports += updates(second, 5)

    assert without_time(reports) == without_time(expected)
    assert_equal(second.state(), whole.state())
    assert sum(len(report.episodes) for report in expected) > 0, "no episode ended: the test shows little"


@pytest.mark.parametrize("algo", RECIPES)
def test_another_seed_is_another_run(algo: str) -> None:
    first, second = Lockstep(tiny_config(algo), Alone()), Lockstep(tiny_config(algo, {"env.seed": 1}), Alone())
    updates(first, 1)
    updates(second, 1)
    assert not torch.equal(first.policy.actor.weight, second.policy.actor.weight)


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
@pytest.mark.parametrize("size", [20, 32])
def test_micro_batches_change_memory_and_nothing_else(algo: str, size: int) -> None:
    """Pieces of one part, or of two, which are added up as they would be in one piece."""
    whole, pieces = (
        Lockstep(tiny_config(algo, {"hardware.micro_batch_size": n, "training.batch_size": 64}), Alone())
        for n in (64, size)
    )
    updates(whole, 3)
    updates(pieces, 3)
    assert_equal(pieces.state(), whole.state())


@pytest.mark.parametrize("arch", ["nature", "impala"])
@pytest.mark.parametrize("settings", [{}, {"hardware.micro_batch_size": 16}], ids=["several parts", "one part at once"])
def test_threads_change_time_and_nothing_else(arch: str, settings: dict[str, Any]) -> None:
    if kernels().library is None:
        pytest.skip("torch's convolutions promise nothing")
    runs = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        runs.append(Lockstep(tiny_config("ppo", {"model.arch": arch, **settings}), Alone()))
        updates(runs[-1], 1)
    assert_equal(runs[1].state(), runs[0].state())


def test_threads_change_nothing_at_full_size() -> None:
    """Libraries choose other ways for large matrices."""
    if kernels().library is None:
        pytest.skip("torch's convolutions promise nothing")
    config = tiny_config("ppo", {"env.num_envs": 32, "training.n_steps": 64, "training.batch_size": 1024})
    states = []
    for threads in (1, 2, 5, 16):
        torch.set_num_threads(threads)
        run = Lockstep(config, Alone())
        updates(run, 1)
        states.append(run.state())
    for state in states[1:]:
        assert_equal(state, states[0])


def test_more_pieces_than_samples_are_none_of_them_empty() -> None:
    run = Lockstep(
        tiny_config("ppo", {"env.num_envs": 6, "training.batch_size": 48, "hardware.micro_batch_size": 1}), Alone()
    )
    (report,) = updates(run, 1)
    assert report.skipped == 0


def test_phases_add_up() -> None:
    report = updates(Lockstep(tiny_config(), Alone()), 1)[0]
    (phases,) = report.phases.values()
    assert {name for name, seconds in phases.items() if seconds > 0} == {"environment", "act", "learn", "other"}
    assert set(phases) == set(PHASES)
