"""Sums over the ranks of one machine, in memory that they share: nothing passes through the kernel's network. Where
there are several machines, one rank of each then talks for all of its machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rlcb.kernels import add_up
from rlcb.training.barrier import Barrier

TURNS = 2
NO_FILE = -1


class SharedSum:
    """For tensors of one length and type. Every rank has a row for its values in either turn, and adds up those of all,
    always in the same order: all have the same sum to the bit. Where other machines have something to add, the first
    rank does so for all, and they read what it has left in its row.

    With two turns nobody has to wait before it writes. Who writes its row of a turn again has passed the barrier of the
    other turn meanwhile, and nobody came there before having read all rows of this one.
    """

    def __init__(self, rows: Tensor, rank: int, meet: Barrier) -> None:
        """`rows`: [turns, ranks, length]"""
        self._rows, self._rank, self._meet = rows, rank, meet
        self._turn = 0

    def add_up(self, values: Tensor, elsewhere: Callable[[Tensor], None] | None = None) -> None:
        """Replace values by their sum over all ranks. `elsewhere` adds what other machines have; the first rank here
        calls it, and the others wait for what comes of it."""
        rows, total = self._rows[self._turn], values.view(-1)
        self._turn = (self._turn + 1) % TURNS
        rows[self._rank].copy_(total)
        self._meet()
        if elsewhere is None or self._rank == 0:
            torch.add(rows[0], rows[1], out=total)
            pairs = (one + other for one, other in zip(rows[2::2], rows[3::2], strict=False))
            add_up(chain([total], pairs, rows[len(rows) // 2 * 2 :]))
        if elsewhere is None:
            return
        if self._rank == 0:
            elsewhere(total)
            rows[0].copy_(total)
        self._meet()
        if self._rank:
            total.copy_(rows[0])


def make_shared_sum(length: int, dtype: torch.dtype, group: Any, everybody: Any, timeout: float) -> SharedSum | None:
    """For the ranks of one machine, `group`. Those of all machines, `everybody`, call it together. None for all of them
    where one cannot get at the memory: some containers forbid it. Who does not come within `timeout` is lost.

    The memory has no name, so nothing is left of it whoever is killed and when.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    shape, barrier_size = (TURNS, ranks, length), Barrier.size(ranks)
    size = barrier_size + prod(shape) * dtype.itemsize
    file = _file(size) if rank == 0 else None
    try:
        where = torch.zeros(ranks, 2, dtype=torch.int64)
        where[rank] = torch.tensor([os.getpid(), NO_FILE if file is None else file])
        dist.all_reduce(where, group=group)
        memory = _mapped("/proc/{}/fd/{}".format(*where[0].tolist()), size)
        if rank == 0 and memory is not None:
            Barrier.prepare(memory[:barrier_size])
        # Until everybody has come to this, the first rank keeps the file open.
        all_have_it = torch.tensor(memory is not None, dtype=torch.int32)
        dist.all_reduce(all_have_it, dist.ReduceOp.MIN, group=everybody)
    finally:
        if file is not None:
            os.close(file)
    if memory is None or not all_have_it:
        return None
    meet = Barrier(memory[:barrier_size], rank, where[:, 0].tolist(), timeout)
    return SharedSum(memory[barrier_size:].view(dtype).view(shape), rank, meet)


def _file(size: int) -> int | None:
    try:
        file = os.memfd_create("rlcb-sum")
    except OSError:
        return None
    try:
        os.ftruncate(file, size)
    except OSError:
        os.close(file)
        return None
    return file


def _mapped(file: str, size: int) -> Tensor | None:
    try:
        return torch.from_file(file, shared=True, size=size, dtype=torch.uint8)
    except RuntimeError:  # what torch makes of a file that it cannot open
        return None
