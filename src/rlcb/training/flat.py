"""All parameters in one tensor, and all gradients in another: one thing to send, clip, step and save."""

from __future__ import annotations

import torch
from torch import nn


class FlatParameters:
    """Turns the module's parameters and gradients into views of `parameters` and `gradients`."""

    def __init__(self, module: nn.Module, extra: int = 0) -> None:
        """`extra` numbers behind the gradients travel with them (`message`)."""
        owned = list(module.parameters())
        size = sum(p.numel() for p in owned)
        self.parameters = nn.Parameter(torch.empty(size))
        self.message = torch.zeros(size + extra)
        self.gradients, self.extra = self.message[:size], self.message[size:]
        start = 0
        for p in owned:
            here = slice(start, start + p.numel())
            view = self.parameters.data[here].view(p.shape)
            view.copy_(p.data)
            p.data = view
            p.grad = self.gradients[here].view(p.shape)
            start = here.stop
        self.parameters.grad = self.gradients
