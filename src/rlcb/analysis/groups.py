"""Runs that belong together: the same experiment with several seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlcb.analysis.run import Floats, Run, runs_in

_SEED = re.compile(r"[_-]?(?:seed|s)[_-]?\d+(?=$|[_-])", re.IGNORECASE)


@dataclass(frozen=True)
class Group:
    """One column of a comparison: one run, or several that differ in the seed only."""

    label: str
    runs: tuple[Run, ...]

    def values(self, figure: Callable[[Run], float | None]) -> Floats:
        return np.array([value for run in self.runs if (value := figure(run)) is not None], float)

    def mean(self, figure: Callable[[Run], float | None]) -> float | None:
        values = self.values(figure)
        return float(values.mean()) if len(values) else None

    def number(self, name: str) -> float | None:
        """Of the summary; the mean over runs."""
        return self.mean(lambda run: run.number(name))


def group_by_name(directories: Iterable[Path]) -> list[Group]:
    """Directories whose names are equal but for the seed are one group."""
    runs = runs_in(directories)
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(_SEED.sub("", run.name) or run.name, []).append(run)
    if any(len(members) > 1 for members in together.values()):
        return [Group(name, tuple(members)) for name, members in together.items()]
    return [Group(label, (run,)) for label, run in zip(short_labels(runs), runs, strict=True)]


def named_group(name: str, directories: Iterable[Path]) -> Group:
    return Group(name, tuple(runs_in(directories)))


def short_labels(runs: Sequence[Run]) -> list[str]:
    """The shortest that tell all of them apart: algorithm and mode, the directory's name, its path."""
    for name in (lambda run: run.label, lambda run: run.name, lambda run: str(run.root)):
        labels = [name(run) for run in runs]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{run.name} ({number})" for number, run in enumerate(runs, 1)]
