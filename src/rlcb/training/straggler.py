"""The straggler cut: a rank that is slower than most stops collecting early, so that nobody waits long for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter

ENOUGH_RANKS = 0.6  # when so many have finished, the others stop
LEAST_STEPS = 0.25  # but not before they have so much of their rollout
ASKING = 0.05  # of the time, at most, goes into asking how many have finished


class StragglerCut:
    """Ranks learn together, so when one begins to collect, all have finished what they collected before: one counter
    serves all updates."""

    def __init__(self, count: Callable[[int], int], size: int, n_steps: int, minibatches: int) -> None:
        """`count` adds to a number that all ranks share, and returns it."""
        self._count, self._size = count, size
        self._enough = math.ceil(ENOUGH_RANKS * size)
        self._least = max(math.ceil(LEAST_STEPS * n_steps), minibatches)  # every minibatch gets a step
        self._finished = 0  # rollouts of this rank
        self._ask_at = 0.0

    def __call__(self, steps: int) -> bool:
        """With so many steps collected: is it time to stop?"""
        now = perf_counter()
        if steps < self._least or now < self._ask_at:
            return False
        finished = self._count(0)
        answered = perf_counter()
        self._ask_at = answered + (answered - now) / ASKING
        return finished >= self._finished * self._size + self._enough

    def finish(self) -> None:
        self._count(1)
        self._finished += 1
