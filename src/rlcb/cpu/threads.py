"""How many threads torch gets, and why."""

from __future__ import annotations

import os
from typing import NamedTuple

from rlcb.cpu.machine import physical_cores, usable_cpus


class Threads(NamedTuple):
    number: int
    reason: str


def choose_threads(asked: int | None) -> Threads:
    """One per physical core that this process may use, unless asked for another number."""
    if asked is not None:
        usable = len(usable_cpus())
        more = f", more than the {usable} CPUs at hand" if asked > usable else ""
        return Threads(asked, f"as asked{more}")
    cores = physical_cores()
    return Threads(cores, "one per physical core that this process may use" if cores > 1 else "one core")


def prepare_threads(count: int) -> None:
    """Set what the maths libraries read when they are loaded. Comes before the first import of torch."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(count)


def apply_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
