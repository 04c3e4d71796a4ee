"""Keeps freed memory in the process, in huge pages. glibc hands large blocks back to the kernel and faults them in
again, zeroed, at every batch: half of the time of a large one."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = -1
_MADV_HUGEPAGE, _HUGE_PAGE = 14, 2 * 2**20
# Addresses, not memory: pages are taken when they are first written. A process that needs more gets small pages.
_HUGE_PAGES_UP_TO = 4 * 2**30


def keep_freed_memory() -> bool:
    """Call before torch allocates. False where there is no glibc to talk to; training is then merely slower."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    try:
        mallopt = libc.mallopt
    except AttributeError:
        return False
    settings = [(_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER), (_M_TOP_PAD, 64 * 2**20)]
    kept = all(mallopt(name, value) == 1 for name, value in settings)
    if kept:
        _ask_for_huge_pages(libc)
    return kept


def give_back_free_memory() -> None:
    """Before processes are forked: what they write to pages that they share is copied, page by small page, while fresh
    memory comes in huge pages. Call after `keep_freed_memory`."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
        _ask_for_huge_pages(libc)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """The heap grows once, is marked, and is given back to malloc, which never gives it back to the kernel. Kernels
    that know no huge pages, or refuse so many addresses, leave things as they were."""
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = libc.malloc(_HUGE_PAGES_UP_TO)
    if block is not None:
        begin = -(-block // _HUGE_PAGE) * _HUGE_PAGE  # madvise wants whole pages
        libc.madvise(begin, _HUGE_PAGES_UP_TO - _HUGE_PAGE, _MADV_HUGEPAGE)
        libc.free(block)
