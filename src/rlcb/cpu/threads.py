"""How many threads torch gets, and why."""

from __future__ import annotations

import os
from typing import NamedTuple

from rlcb.config import Config
from rlcb.cpu.machine import physical_cores, usable_cpus


class Threads(NamedTuple):
    number: int
    reason: str


def choose_threads(asked: int | None, processes: int = 1) -> Threads:
    """One per physical core that this process may use, or as many as asked, but no more than there are CPUs for each of
    the processes: threads that wait for each other's turn make training many times slower."""
    if asked is None:
        return Threads(physical_cores(), "one per physical core that this process may use")
    usable = len(usable_cpus())
    share = max(1, usable // processes)
    if asked > share:
        who = "this process" if processes == 1 else f"these {processes} processes"
        return Threads(share, f"{asked} were asked for, but {who} may use {usable} CPUs")
    return Threads(asked, "as asked")


def threads_of(config: Config) -> Threads:
    """Of every process that learns."""
    if config.mode == "sequential" or config.hardware.num_threads is not None:
        return choose_threads(config.hardware.num_threads, config.num_ranks // config.num_nodes)
    return Threads(1, "one for each process: they do not wait for each other's threads")


def prepare_threads(count: int) -> None:
    """Set what the maths libraries read when they are loaded. Comes before the first import of torch."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(count)


def apply_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
