"""Runs that belong together: the same experiment with several seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlcb.analysis.run import Floats, Run, runs_in

_SEED = re.compile(r"(?:^|[_-])(?:seed|s)[_-]?\d+(?=$|[_-])", re.IGNORECASE)


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
    """Directories whose paths are equal but for the seed are one group: `ppo_seed1`, `ppo/seed1`, `seed1/ppo`."""
    runs = runs_in(directories)
    together: dict[tuple[Path, str], list[Run]] = {}
    for run in runs:
        without_seed = Path(*(_SEED.sub("", part) for part in run.root.resolve().parts))
        together.setdefault((without_seed, run.label), []).append(run)
    if any(len(members) > 1 for members in together.values()):
        return [
            Group(name, tuple(members)) for name, members in zip(_names(list(together)), together.values(), strict=True)
        ]
    return [Group(label, (run,)) for label, run in zip(short_labels(runs), runs, strict=True)]


def _names(experiments: list[tuple[Path, str]]) -> list[str]:
    """The shortest that tell all of them apart, of place and label."""
    for length in range(1, max(len(place.parts) for place, _ in experiments)):
        names = [str(Path(*place.parts[-length:])) for place, _ in experiments]
        if len(set(names)) == len(names):
            return names
    return [f"{place.name} ({label})" for place, label in experiments]


def named_group(name: str, directories: Iterable[Path]) -> Group:
    return Group(name, tuple(runs_in(directories)))


def short_labels(runs: Sequence[Run]) -> list[str]:
    """The shortest that tell all of them apart: algorithm and mode, the directory's name, its path."""
    for name in (lambda run: run.label, lambda run: run.name, lambda run: str(run.root)):
        labels = [name(run) for run in runs]
        if len(set(labels)) == len(labels):
            return labels
    return [f"{run.name} ({number})" for number, run in enumerate(runs, 1)]


def several_games(groups: Iterable[Group]) -> bool:
    return len({run.setting("env.name") for group in groups for run in group.runs} - {None}) > 1
