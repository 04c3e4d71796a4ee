"""The same configuration gives the same run, and a run that was stopped goes on as if it had not been."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rlcb.algorithms import RECIPES
from rlcb.cpu.phases import PHASES
from rlcb.runs.checkpoint import load_checkpoint, save_checkpoint
from rlcb.training.execution import Report
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Alone
from tests.conftest import tiny_config

RATE = 1e-3


def updates(run: Lockstep, count: int) -> list[Report]:
    return [run.update(RATE) for _ in range(count)]


def assert_equal(found: Any, expected: Any, where: str = "state") -> None:
    """Bit for bit, through all levels."""
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_equal(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for index, item in enumerate(expected):
            assert_equal(found[index], item, f"{where}[{index}]")
    else:
        assert found == expected, where


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


def test_micro_batches_change_memory_and_nothing_else() -> None:
    whole, parts = (Lockstep(tiny_config("ppo", {"hardware.micro_batch_size": size}), Alone()) for size in (64, 20))
    updates(whole, 1)
    updates(parts, 1)
    for one, other in zip(whole.policy.parameters(), parts.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=2e-4)


def test_phases_add_up() -> None:
    report = updates(Lockstep(tiny_config(), Alone()), 1)[0]
    (phases,) = report.phases.values()
    assert {name for name, seconds in phases.items() if seconds > 0} == {"environment", "act", "learn", "other"}
    assert set(phases) == set(PHASES)
