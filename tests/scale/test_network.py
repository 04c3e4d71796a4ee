from __future__ import annotations

from functools import cache

import pytest

from rlcb.scale.network import PAYLOAD, Link, Network, ring, wire

NOTHING = Link(0.0, 0.0)


def literal(n: int, link: Link, elements: int, element_bytes: int) -> float:
    """One event at a time: when does rank r finish waiting for its k-th segment?"""
    total = elements * element_bytes
    count = 2 * n
    while -(-total // count) > 2**20:
        count += n
    size = -(-total // (count * element_bytes)) * element_bytes
    per_rank = count // n
    moves = count - per_rank  # of each round

    def length(r: int, k: int) -> int:
        own = 1 if k < moves else 0
        segment = ((r + own) * per_rank + k % moves) % count
        return max(0, min(size, total - segment * size))

    @cache
    def posted(r: int, k: int) -> float:
        """It goes on to segment k when it has sent and received k - 2; the second round begins when all of the first
        is over."""
        before = [posted(r, k - 1)] if k else [0.0]
        done = k - 2 if k % moves >= 2 else (k // moves) * moves - 1
        return max([*before, *(finished(r, j) for j in range(max(0, done - 1), done + 1))])

    @cache
    def started(r: int, k: int) -> float:
        ready = posted((r - 1) % n, k) + link.latency
        return max(posted(r, k), ready, left(r, k - 1))

    @cache
    def left(r: int, k: int) -> float:
        if k < 0:
            return 0.0
        if not length(r, k):
            return left(r, k - 1)
        return started(r, k) + length(r, k) * link.seconds_per_byte

    def finished(r: int, k: int) -> float:
        sender = (r + 1) % n
        sent = started(r, k) if length(r, k) else 0.0
        received = left(sender, k) + link.latency if length(sender, k) else 0.0
        return max(sent, received)

    return max(finished(r, k) for r in range(n) for k in range(max(0, 2 * moves - 2), 2 * moves))


@pytest.mark.parametrize("number", [2, 3, 4, 5, 12])
@pytest.mark.parametrize("elements", [3, 1000, 600_000])
def test_the_ring_is_the_sum_of_its_events(number: int, elements: int) -> None:
    link = Link(4e-4, 1e-8)
    assert ring(number, link, elements, 4) == pytest.approx(literal(number, link, elements, 4))


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_without_latency_it_is_bytes(nodes: int) -> None:
    """Every rank sends all of the tensor but its own chunk, twice."""
    sent = 2 * (nodes - 1) / nodes * 2_400_000
    assert ring(nodes, Link(0.0, 1e-8), 600_000, 4) == pytest.approx(sent * 1e-8, rel=1e-4)


@pytest.mark.parametrize("nodes", [2, 4, 8])
def test_without_bytes_it_is_round_trips(nodes: int) -> None:
    """Two rounds of N - 1 steps, each a message that says "ready" and one that answers."""
    assert ring(nodes, Link(1e-3, 0.0), 600_000, 4) == pytest.approx(2 * (nodes - 1) * 2e-3)


def test_what_a_node_sends_does_not_grow_with_its_ranks() -> None:
    alone, eight = (Network(2, each, Link(1.0, 1.0), Link(1e-3, 1e-8)).all_reduce(600_000, 4) for each in (1, 8))
    assert alone == eight > 0


def test_one_node_has_no_network() -> None:
    here = Link(3e-5, 2e-9)
    slow, fast = (Network(1, 4, here, link) for link in (Link(1.0, 1.0), NOTHING))
    assert slow.all_reduce(600_000, 4) == fast.all_reduce(600_000, 4) > 0
    assert slow.tell() == fast.tell() > 0
    assert slow.gather(1000) == fast.gather(1000) > 0


def test_one_rank_has_nobody_to_talk_to() -> None:
    network = Network(1, 1, Link(1.0, 1.0), Link(1.0, 1.0))
    assert network.all_reduce(100, 4) == network.tell() == network.gather(1000) == 0


def test_a_wire_carries_frames_and_is_no_faster_than_a_machine() -> None:
    link = wire(2.0, 100, Link(1e-5, 1e-9))
    assert link.latency == pytest.approx(2.01e-3)
    assert link.seconds_per_byte == pytest.approx(8e-8 / PAYLOAD)
    assert wire(2.0, 1e6, Link(1e-5, 1e-9)).seconds_per_byte == 1e-9
