"""Ctrl-C, SIGTERM, a terminal that closes, and SIGUSR1 from a scheduler: the first asks the run to end after this
update, the second ends it at once.

Schedulers signal every process of a job. Of a run in several processes only the launcher listens (`deaf`), and it
leaves the signal's number where the ranks look (`StopFile`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
SAME_SECONDS = 1.0  # what comes so soon is the same signal, from the scheduler and passed on by a parent


class Stop:
    """`received` is the number of the signal, or None."""

    received: int | None = None
    obeyed = False  # whether something was left undone because of it

    @property
    def exit_code(self) -> int:
        """As shells count: 130 for Ctrl-C, 143 for SIGTERM, 138 for SIGUSR1; 0 where it came after all was done."""
        return 128 + self.received if self.received and self.obeyed else 0


class StopSignal(Stop):
    """The signals of this process, for as long as it is entered."""

    def __init__(self) -> None:
        self._at = 0.0
        self._tell: Callable[[int], None] = lambda number: None

    def then(self, tell: Callable[[int], None]) -> None:
        """Call this with the signal as well, now if it was there before."""
        self._tell = tell
        if self.received is not None:
            tell(self.received)

    def __enter__(self) -> StopSignal:
        handled = [number for number in HANDLED if number != signal.SIGHUP or not _under_nohup()]
        self._before = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self._at = number, monotonic()
            self._tell(number)
        elif monotonic() - self._at > SAME_SECONDS:
            os._exit(128 + number)


def _under_nohup() -> bool:
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


class StopFile(Stop):
    """What another process was told: it leaves the signal's number in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._number: int | None = None

    @property
    def received(self) -> int | None:
        if self._number is None:
            with suppress(FileNotFoundError):
                self._number = int(self._file.read_text())
        return self._number

    @received.setter
    def received(self, number: int | None) -> None:
        self._number = number


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started meanwhile, and theirs, never get these signals. Ours wait until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
