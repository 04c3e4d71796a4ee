"""Ranks without a launcher: real processes that meet in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

from rlcb.cpu.phases import Phases
from rlcb.training import server
from rlcb.training.ranks import STORE_FILE, Together

start_processes: Callable[..., None] = multiprocessing.start_processes  # type: ignore[attr-defined]


def run_ranks(size: int, main: Callable[..., None], *arguments: object) -> None:
    """`main` with its number and the arguments, in as many processes; returns when all are over. They are forked from
    where those of runs are: it has imported torch."""
    server.start()
    start_processes(main, args=arguments, nprocs=size, start_method="forkserver")


def together(
    index: int, size: int, folder: Path, local: int = 1, timeout: float = 60.0, half: bool = False
) -> Together:
    """In such a process. `local` of them are on each machine, or believe so; what they send is in `half` precision."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"RANK": str(index), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(local)}
    os.environ |= {"TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo", STORE_FILE: f"{folder}/store"}
    return Together(Phases(), timeout, half)
