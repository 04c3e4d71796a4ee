"""A long cable: carries frames between two network namespaces, each of them later by a given time, and loses some.

Not every kernel has netem; every one has TAP devices. One end of the cable is a TAP device on each host, and this
process, which holds both, moves what is sent into one of them out of the other. When nobody holds the other end of its
standard input any more, it ends, and the devices with it.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import random
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select

READY = b"ready\n"
FRAME_BYTES = 65_536  # more than any
QUEUE_BYTES = 32 * 2**20  # under way in one direction; more is lost, as it is in a switch
FRAMES_PER_TURN = 64  # before the other direction has its turn

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What this thread opens meanwhile belongs to that network, for as long as it is open."""
    with open("/proc/thread-self/ns/net") as home, Path("/run/netns", namespace).open() as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def open_tap(namespace: str, device: str) -> int:
    """A new device there; it lasts for as long as the file is open."""
    with inside(namespace):
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TAP | _IFF_NO_PI))
    return tap


class Way:
    """One direction."""

    def __init__(self, source: int, target: int, delay: float, loss: float) -> None:
        self.source, self._target = source, target
        self._delay, self._loss = delay, loss
        self._under_way: deque[tuple[float, bytes]] = deque()
        self.bytes_under_way = 0

    def take(self) -> None:
        """What was sent into the cable."""
        with suppress(BlockingIOError):
            for _ in range(FRAMES_PER_TURN):
                frame = os.read(self.source, FRAME_BYTES)
                lost = self._loss > 0 and random.random() < self._loss
                if not lost and self.bytes_under_way + len(frame) <= QUEUE_BYTES:
                    self._under_way.append((time.monotonic() + self._delay, frame))
                    self.bytes_under_way += len(frame)

    def give(self) -> None:
        """What has travelled long enough; where the other end is switched off, it is lost."""
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            _, frame = self._under_way.popleft()
            self.bytes_under_way -= len(frame)
            with suppress(OSError):
                os.write(self._target, frame)

    def seconds_to_next(self) -> float | None:
        return max(0.0, self._under_way[0][0] - time.monotonic()) if self._under_way else None


def carry(ways: list[Way], lifeline: int) -> None:
    """Until somebody lets go of the lifeline."""
    while True:
        pauses = [pause for way in ways if (pause := way.seconds_to_next()) is not None]
        readable, _, _ = select([lifeline, *(way.source for way in ways)], [], [], min(pauses, default=None))
        if lifeline in readable:
            return
        for way in ways:
            if way.source in readable:
                way.take()
            way.give()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ends", nargs=2, metavar="NAMESPACE:DEVICE")
    parser.add_argument("--delay", type=float, required=True, help="seconds, one way")
    parser.add_argument("--loss", type=float, required=True, help="share of the frames")
    args = parser.parse_args()
    first, second = (open_tap(*end.split(":")) for end in args.ends)
    os.nice(-10)  # a cable does not wait until a core is free
    os.write(sys.stdout.fileno(), READY)
    ways = [Way(first, second, args.delay, args.loss), Way(second, first, args.delay, args.loss)]
    carry(ways, sys.stdin.fileno())


if __name__ == "__main__":
    main()
