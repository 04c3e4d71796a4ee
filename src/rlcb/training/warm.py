"""Imported once by the server that processes are forked from. Torch needs 150 MB of memory, and Procgen keeps the
pictures of all games, 350 MB: they are there once, however many processes there are. The server has no threads, so
forking it is safe."""

from __future__ import annotations

from rlcb.cpu.allocator import give_back_free_memory, keep_freed_memory

keep_freed_memory()

import torch._dynamo  # noqa: E402, F401  the first optimizer of a process would import it: a second and a half each

import rlcb.training.rank  # noqa: E402, F401
from rlcb.envs.procgen import ProcgenVectorEnv  # noqa: E402

ProcgenVectorEnv("coinrun").close()  # loads the pictures
give_back_free_memory()
