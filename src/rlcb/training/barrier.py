"""Where the ranks of one machine wait for each other, without a thread or a socket in between."""

from __future__ import annotations

import ctypes
import errno
import time
from math import ceil

import psutil
from torch import Tensor

CLOSED = "Connection closed by peer"  # what gloo says, too
LOOK_SECONDS = 1.0  # between two looks at whether somebody has ended
STRIDE = 64  # bytes: a semaphore has 32, and shares no line of the cache with another

_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Barrier:
    """For every two ranks there are two semaphores, one each way: a rank tells all others that it is there,
    then waits until all have told it. Gloo's goes through threads of its own, which the scheduler may well put onto the
    core of somebody who still works."""

    def __init__(self, memory: Tensor, rank: int, processes: list[int], timeout: float) -> None:
        """In `memory` that all ranks share; `processes` are theirs. The first rank must have called `prepare`."""
        self._at, self._rank, self._processes = memory.data_ptr(), rank, processes
        self._others = [other for other in range(len(processes)) if other != rank]
        self._looks = ceil(timeout / LOOK_SECONDS)

    @staticmethod
    def size(ranks: int) -> int:
        """Bytes that it needs."""
        return STRIDE * ranks**2

    @staticmethod
    def prepare(memory: Tensor) -> None:
        for at in range(memory.data_ptr(), memory.data_ptr() + memory.numel(), STRIDE):
            _libc.sem_init(ctypes.c_void_p(at), 1, 0)

    def __call__(self) -> None:
        """What anybody wrote before, all can read afterwards."""
        for other in self._others:
            _libc.sem_post(self._semaphore(self._rank, other))
        for other in self._others:
            self._wait_for(other)

    def _wait_for(self, other: int) -> None:
        for _ in range(self._looks):
            if self._comes(other):
                return
            if _has_ended(self._processes[other]):
                raise RuntimeError(f"{CLOSED} {other}")
        raise RuntimeError(f"rank {other} did not answer for {self._looks * LOOK_SECONDS:.0f} seconds")

    def _comes(self, other: int) -> bool:
        """Before the next look. Whoever was stopped meanwhile, and goes on, has missed one look, not many."""
        seconds, rest = divmod(time.time() + LOOK_SECONDS, 1)
        until = ctypes.byref(_Time(int(seconds), int(rest * 1e9)))
        while _libc.sem_timedwait(self._semaphore(other, self._rank), until) != 0:
            if ctypes.get_errno() != errno.EINTR:  # a signal, to which Python answers in between
                return False
        return True

    def _semaphore(self, whose: int, for_whom: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._at + STRIDE * (whose * len(self._processes) + for_whom))


def _has_ended(process: int) -> bool:
    try:
        return bool(psutil.Process(process).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
