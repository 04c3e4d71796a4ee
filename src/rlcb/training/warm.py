"""Imported once, by the server that all processes of a run are forked from (multiprocessing's forkserver).

Procgen keeps the pictures of all games in memory, 350 MB, and torch needs 150: they are there once, however many
processes there are, and a new process begins at once. The server has no threads, so forking it is safe.
"""

from __future__ import annotations

from rlcb.cpu.allocator import keep_freed_memory

keep_freed_memory()

import rlcb.training.rank  # noqa: E402, F401  torch comes after the allocator is set
from rlcb.envs.procgen import ProcgenVectorEnv  # noqa: E402

ProcgenVectorEnv("coinrun").close()  # loads the pictures
