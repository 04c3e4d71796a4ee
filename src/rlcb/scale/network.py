"""How long gloo's collectives take between the ranks of several nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil, log2

import numpy as np
from numpy.typing import NDArray

MAX_SEGMENT_BYTES = 2**20  # gloo's
PAYLOAD = 1448 / 1514  # of a full Ethernet frame that carries TCP


@dataclass(frozen=True)
class Link:
    """From one process to another, one way."""

    latency: float  # seconds until a message is there
    seconds_per_byte: float


def wire(latency_ms: float, mbits: float, here: Link) -> Link:
    """Between two nodes: what the network takes, and no less than processes of one machine take."""
    seconds_per_byte = 8 / (1e6 * mbits * PAYLOAD)
    return Link(here.latency + latency_ms / 1000, max(here.seconds_per_byte, seconds_per_byte))


@dataclass(frozen=True)
class Network:
    """Where there are several nodes, the first rank of each talks for it."""

    nodes: int
    ranks_per_node: int
    here: Link
    between: Link

    def all_reduce(self, elements: int, element_bytes: int) -> float:
        """Of one tensor of every node, or, where there is only one, of every rank. Seconds from the moment that all
        are there."""
        number, link = (self.nodes, self.between) if self.nodes > 1 else (self.ranks_per_node, self.here)
        return ring(number, link, elements, element_bytes) if number > 1 else 0.0

    @property
    def levels(self) -> tuple[tuple[int, Link], ...]:
        """How many talk over which link: the ranks of a node, and the first ranks of all nodes."""
        return (self.ranks_per_node, self.here), (self.nodes, self.between)

    def tell(self) -> float:
        """A few numbers from rank 0 to all, by a tree; they wait for it."""
        return sum(ceil(log2(number)) * link.latency for number, link in self.levels)

    def gather(self, each_bytes: int) -> float:
        """To rank 0: everybody's size to everybody, around the ring, and then the things, straight."""
        seconds, together = 0.0, 1
        for number, link in self.levels:
            if number > 1:
                sent = (number - 1) * together * each_bytes
                seconds += number * 2 * link.latency + sent * link.seconds_per_byte
            together = number
        return seconds


@cache
def ring(n: int, link: Link, elements: int, element_bytes: int) -> float:
    """Gloo's all-reduce among `n`, step by step, all at once: every rank sends to the one before it and receives from
    the one after it, segment by segment with two under way, first to add up and then to hand round. A segment leaves
    when its receiver has said that it is ready for it: that takes a message the other way."""
    segments, segment_bytes = _segments(n, elements, element_bytes)
    per_rank = segments // n
    total = elements * element_bytes
    ranks = np.arange(n)
    now = np.zeros(n)  # where every rank is in its own time
    free = np.zeros(n)  # when its link to the one before it is
    for first_sent in (1, 0):  # in the first round a rank begins with its neighbour's chunk, in the second with its own
        arrived: list[NDArray[np.float64]] = []
        sent: list[NDArray[np.float64]] = []
        for i in range(segments - per_rank + 2):
            if i >= 2:
                now = np.maximum(now, np.maximum(arrived[i - 2], sent[i - 2]))
            if i < segments - per_rank:
                offset = ((ranks + first_sent) * per_rank + i) % segments * segment_bytes
                length = np.clip(total - offset, 0, segment_bytes)
                ready = np.roll(now, 1) + link.latency  # of the receiver: the rank before
                start = np.maximum(np.maximum(now, ready), free)
                end = start + length * link.seconds_per_byte
                free = np.where(length > 0, end, free)
                sent.append(np.where(length > 0, start, now))
                arrived.append(np.roll(np.where(length > 0, end + link.latency, 0.0), -1))
    return float(now.max())


def _segments(n: int, elements: int, element_bytes: int) -> tuple[int, int]:
    """Their number and size: at least two for every rank, none larger than gloo's limit."""
    total = elements * element_bytes
    largest = MAX_SEGMENT_BYTES // element_bytes * element_bytes
    number = ceil(max(ceil(total / largest), 2 * n) / n) * n
    return number, ceil(total / number / element_bytes) * element_bytes
