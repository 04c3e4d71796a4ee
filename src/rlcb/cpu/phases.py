"""Where the time goes."""

from __future__ import annotations

from time import perf_counter

PHASES = ("environment", "act", "learn", "other")


class Phases:
    """A stopwatch with laps: `mark("act")` says that all since the last mark was acting."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._last = perf_counter()

    def mark(self, phase: str) -> None:
        now = perf_counter()
        self.seconds[phase] += now - self._last
        self._last = now

    def take(self) -> dict[str, float]:
        """Seconds per phase since the last take."""
        taken, self.seconds = self.seconds, dict.fromkeys(PHASES, 0.0)
        return taken
