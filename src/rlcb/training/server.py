"""The server that processes are forked from (multiprocessing's forkserver): it imports once what they all need, so that
they begin at once and share the memory."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver

READY = "rlcb.training.ready"
PLAYS = "rlcb.training.warm"  # and the pictures of all games
LEARNS = "torch._dynamo"  # imported by the first optimizer that is made: a second and a half in every process

_PLAYING_RANKS = ("ppo", "a2c")  # others have a crew that plays


def start(algo: str) -> None:
    """For the ranks of a run. Does not import torch, so that the server can do so while this process does. Once more is
    fine."""
    multiprocessing.set_forkserver_preload([PLAYS if algo in _PLAYING_RANKS else READY, LEARNS])
    forkserver.ensure_running()
