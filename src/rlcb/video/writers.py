"""Video files: H.264 in mp4, which browsers play, and GIF."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcb.errors import UserError


class Encoder(Protocol):
    def add(self, picture: NDArray[np.uint8]) -> None: ...

    def close(self) -> None: ...


class Mp4:
    def __init__(self, path: Path, fps: int, height: int, width: int) -> None:
        import av

        # The index comes first in the file (faststart), so that playing can begin before all of it is there.
        self._container = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
        self._stream = self._container.add_stream("libx264", rate=fps, options={"preset": "veryfast", "crf": "20"})
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = "yuv420p"  # all that browsers know

    def add(self, picture: NDArray[np.uint8]) -> None:
        from av import VideoFrame

        self._container.mux(self._stream.encode(VideoFrame.from_ndarray(picture, format="rgb24")))

    def close(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()


class Gif:
    """Kept in memory, at a byte per pixel, until the end."""

    def __init__(self, path: Path, fps: int, height: int, width: int) -> None:
        self._path, self._fps = path, fps
        self._frames: deque[Any] = deque()

    def add(self, picture: NDArray[np.uint8]) -> None:
        from PIL import Image

        self._frames.append(Image.fromarray(picture).quantize(method=Image.Quantize.FASTOCTREE))

    def close(self) -> None:
        first = self._frames.popleft()
        others = (self._frames.popleft() for _ in range(len(self._frames)))  # Pillow copies them: let go of ours
        first.save(self._path, "GIF", save_all=True, append_images=others, duration=round(1000 / self._fps), loop=0)


ENCODERS: dict[str, type[Mp4] | type[Gif]] = {".mp4": Mp4, ".gif": Gif}


class VideoFile:
    """Written under another name, and renamed when it is whole. All pictures have the size of the first."""

    def __init__(self, path: Path, fps: int) -> None:
        self.path = path
        self._fps = fps
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._encoder: Encoder | None = None

    def __enter__(self) -> VideoFile:
        if self.path.is_dir():
            raise UserError(f"video {self.path}: is a directory; name a file")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary.touch()
        except OSError as error:
            raise UserError(f"video {self.path}: cannot be written ({error.strerror}); choose another place") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None and self._encoder is not None:
                self._encoder.close()
                self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def show(self, picture: NDArray[np.uint8]) -> None:
        if self._encoder is None:
            height, width, _ = picture.shape
            self._encoder = ENCODERS[self.path.suffix.lower()](self._temporary, self._fps, height, width)
        self._encoder.add(picture)
