"""Imported once, by a server that processes are forked from (multiprocessing's forkserver): a new process then begins
at once. The server has no threads, so forking it is safe."""

from __future__ import annotations

from rlcb.cpu.allocator import keep_freed_memory

keep_freed_memory()

import rlcb.training.rank  # noqa: E402, F401  torch comes after the allocator is set
