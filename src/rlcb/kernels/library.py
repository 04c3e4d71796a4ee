"""Finds the compiled kernels. They are built when the package is installed, once for each generation of processors."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

CHOICE = "RLCB_KERNELS"  # `torch`, or the name of a build: for comparisons, and when in doubt
TORCH = "torch"

# The newest first, with what a processor must know to run it.
BUILDS = {
    "avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "avx2": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
}

_POINTER, _INT, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_float
_ARGUMENTS = {
    "convolution_filters": [_POINTER] * 2 + [_FLOAT, _POINTER],
    "convolution_forward": [_POINTER] * 4 + [_FLOAT] + [_POINTER] * 3 + [_INT] * 4,
    "convolution_backward": [_POINTER] * 3 + [_FLOAT] + [_POINTER] * 6 + [_INT] * 5,
    "stem_forward": [_INT] * 2 + [_POINTER] * 3 + [_FLOAT] + [_POINTER] * 2 + [_INT] * 2,
    "stem_backward": [_INT] * 2 + [_POINTER, _FLOAT] + [_POINTER] * 4 + [_INT] * 3,
    "pool_forward": [_INT] * 3 + [_POINTER] * 3 + [_INT] * 2,
    "pool_backward": [_INT] * 3 + [_POINTER] * 3 + [_INT] * 2,
    "linear_forward": [_POINTER] * 4 + [_INT] * 4,
    "rmsprop": [_POINTER] * 3 + [_LONG] + [_FLOAT] * 3,
}


class Kernels(NamedTuple):
    name: str
    library: ctypes.CDLL | None  # None: torch's


@cache
def kernels() -> Kernels:
    """The best that this processor can run. Call after torch is loaded, whose threads they share."""
    chosen = os.environ.get(CHOICE)
    for name, needed in BUILDS.items():
        if chosen in (None, name) and (file := _file(name)) and needed <= _processor_flags():
            return Kernels(name, _load(file))
    return Kernels(TORCH, None)


def kernels_in_use() -> str:
    """For people."""
    name = kernels().name
    if name != TORCH:
        return f"own ({name.upper()})"
    if os.environ.get(CHOICE):
        return "torch's, as asked"
    return "torch's, which are slower (own ones need a processor with AVX2, and a C++ compiler when this is installed)"


def _file(name: str) -> Path | None:
    return next(Path(__file__).parent.glob(f"{name}.*.so"), None)


def _load(file: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(file))
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, _LONG if name == "convolution_filters" else None
    return library


def _processor_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()
