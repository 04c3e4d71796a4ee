"""The layers of the networks, in kernels of this project's own where they were built (see docs/performance.md)."""

from rlcb.kernels.layers import Convolution, Linear, MaxPool, PixelStem, Residual, weights_held
from rlcb.kernels.library import kernels_in_use
from rlcb.kernels.optimizer import RMSprop

__all__ = ["Convolution", "Linear", "MaxPool", "PixelStem", "RMSprop", "Residual", "kernels_in_use", "weights_held"]
