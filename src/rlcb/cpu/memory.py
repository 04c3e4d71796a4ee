"""Memory and CPU use of a process and all its children."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """What a machine gives to a run."""

    memory: int  # bytes
    cpu_seconds: float  # since the watch began


NOWHERE = Usage(0, 0.0)
GROWN = 1.01  # times the memory seen before: worth a sample
REST = 500  # times as long as it takes to look


def tree_pss(root: int) -> int:
    """Bytes in proportional set size: what processes share counts once, divided among them."""
    return sum(_pss(process.pid) for process in _tree(root))


def tree_rss(root: int) -> int:
    """Bytes, where what processes share counts once for each. It takes a hundredth of the time that their pages do."""
    total = 0
    for process in _tree(root):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def tree_cpu_seconds(root: int) -> float:
    """CPU time that the tree has used so far, those that have ended included."""
    total = 0.0
    for process in _tree(root):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _tree(root: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []  # it has just ended


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


class MemoryWatch:
    """Samples the memory of the process `root` and all below it; remembers the last figure, the mean and the peak.

    Going through the pages of large processes takes tens of milliseconds of a core, for which all ranks of a run would
    wait. It is done where there is more memory than ever, and else now and then.
    """

    def __init__(self, root: int, every_seconds: float = 2.0) -> None:
        self.root = root
        self.peak = 0
        self.last = 0
        self._here = 0
        self.elsewhere = 0  # what other machines have said that they use
        self._cpu, self._cpu_begin = 0.0, tree_cpu_seconds(root)
        self._began = self._looked = perf_counter()
        self._spent_looking = 0.0
        self._sum = 0
        self._samples = 0
        self._sampled_at = self._sample_seconds = 0.0
        self._highest_rss = 0
        self._every = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)

    @property
    def mean(self) -> float:
        return self._sum / self._samples if self._samples else 0.0

    @property
    def usage(self) -> Usage:
        """Memory as last sampled, CPU time of `cpu_age` seconds ago: looking through all processes of a machine may
        take a five-hundredth of the time."""
        if REST * self._spent_looking < perf_counter() - self._began:
            self._look()
        return Usage(self.last, self._cpu)

    @property
    def cpu_age(self) -> float:
        """Seconds since the CPU time was looked at. What it is divided by has to end then, too."""
        return perf_counter() - self._looked

    def _look(self) -> None:
        begin = perf_counter()
        self._cpu = tree_cpu_seconds(self.root) - self._cpu_begin
        self._looked = perf_counter()
        self._spent_looking += self._looked - begin

    def sample(self) -> None:
        self._sampled_at = perf_counter()
        self._highest_rss = max(self._highest_rss, tree_rss(self.root))
        self._here = tree_pss(self.root)
        self._sample_seconds = perf_counter() - self._sampled_at
        self._look()
        self._count()

    def _count(self) -> None:
        self.last = self._here + self.elsewhere
        self.peak = max(self.peak, self.last)
        self._sum += self.last
        self._samples += 1

    def __enter__(self) -> MemoryWatch:
        self.sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.sample()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            rested = perf_counter() - self._sampled_at > REST * self._sample_seconds
            if rested or tree_rss(self.root) > GROWN * self._highest_rss:
                self.sample()
            else:
                self._count()
