from __future__ import annotations

import math

import numpy as np
import pytest

from rlcb.analysis import statistics

A, B = np.array([7.2, 7.5, 7.1, 7.3, 7.4]), np.array([7.3, 7.6, 7.2, 7.4, 7.5])


def test_iqm_is_the_mean_of_the_middle_half() -> None:
    assert statistics.iqm(np.array([100.0, 1.0, 2.0, 3.0, 4.0, -50.0, 2.5, 3.5])) == pytest.approx(
        (2 + 2.5 + 3 + 3.5) / 4
    )


def test_probability_of_improvement_counts_pairs() -> None:
    pairs = [(1.0 if a > b else 0.5 if a == b else 0.0) for a in A for b in B]
    assert statistics.probability_of_improvement(A, B) == pytest.approx(sum(pairs) / len(pairs))
    assert statistics.probability_of_improvement(A + 10.0, B) == 1


def test_welch_is_the_formula() -> None:
    """t by hand; p of it with Student's distribution, integrated numerically."""
    t = (A.mean() - B.mean()) / math.sqrt(A.var(ddof=1) / 5 + B.var(ddof=1) / 5)
    freedom = 8.0  # variances are equal here
    x = np.linspace(-abs(t), abs(t), 200_001)
    density = math.gamma((freedom + 1) / 2) / math.sqrt(freedom * math.pi) / math.gamma(freedom / 2)
    inside = np.trapz(density * (1 + x**2 / freedom) ** (-(freedom + 1) / 2), x)
    assert statistics.welch(A, B) == pytest.approx(1 - inside, abs=1e-6)


def test_welch_of_constant_runs() -> None:
    same = np.full(3, 5.0)
    assert statistics.welch(same, same) == 1
    assert statistics.welch(same, same + 1.0) == 0


def test_intervals_hold_what_they_promise() -> None:
    """About 95 of 100 intervals contain the true mean (bootstrap intervals of 20 runs are a little short)."""
    random = np.random.default_rng(1)
    hits = 0
    for trial in range(100):
        low, high = statistics.interval([random.normal(3.0, 1.0, 20)], statistics.mean, seed=trial)
        hits += low <= 3.0 <= high
    assert 86 <= hits <= 99


def test_each_game_is_drawn_from_by_itself() -> None:
    """However the draws fall, half of them come from each game: the mean of constants has no spread."""
    low, high = statistics.interval([np.zeros(3), np.ones(3)], statistics.mean)
    assert low == high == 0.5


def test_profile() -> None:
    shares = statistics.profile(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.5, 1.0]))
    assert shares.tolist() == pytest.approx([1.0, 1 / 3, 0.0])
