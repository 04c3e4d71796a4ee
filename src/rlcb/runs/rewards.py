"""Initial, final and best reward of a run, over windows of 100 episodes."""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any

WINDOW = 100


class RewardTally:
    """Initial: the first 100 episodes. Final: the last 100. Best: the highest mean of any 100 in a row.

    Runs of fewer episodes take what there is.
    """

    def __init__(self) -> None:
        self.episodes = 0
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=WINDOW)
        self._lengths: deque[int] = deque(maxlen=WINDOW)
        self._best: float | None = None

    def add(self, reward: float, length: int) -> None:
        self.episodes += 1
        if len(self._first) < WINDOW:
            self._first.append(reward)
        self._last.append(reward)
        self._lengths.append(length)
        if len(self._last) == WINDOW:
            mean = statistics.fmean(self._last)
            self._best = mean if self._best is None else max(self._best, mean)

    @property
    def initial(self) -> tuple[float, float] | None:
        """Mean and standard deviation."""
        return _mean_and_std(self._first)

    @property
    def final(self) -> tuple[float, float] | None:
        return _mean_and_std(self._last)

    @property
    def best(self) -> float | None:
        return self._best if self._best is not None else (self.final or (None,))[0]

    @property
    def mean_length(self) -> float | None:
        return statistics.fmean(self._lengths) if self._lengths else None

    def state(self) -> dict[str, Any]:
        return {
            "episodes": self.episodes,
            "first": list(self._first),
            "last": list(self._last),
            "lengths": list(self._lengths),
            "best": self._best,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.episodes, self._best = state["episodes"], state["best"]
        self._first = list(state["first"])
        self._last = deque(state["last"], maxlen=WINDOW)
        self._lengths = deque(state["lengths"], maxlen=WINDOW)


def _mean_and_std(values: list[float] | deque[float]) -> tuple[float, float] | None:
    return (statistics.fmean(values), statistics.pstdev(values)) if values else None
