"""Ctrl-C, SIGTERM, and SIGUSR1 from a scheduler: the first asks the run to end after this update, the second ends it at
once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType, TracebackType

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopSignal:
    """`received` is the number of the signal, or None."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._tell: Callable[[int], None] = lambda number: None

    def then(self, tell: Callable[[int], None]) -> None:
        """Call this with every signal as well."""
        self._tell = tell

    def __enter__(self) -> StopSignal:
        self._before = {number: signal.signal(number, self._handle) for number in HANDLED}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """As shells count: 130 for Ctrl-C, 143 for SIGTERM, 138 for SIGUSR1."""
        return 128 + self.received if self.received else 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._tell(number)
        if self.received is not None:
            os._exit(128 + number)
        self.received = number
