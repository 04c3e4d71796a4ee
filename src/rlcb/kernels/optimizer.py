"""RMSProp in one pass over the memory. Torch has a fused Adam for CPUs, but no fused RMSProp."""

from __future__ import annotations

from typing import Any

import torch

from rlcb.kernels.library import kernels


class RMSprop(torch.optim.RMSprop):
    """Torch's, without its extras: no momentum, no weight decay."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        library = kernels().library
        if library is None:
            super().step()
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state.update(step=torch.tensor(0.0), square_avg=torch.zeros_like(parameter.data))
                state["step"] += 1
                addresses = (tensor.data_ptr() for tensor in (parameter, parameter.grad, state["square_avg"]))
                library.rmsprop(*addresses, parameter.numel(), group["lr"], group["alpha"], group["eps"])
