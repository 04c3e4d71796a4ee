"""Randomness that belongs to environments, never to processes: numbers keyed by (seed, environment, time)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

# Uses that must not share numbers.
ACTIONS, SHUFFLES, EVALUATION = 0, 1, 2

_PER_COUNT = 4  # numbers that Philox makes of one count


class EnvRandomness:
    """Counter-based: whichever process asks for environment i at step t gets the same numbers."""

    def __init__(self, seed: int, env_ids: Iterable[int], use: int = ACTIONS) -> None:
        self._seed = seed
        self._env_ids = list(env_ids)
        self._use = use

    def gumbel(self, start: int, n_steps: int, n_actions: int) -> Tensor:
        """Noise [T, B, A] for the actions of steps `start` to `start + n_steps`."""
        counts = -(-n_actions // _PER_COUNT)
        uniform = np.empty((n_steps, len(self._env_ids), n_actions))
        for column, env in enumerate(self._env_ids):
            numbers = self._generator(env, self._use, start * counts).random(n_steps * counts * _PER_COUNT)
            uniform[:, column] = numbers.reshape(n_steps, -1)[:, :n_actions]
        # Shifted off zero, so that no logarithm is infinite.
        return torch.from_numpy((-np.log(-np.log(uniform + 2.0**-54))).astype(np.float32))

    def order(self, update: int, epoch: int, n_steps: int) -> Tensor:
        """Permutations [T, B] of the steps of a rollout, one for every environment."""
        columns = [self._generator(env, SHUFFLES, update, epoch).permutation(n_steps) for env in self._env_ids]
        return torch.from_numpy(np.stack(columns, axis=1))

    def _generator(self, env: int, use: int, count: int, block: int = 0) -> np.random.Generator:
        # `count` moves by itself in the lowest word; for shuffles the update goes one word up, out of its way.
        counter = [count, 0, block, use] if use != SHUFFLES else [0, count, block, use]
        return np.random.Generator(np.random.Philox(key=[self._seed, env], counter=counter))
