"""Trunks that turn pictures into features. Pictures are uint8, [N, H, W, C], as Procgen gives them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from rlcb.kernels import Convolution, LinearReLU, MaxPool, PixelStem, Residual


def nature(height: int, width: int, channels: int) -> tuple[nn.Module, int]:
    """Three convolutions and 512 features (Mnih et al., 2015)."""
    convolutions = nn.Sequential(
        Convolution(channels, 32, 8, stride=4),
        Convolution(32, 64, 4, stride=2),
        Convolution(64, 64, 3),
        nn.Flatten(),
    )
    return _with_linear(convolutions, (height, width, channels), 512), 512


def impala(height: int, width: int, channels: int) -> tuple[nn.Module, int]:
    """Three residual stages of 16, 32 and 32 channels and 256 features (Espeholt et al., 2018)."""
    layers: list[nn.Module] = [PixelStem(channels, 16), Residual(16), Residual(16)]
    for before, after in ((16, 32), (32, 32)):
        layers += [Convolution(before, after, 3, padding=1, relu=False), MaxPool(), Residual(after), Residual(after)]
    layers += [nn.ReLU(), nn.Flatten()]
    return _with_linear(nn.Sequential(*layers), (height, width, channels), 256), 256


def _with_linear(convolutions: nn.Sequential, shape: tuple[int, int, int], features: int) -> nn.Sequential:
    with torch.no_grad():
        flat = convolutions(torch.zeros(1, *shape, dtype=torch.uint8)).shape[1]
    return nn.Sequential(*convolutions, LinearReLU(flat, features))


NETWORKS: dict[str, Callable[[int, int, int], tuple[nn.Module, int]]] = {"nature": nature, "impala": impala}

# Samples per backward pass that are as fast as a whole minibatch and need a fraction of its memory (measured).
MICRO_BATCH_SIZES = {"nature": 1024, "impala": 256}
