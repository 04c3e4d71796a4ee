"""What a person sees of a suite: one live line on a terminal, a plain line a minute elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

from rlcb.screen import Screen

SECONDS_LIVE, SECONDS_PLAIN = 1.0, 60.0  # between two looks at the runs' metrics


class SuiteProgress:
    def __init__(self, total: int, screen: TextIO | None = None) -> None:
        self._total = total
        self._screen = Screen("Suite", screen, leave=False)
        self._shown = float("-inf")
        self.say = self._screen.say

    def __enter__(self) -> SuiteProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.close()

    @property
    def due(self) -> bool:
        return time.monotonic() - self._shown >= (SECONDS_LIVE if self._screen.live else SECONDS_PLAIN)

    def show(self, done: int, shares: dict[str, float], share: float, seconds: float | None) -> None:
        """`done` jobs are over; `shares` says how far those under way are, by name, `share` how far the suite is, and
        `seconds` what it has before it."""
        self._shown = time.monotonic()
        under_way = ", ".join(f"{name} {one:.0%}" if one < 1 else f"{name} evaluation" for name, one in shares.items())
        left = "unknown" if seconds is None else tqdm.format_interval(seconds)
        line = f"{done}/{self._total} runs done | {under_way} | ETA {left}"
        if self._screen.live:
            self._screen.show(share, line)
        else:
            self._screen.say(line)
