"""The processes that learn together."""

from __future__ import annotations

from torch import Tensor


class Alone:
    """One process: there is nobody to add up with."""

    def sum(self, values: Tensor) -> None:
        pass

    def mean(self, values: Tensor) -> None:
        pass
