"""Where the time goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

PHASES = ("environment", "act", "learn", "synchronise", "wait", "other")


class Phases:
    """A stopwatch with laps: `mark("act")` says that all since the last mark was acting, but for what `during` took.
    The first mark starts it: what was imported and built before is no part of the work."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self._last: float | None = None

    def mark(self, phase: str) -> None:
        now = perf_counter()
        if self._last is not None:
            self.seconds[phase] += now - self._last
        self._last = now

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """A piece of another phase inside a lap."""
        begin = perf_counter()
        yield
        taken = perf_counter() - begin
        if self._last is not None:
            self.seconds[phase] += taken
            self._last += taken

    def take(self) -> dict[str, float]:
        """Seconds per phase since the last take."""
        taken, self.seconds = self.seconds, dict.fromkeys(PHASES, 0.0)
        return taken
