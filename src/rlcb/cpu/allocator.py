"""Keeps freed memory in the process. glibc hands large blocks back to the kernel and faults them in again, zeroed, at
every batch: half of the time of a large one."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_LARGE = 2**31 - 1


def keep_freed_memory() -> bool:
    """Call before torch allocates. False where there is no glibc to talk to; training is then merely slower."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    settings = [(_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _LARGE), (_M_TOP_PAD, 64 * 2**20)]
    return all(mallopt(name, value) == 1 for name, value in settings)
