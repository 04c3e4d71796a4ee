"""A window that shows an agent at play."""

from __future__ import annotations

import os
from time import perf_counter, sleep
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Window:
    """Shows pictures no faster than an eye can follow. Whoever closes it just stops looking: nothing else ends."""

    def __init__(self, root: Any, fps: int) -> None:
        import tkinter

        self._root, self._fps = root, fps
        self._label = tkinter.Label(root, borderwidth=0)
        self._label.pack()
        self._due = perf_counter()
        root.protocol("WM_DELETE_WINDOW", self._close)

    @classmethod
    def open(cls, title: str, fps: int) -> Window | None:
        """None where there is no display, or no tkinter to draw on it."""
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return None
        try:
            import tkinter
        except ImportError:  # Python can be built, or packaged, without it
            return None
        try:
            root = tkinter.Tk()
        except tkinter.TclError:  # the display does not answer, or is not one of X11's
            return None
        root.title(title)
        root.resizable(False, False)
        return cls(root, fps)

    def __enter__(self) -> Window:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def closed(self) -> bool:
        return self._root is None

    def show(self, picture: NDArray[np.uint8]) -> None:
        if self._root is None:
            return
        from tkinter import PhotoImage

        height, width, _ = picture.shape
        # Tk reads PPM, which is the bytes themselves behind one line. It shows an image only while we keep it.
        self._photo = PhotoImage(data=b"P6 %d %d 255\n" % (width, height) + picture.tobytes(), master=self._root)
        self._label.configure(image=self._photo)
        self._root.update()
        self._wait()

    def _wait(self) -> None:
        sleep(max(0.0, self._due - perf_counter()))
        self._due = max(self._due, perf_counter()) + 1 / self._fps

    def _close(self) -> None:
        if self._root is not None:
            self._root.destroy()
            self._root = None
