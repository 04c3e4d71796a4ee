"""Memory that processes share: weights with a version, and rollouts."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from rlcb.algorithms import Rollout
from rlcb.training.collector import empty_rollout

RETRY_SECONDS = 0.0002


def shared(tensor: Tensor) -> Tensor:
    """The same tensor, moved to memory that other processes can be given. It has no name: nothing is left of it when
    the last process is gone."""
    moved: Tensor = tensor.share_memory_()  # type: ignore[no-untyped-call]
    return moved


class SharedWeights:
    """One flat tensor that one process writes and others copy, without locks, which a dying process would keep.

    The writer counts before and after it writes; a copy made while the counts differed is thrown away.
    """

    def __init__(self, weights: Tensor) -> None:
        self._weights = shared(weights.detach().clone())
        self._counts = shared(torch.zeros(2, dtype=torch.int64))  # writes begun, writes ended

    @property
    def version(self) -> int:
        """Of the last whole write."""
        return int(self._counts[1])

    def publish(self, weights: Tensor) -> None:
        self._counts[0] += 1
        self._weights.copy_(weights)
        self._counts[1] += 1

    def copy_to(self, target: Tensor) -> int:
        """Fill `target` with one whole version, and say which."""
        while True:
            version = self.version
            target.copy_(self._weights)
            if int(self._counts[0]) == version:
                return version
            time.sleep(RETRY_SECONDS)


def shared_rollout(n_steps: int, n_envs: int) -> Rollout:
    return Rollout(**{name: shared(column) for name, column in vars(empty_rollout(n_steps, n_envs)).items()})
