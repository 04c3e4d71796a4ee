"""What several processes did, as if it were one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from rlcb.training.execution import PhasesOfProcesses


def merge_metrics(parts: list[dict[str, float]]) -> dict[str, float]:
    """Means, unless the name says otherwise; of those that have the metric."""
    ways: dict[str, Callable[[list[float]], float]] = {"max": max, "count": sum}
    names = dict.fromkeys(name for part in parts for name in part)
    columns = {name: [part[name] for part in parts if name in part] for name in names}
    return {name: ways.get(name.rpartition("_")[2], _mean)(values) for name, values in columns.items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def add_phases(parts: Iterable[PhasesOfProcesses]) -> PhasesOfProcesses:
    total: PhasesOfProcesses = {}
    for part in parts:
        for process, seconds in part.items():
            so_far = total.setdefault(process, {})
            for name, value in seconds.items():
                so_far[name] = so_far.get(name, 0.0) + value
    return total


def join_envs(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """What belongs to environments, of all processes in their order."""

    def join(pieces: list[Any]) -> Any:
        if isinstance(pieces[0], torch.Tensor):
            return torch.cat(pieces)
        return [item for piece in pieces for item in piece]

    return {name: join([part[name] for part in parts]) for name in parts[0]}
