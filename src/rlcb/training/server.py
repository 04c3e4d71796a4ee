"""The server that all processes of a run are forked from (multiprocessing's forkserver). It has imported what they
need, so they begin at once and share the memory."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver, resource_tracker
from typing import Any

from rlcb.training.signals import deaf

_server: Any = forkserver._forkserver  # type: ignore[attr-defined]


def start() -> None:
    """Does not import torch, so that the server can do so while this process does. Once more is fine.

    What it forks is deaf: the process that started the run decides what a signal means.
    """
    multiprocessing.set_forkserver_preload(["rlcb.training.warm"])
    with deaf():
        resource_tracker.ensure_running()  # which listens to some again, in this process
    with deaf():
        _server.ensure_running()


def join() -> None:
    """In a process that the server has forked: let it fork for this one too, and end with the process that started it.

    Its documentation says that children use the server of their parent, but they start another: they do not know its
    process id. And each of them would keep it alive, even one that is stopped.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, _server._forkserver_alive_fd)
    os.close(nothing)
    _server.ensure_running = resource_tracker.ensure_running
