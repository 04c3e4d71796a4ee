"""Videos of an agent at play."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcb.envs.procgen import ProcgenVectorEnv

TILES = 4  # environments shown, side by side
MAX_FRAMES = 500
FPS = 15


class Recorder:
    """Writes a GIF of the first environments, or nothing where there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._writer: Any = None
        self._frames = 0

    def __enter__(self) -> Recorder:
        if self._path is not None:
            import imageio.v2 as imageio

            self._writer = imageio.get_writer(self._path, duration=1000 / FPS, loop=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, envs: ProcgenVectorEnv, playing: NDArray[np.int64]) -> None:
        """One frame, as long as one of the environments shown still plays."""
        shown = min(TILES, envs.num_envs)
        if self._writer is None or self._frames >= MAX_FRAMES or playing[0] >= shown:
            return
        pictures = envs.render()[:shown, ::2, ::2]  # 256 x 256 each
        self._writer.append_data(np.concatenate(list(pictures), axis=1))
        self._frames += 1
