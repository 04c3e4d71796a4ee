"""Parts of a batch, whose gradients are computed by themselves: what comes out does not depend on who computes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor

from rlcb.kernels.library import kernels

_parts = 1


@contextmanager
def parts_apart(number: int) -> Iterator[None]:
    """Within, a batch is so many parts of as many samples. The gradients of weights are those of every part, added up
    by `add_up`: which parts are beside one changes no bit of it, nor does the number of threads."""
    global _parts
    before, _parts = _parts, number
    try:
        yield
    finally:
        _parts = before


def parts_of(samples: int) -> int:
    """For layers: how many parts so many samples are."""
    assert samples % _parts == 0
    return _parts


def keeps_parts_apart() -> bool:
    """Torch's convolutions know nothing of parts: give them one at a time."""
    return kernels().library is not None


def add_up(terms: Iterable[Tensor]) -> Tensor:
    """Neighbours, then neighbours of those, into the first of them. Whoever adds up some and leaves the rest to others,
    as processes do, comes to the same bits."""
    sums: list[tuple[int, Tensor]] = []  # of so many, each of fewer than the one before
    for total in terms:
        number = 1
        while sums and sums[-1][0] == number:
            total, number = sums.pop()[1].add_(total), 2 * number
        sums.append((number, total))
    total = sums.pop()[1]
    while sums:
        total = sums.pop()[1].add_(total)
    return total
