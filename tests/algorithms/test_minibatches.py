from __future__ import annotations

import pytest
import torch

from rlcb.algorithms.minibatches import Steps


def steps(first: int, last: int, parts: int) -> Steps:
    """Their actions are their numbers."""
    numbers = torch.arange(first, last)
    nothing = torch.empty(len(numbers))
    return Steps(nothing, numbers, nothing, nothing, nothing, nothing, parts)


@pytest.mark.parametrize("size", [10, 100, 256, 625, 1000, 1250, 2500])
@pytest.mark.parametrize("ranks", [2, 4])
def test_pieces_do_not_depend_on_ranks(ranks: int, size: int) -> None:
    """Four parts of 625, an odd number. A piece is whole parts, or one of those that one rank alone would cut a part
    into."""
    alone = [piece.actions.tolist() for piece, _ in steps(0, 2500, 4).split(size)]
    each = 2500 // ranks
    for rank in range(ranks):
        pieces = steps(rank * each, (rank + 1) * each, 4 // ranks).split(size)
        assert sum(share for _, share in pieces) == pytest.approx(1)
        for piece, _ in pieces:
            numbers = piece.actions.tolist()
            assert 0 < len(numbers) <= size
            whole = (numbers[0] % 625, len(numbers) % 625) == (0, 0)
            assert whole or (numbers in alone and numbers[0] // 625 == numbers[-1] // 625)
