"""A live bar where there is a terminal, plain lines where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TextIO

from tqdm import tqdm


class _Bar(tqdm):  # type: ignore[type-arg]
    monitor_interval = 0  # no thread of its own: those who show it start processes


class Screen:
    """`name` stands before the bar. It moves when it is told to, in permille, so that long runs move too."""

    def __init__(self, name: str, stream: TextIO | None = None, leave: bool = True) -> None:
        self._stream = stream or sys.stdout
        if isinstance(self._stream, TextIOWrapper):
            self._stream.reconfigure(errors="replace")  # a ± that it cannot spell ends nothing
        self._format = f"{name}: {{percentage:3.0f}}%|{{bar}}|"
        self._bar: _Bar | None = None
        if self._stream.isatty():
            sized = os.get_terminal_size(self._stream.fileno()).columns > 0  # some terminals do not tell their size
            self._bar = _Bar(
                total=1000,
                file=self._stream,
                bar_format=self._format,
                dynamic_ncols=sized,
                ncols=None if sized else 120,
                nrows=None if sized else 20,
                leave=leave,
            )

    @property
    def live(self) -> bool:
        return self._bar is not None

    def say(self, text: str) -> None:
        """A block or a line of its own, above the bar."""
        with self._whoever_listens():
            if self._bar is not None:
                self._bar.write(text, file=self._stream)
            else:
                print(text, file=self._stream, flush=True)

    def show(self, share: float, text: str) -> None:
        """The bar at this share, with the text behind it; nothing where there is no bar."""
        if self._bar is not None:
            self._bar.n = round(1000 * share)
            self._bar.bar_format = f"{self._format} {text}"
            with self._whoever_listens():
                self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            with self._whoever_listens():
                self._bar.close()

    @contextmanager
    def _whoever_listens(self) -> Iterator[None]:
        """When nobody does any more (`| tee`, which Ctrl-C ends too; a terminal that was closed), the work goes on."""
        try:
            yield
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
