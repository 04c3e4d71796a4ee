"""How long something takes."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter


def seconds_per_call(call: Callable[[], object], at_least: float) -> float:
    """The mean over as many calls as fit into `at_least` seconds, after one that warms up."""
    call()
    calls, begin = 0, perf_counter()
    while perf_counter() - begin < at_least:
        call()
        calls += 1
    return (perf_counter() - begin) / calls
