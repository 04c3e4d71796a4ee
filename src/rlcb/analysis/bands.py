"""Curves of several runs as one line with a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rlcb.analysis.groups import Group
from rlcb.analysis.run import Curve, Floats

Axis = Literal["steps", "time"]
POINTS = 300


@dataclass(frozen=True)
class Band:
    x: Floats  # environment steps, or hours
    mean: Floats
    low: Floats  # one standard deviation over runs; the line itself where there is one run
    high: Floats


def band(group: Group, metric: str, axis: Axis, smoothing: float = 0.0) -> Band | None:
    """Over the range that all runs of the group share."""
    curves = [curve for run in group.runs if len((curve := run.curve(metric)).steps)]
    if not curves:
        return None
    xs = [_x(curve, axis) for curve in curves]
    values = [smooth(curve.values, smoothing) for curve in curves]
    if len(curves) == 1:
        return Band(xs[0], values[0], values[0], values[0])
    begin, end = max(x[0] for x in xs), min(x[-1] for x in xs)
    grid = np.linspace(begin, max(begin, end), POINTS)
    together = np.stack([np.interp(grid, x, value) for x, value in zip(xs, values, strict=True)])
    mean, spread = together.mean(0), together.std(0)
    return Band(grid, mean, mean - spread, mean + spread)


def time_unit(groups: Sequence[Group]) -> tuple[str, float]:
    """Its name, and how many of it are an hour: runs of less than one are drawn in minutes."""
    longest = max((group.number("duration_hours") or 0.0) for group in groups)
    return ("hours", 1.0) if longest >= 1 else ("minutes", 60.0)


def _x(curve: Curve, axis: Axis) -> Floats:
    return curve.steps if axis == "steps" else curve.seconds / 3600


def smooth(values: Floats, weight: float) -> Floats:
    """Exponential moving average as TensorBoard does it: 0 leaves the values alone, 0.9 smooths a lot."""
    if not weight:
        return values
    smoothed, last, norm = np.empty_like(values), 0.0, 0.0
    for index, value in enumerate(values):
        last, norm = weight * last + (1 - weight) * value, weight * norm + (1 - weight)
        smoothed[index] = last / norm
    return smoothed
