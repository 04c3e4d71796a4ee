from __future__ import annotations

import pytest

from rlcb.training.budget import Budget


@pytest.mark.parametrize(
    ("budget", "steps", "seconds", "spent"),
    [
        (Budget(100, None), 99, 1e9, False),
        (Budget(100, None), 100, 0.0, True),
        (Budget(None, 60.0), 10**9, 59.9, False),
        (Budget(None, 60.0), 0, 60.0, True),
        (Budget(100, 60.0), 100, 1.0, True),
        (Budget(100, 60.0), 1, 61.0, True),
        (Budget(100, 60.0), 99, 59.0, False),
    ],
)
def test_whichever_comes_first(budget: Budget, steps: int, seconds: float, spent: bool) -> None:
    assert budget.spent(steps, seconds) is spent


def test_share_and_time_left_go_by_what_ends_first() -> None:
    budget = Budget(1000, 60.0)
    assert budget.share(500, 6.0) == 0.5
    assert budget.seconds_left(500, 6.0) == pytest.approx(6.0)
    assert budget.seconds_left(0, 0.0) is None


def test_it_reads_well() -> None:
    assert str(Budget(None, 1800.0)) == "0.5 hours"
    assert str(Budget(25_000_000, None)) == "25,000,000 steps"
    assert "whichever comes first" in str(Budget(1, 3600.0))
