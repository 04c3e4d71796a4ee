"""Runs one measurement in a process of its own, and watches the memory of its tree from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import IO, Any

import psutil

from rlcb.cpu.memory import MemoryWatch, tree_cpu_seconds

ROOT = Path(__file__).parents[1]
SAMPLE_SECONDS = 3.0  # every look takes some milliseconds from what is measured
SAY_SECONDS = 60.0  # between two signs of life, where there is no terminal to rewrite a line on

DISTURBED = 0.1  # cores in use elsewhere that make a measurement doubtful


class MeasurementFailed(Exception):
    pass


def end_when_told() -> None:
    """SIGTERM ends this process as an exception does, which clears away what was started; only once, since a second one
    must not interrupt that."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def measure(command: list[str], label: str, time_limit: float) -> dict[str, Any]:
    """What the process says in its last line, with the peak memory of its tree."""
    used, others, begin, before = 0.0, 0.0, perf_counter(), cpu_seconds()
    says = _SignsOfLife(label)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        _running(command, output) as child,
        MemoryWatch(child.pid, SAMPLE_SECONDS) as memory,
    ):
        while True:
            try:
                child.wait(SAMPLE_SECONDS)
                break
            except subprocess.TimeoutExpired:
                seconds = perf_counter() - begin
                if seconds > time_limit:
                    raise MeasurementFailed(f"{label}: not done after {time_limit:.0f} seconds") from None
                ours = tree_cpu_seconds(child.pid)
                if ours > used:  # what has ended may no longer count
                    used, others = ours, (cpu_seconds() - before - ours) / seconds
                says.alive(seconds, memory.peak)
        output.seek(0)
        lines = output.read().splitlines()
    if child.returncode:
        tail = "\n".join(lines[-15:])
        raise MeasurementFailed(f"{label}: exit code {child.returncode} of {' '.join(command)}\n{tail}")
    result: dict[str, Any] = json.loads(lines[-1])
    seconds = perf_counter() - begin
    result |= {"peak_memory": memory.peak, "seconds": seconds, "cores_busy_elsewhere": others}
    says.done(result)
    return result


@contextmanager
def _running(command: list[str], output: IO[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process group of its own, so that Ctrl-C reaches us alone, and nothing of it outlives us."""
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def cpu_seconds() -> float:
    """CPU time of everything; of the machine's neighbours too (steal)."""
    times = psutil.cpu_times()
    return float(
        sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
    )  # guests count in user already


class _SignsOfLife:
    def __init__(self, label: str) -> None:
        self._label = label
        self._said = 0.0
        self._terminal = sys.stdout.isatty()
        if not self._terminal:
            print(f"{label} …", flush=True)

    def alive(self, seconds: float, peak: int) -> None:
        if self._terminal:
            print(f"\r{self._label} … {seconds:.0f} s, {peak / 2**30:.2f} GB ", end="", flush=True)
        elif seconds - self._said > SAY_SECONDS:
            self._said = seconds
            print(f"{self._label} … {seconds:.0f} s", flush=True)

    def done(self, result: dict[str, Any]) -> None:
        start = "\r" if self._terminal else ""
        memory, others = result["peak_memory"] / 2**30, result["cores_busy_elsewhere"]
        line = f"{self._label}: {result['fps']:,.0f} FPS, {memory:.2f} GB, in {result['seconds']:.0f} s"
        disturbed = f"; disturbed: others used {others:.2f} cores meanwhile" if others > DISTURBED else ""
        print(f"{start}{line}{disturbed}", flush=True)
