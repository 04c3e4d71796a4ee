"""As `ready`, for processes that play: Procgen keeps the pictures of all games in memory, 350 MB, and torch needs 150.
They are there once, however many processes there are."""

from __future__ import annotations

import rlcb.training.ready  # noqa: F401  comes first: it sets the allocator
from rlcb.envs.procgen import ProcgenVectorEnv

ProcgenVectorEnv("coinrun").close()  # loads the pictures
