"""Small arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
MIN_RUNS = 3  # with fewer, an interval or a p-value would say more than is known
RESAMPLES = 5000
CONFIDENCE = 0.95


class Interval(NamedTuple):
    low: float
    high: float


def mean(values: Floats) -> float:
    return float(np.mean(values))


def iqm(values: Floats) -> float:
    """Interquartile mean: the mean of the middle half. Less moved by one lucky run than the mean, less wasteful than
    the median."""
    return float(stats.trim_mean(values, 0.25))


def interval(strata: Sequence[Floats], statistic: Callable[[Floats], float], seed: int = 0) -> Interval:
    """95% interval by the stratified bootstrap: each stratum (the runs of one game) is drawn from by itself, and the
    statistic is taken over all draws together (percentiles)."""
    random = np.random.default_rng(seed)
    draws = [
        statistic(np.concatenate([random.choice(stratum, len(stratum)) for stratum in strata]))
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high))


def probability_of_improvement(ours: Floats, theirs: Floats) -> float:
    """How likely a run of ours is higher than one of theirs; a tie counts half. Mann-Whitney's U, per pair."""
    u = stats.mannwhitneyu(ours, theirs).statistic
    return float(u) / (len(ours) * len(theirs))


def welch(ours: Floats, theirs: Floats) -> float:
    """p of Welch's t-test (variances may differ): how likely means this far apart are, were they really equal."""
    if np.ptp(ours) == 0 and np.ptp(theirs) == 0:
        return 1.0 if ours[0] == theirs[0] else 0.0
    return float(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)


def profile(scores: Floats, thresholds: Floats) -> Floats:
    """Performance profile: the share of runs that score more than each threshold."""
    shares: Floats = (scores[None, :] > thresholds[:, None]).mean(axis=1)
    return shares


def enough(*groups: Floats) -> bool:
    return all(len(values) >= MIN_RUNS for values in groups)
