"""Trunks that turn pictures into features. Pictures are uint8, [N, H, W, C], as Procgen gives them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class PixelConv(nn.Conv2d):
    """The first convolution, on bytes: dividing its weights by 255 is cheaper than dividing every pixel."""

    def forward(self, pixels: Tensor) -> Tensor:
        # Permuted, [N, H, W, C] already is channels-last, the layout that convolutions are fastest in.
        floats = pixels.permute(0, 3, 1, 2).to(self.weight.dtype)
        return F.conv2d(floats, self.weight / 255, self.bias, self.stride, self.padding)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(F.relu(self.first(F.relu(x)), inplace=True))
        return x + y


def nature(height: int, width: int, channels: int) -> tuple[nn.Module, int]:
    """Three convolutions and 512 features (Mnih et al., 2015)."""
    convolutions = nn.Sequential(
        PixelConv(channels, 32, 8, stride=4),
        nn.ReLU(inplace=True),
        nn.Conv2d(32, 64, 4, stride=2),
        nn.ReLU(inplace=True),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
    )
    return _with_linear(convolutions, (height, width, channels), 512), 512


def impala(height: int, width: int, channels: int) -> tuple[nn.Module, int]:
    """Three residual stages of 16, 32 and 32 channels and 256 features (Espeholt et al., 2018)."""
    layers: list[nn.Module] = []
    for convolution, before, after in ((PixelConv, channels, 16), (nn.Conv2d, 16, 32), (nn.Conv2d, 32, 32)):
        layers += [convolution(before, after, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
        layers += [Residual(after), Residual(after)]
    layers += [nn.ReLU(inplace=True), nn.Flatten()]
    return _with_linear(nn.Sequential(*layers), (height, width, channels), 256), 256


def _with_linear(convolutions: nn.Sequential, shape: tuple[int, int, int], features: int) -> nn.Sequential:
    with torch.no_grad():
        flat = convolutions(torch.zeros(1, *shape, dtype=torch.uint8)).shape[1]
    return nn.Sequential(*convolutions, nn.Linear(flat, features), nn.ReLU(inplace=True))


NETWORKS: dict[str, Callable[[int, int, int], tuple[nn.Module, int]]] = {"nature": nature, "impala": impala}

# Samples per backward pass that are as fast as a whole minibatch and need a fraction of its memory (measured).
MICRO_BATCH_SIZES = {"nature": 1024, "impala": 256}
