"""Weights that one process writes and others copy are never torn, however fast both are."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.multiprocessing as multiprocessing

from rlcb.training.shared import SharedWeights

SIZE = 300_000
SECONDS = 3.0


def write(weights: SharedWeights, end: Any) -> None:
    """Every version is all of one number: its own."""
    while not end.is_set():
        weights.publish(torch.full((SIZE,), float(weights.version + 1)))


def read(weights: SharedWeights, end: Any, found: Any) -> None:
    torch.set_num_threads(1)
    mine = torch.empty(SIZE)
    copies, versions, torn = 0, set(), 0
    while not end.is_set():
        version = weights.copy_to(mine)
        versions.add(version)
        torn += bool((mine != version).any())
        copies += 1
    found.put((copies, len(versions), torn))


def test_copies_are_never_torn() -> None:
    context = multiprocessing.get_context("spawn")
    weights, end, found = SharedWeights(torch.zeros(SIZE)), context.Event(), context.Queue()
    processes = [context.Process(target=write, args=(weights, end))]
    processes += [context.Process(target=read, args=(weights, end, found)) for _ in range(2)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + 60
    while weights.version < 100 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(SECONDS)
    end.set()
    results = [found.get(timeout=30) for _ in range(2)]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    for copies, versions, torn in results:
        assert copies >= 10
        assert versions >= 5, "the weights did not change between copies: the test shows little"
        assert torn == 0
