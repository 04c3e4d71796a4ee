"""The layers of the networks, in kernels of this project's own where they were built (see docs/performance.md)."""

from rlcb.kernels.layers import Convolution, MaxPool, PixelStem, Residual
from rlcb.kernels.library import kernels_in_use

__all__ = ["Convolution", "MaxPool", "PixelStem", "Residual", "kernels_in_use"]
