"""No process outlives the one that started it, and every process has a name."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

from rlcb.training import server

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
WATCH_SECONDS = 1.0


def live_with_parent(name: str) -> int:
    """Call first in a process that multiprocessing has started; returns the one it was started by. `name` is what `top`
    and `ps -o comm` show.

    The server that forked us ends with the launcher of the run; the kernel then ends us too, even if we are stopped.
    Before that, a thread sees the one we were started by go.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    end_with_parent()
    server.join()
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_NAME, name.encode())
    threading.Thread(target=_end_after, args=(parent.pid,), daemon=True).start()
    return parent.pid


def parent_lives() -> bool:
    """In a process that multiprocessing has started."""
    parent = multiprocessing.parent_process()
    return parent is not None and parent.is_alive()


def end_with_parent() -> None:
    """The kernel ends this process when the one that forked it ends. Loads nothing, so it can come before exec."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_after(parent: int) -> None:
    while True:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os._exit(1)
        time.sleep(WATCH_SECONDS)
