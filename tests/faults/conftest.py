"""Runs that are hurt: real processes, real signals."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.parallel.conftest import records


class Run:
    """A training that is under way."""

    def __init__(self, place: Path, *words: str) -> None:
        self.place = place
        self.output = place.with_suffix(".out")
        command = [sys.executable, "-m", "rlcb", "train", "--output-dir", str(place), *words]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def ranks(self) -> list[psutil.Process]:
        """In the order of their numbers."""
        return self.named("rlcb-rank-")

    def crew(self) -> list[psutil.Process]:
        """Actors, or workers of A3C, in the order of their numbers."""
        return self.named("rlcb-actor-") + self.named("rlcb-worker-")

    def named(self, start: str) -> list[psutil.Process]:
        found = [process for process in _alive(self.tree()) if process.name().startswith(start)]
        return sorted(found, key=lambda process: process.name())

    def tree(self) -> list[psutil.Process]:
        top = psutil.Process(self.process.pid)
        return [top, *top.children(recursive=True)]

    def records(self) -> list[dict[str, Any]]:
        return records(self.place)

    def text(self) -> str:
        return self.output.read_text()

    def reaches(self, update: int) -> None:
        self.until(lambda: any(record["updates"] >= update for record in self.records()), f"update {update}")

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not after {seconds} seconds\n{self.text()}"
            assert self.process.poll() is None, f"{what}: the run has ended before\n{self.text()}"
            time.sleep(0.05)

    def ends(self, seconds: float = 120) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} seconds\n{self.text()}") from None


@contextmanager
def running(place: Path, *words: str) -> Iterator[Run]:
    run = Run(place, *words)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            # The others end with it; killed one by one, nobody would be left to remove what they share.
            tree = run.tree()
            run.process.kill()
            run.process.wait(30)
            psutil.wait_procs(tree, 10)


def with_signal(process: psutil.Process, number: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    alive = []
    for process in processes:
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.cmdline():
                alive.append(process)
        except psutil.NoSuchProcess:
            continue
    return alive
