"""What a person sees of a suite: one live line on a terminal, a plain line a minute elsewhere."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

SECONDS_LIVE, SECONDS_PLAIN = 1.0, 60.0  # between two looks at the runs' metrics
BAR = "Suite: {percentage:3.0f}%|{bar}|"


class _Bar(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # no thread of its own: this process forks


class SuiteProgress:
    def __init__(self, total: int, screen: TextIO | None = None) -> None:
        self._total = total
        self._screen = screen or sys.stdout
        self._shown = float("-inf")
        self._bar: _Bar | None = None
        if self._screen.isatty():
            sized = os.get_terminal_size(self._screen.fileno()).columns > 0  # some terminals do not tell their size
            self._bar = _Bar(
                total=1000,
                file=self._screen,
                bar_format=BAR,
                dynamic_ncols=sized,
                ncols=None if sized else 120,
                nrows=None if sized else 20,
                leave=False,
            )

    def __enter__(self) -> SuiteProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self._bar is not None:
            self._bar.write(text, file=self._screen)
        else:
            print(text, file=self._screen, flush=True)

    @property
    def due(self) -> bool:
        return time.monotonic() - self._shown >= (SECONDS_PLAIN if self._bar is None else SECONDS_LIVE)

    def show(self, done: int, shares: dict[str, float], share: float, seconds: float | None) -> None:
        """`done` jobs are over; `shares` says how far those under way are, by name, `share` how far the suite is, and
        `seconds` what it has before it."""
        self._shown = time.monotonic()
        under_way = ", ".join(f"{name} {one:.0%}" if one < 1 else f"{name} evaluation" for name, one in shares.items())
        left = "unknown" if seconds is None else tqdm.format_interval(seconds)
        line = f"{done}/{self._total} runs done | {under_way} | ETA {left}"
        if self._bar is None:
            print(line, file=self._screen, flush=True)
            return
        self._bar.n = round(1000 * share)
        self._bar.bar_format = f"{BAR} {line}"
        self._bar.refresh()
