"""The layers of the networks, in kernels of this project's own where they were built (see docs/performance.md)."""

from rlcb.kernels.layers import (
    Convolution,
    Linear,
    LinearReLU,
    MaxPool,
    PixelStem,
    Residual,
    weights_held,
)
from rlcb.kernels.library import kernels_in_use
from rlcb.kernels.optimizer import RMSprop
from rlcb.kernels.parts import add_up, keeps_parts_apart, parts_apart

__all__ = [
    "Convolution",
    "Linear",
    "LinearReLU",
    "MaxPool",
    "PixelStem",
    "RMSprop",
    "Residual",
    "add_up",
    "keeps_parts_apart",
    "kernels_in_use",
    "parts_apart",
    "weights_held",
]
