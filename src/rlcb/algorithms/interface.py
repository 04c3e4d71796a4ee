"""What an algorithm takes, gives, and is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

Metrics = dict[str, Tensor]  # scalars; each a mean over samples, so that parts of a batch add up


@dataclass
class Rollout:
    """What B environments did in T steps. Allocated once and filled again and again."""

    obs: Tensor  # [T+1, B, H, W, C] uint8
    actions: Tensor  # [T, B] int64
    rewards: Tensor  # [T, B]
    dones: Tensor  # [T, B] bool
    log_probs: Tensor  # [T, B] under the policy that acted
    values: Tensor  # [T+1, B] under the policy that acted

    def first(self, steps: int) -> Rollout:
        """Its beginning: views, no copies."""
        length = {"obs": steps + 1, "values": steps + 1}
        return Rollout(**{name: column[: length.get(name, steps)] for name, column in vars(self).items()})

    def discounts(self, gamma: float) -> Tensor:
        return gamma * (~self.dones).to(self.rewards.dtype)


class ActorCritic(Protocol):
    """The part of a policy that a loss needs."""

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]: ...

    def value(self, obs: Tensor) -> Tensor:
        """Without gradients."""


class Ranks(Protocol):
    """The other processes of the run, if any."""

    size: int  # how many there are, this one among them

    def sum(self, values: Tensor) -> None:
        """Replace values by their sum over all ranks."""

    def total(self, rows: Tensor) -> Tensor:
        """The sum of the rows of all ranks, the same to the bit whoever has which. All have as many."""

    def mean(self, values: Tensor, wide: bool = False) -> None:
        """Replace values by their mean over all ranks. `wide`: they are of very different sizes, as squares are."""


class Batch(Protocol):
    """The samples of one gradient step (or, on several ranks, this rank's share of them)."""

    parts: int  # blocks of environments, as many samples each: their gradients are computed apart, then added up

    def __len__(self) -> int: ...

    def split(self, size: int) -> list[tuple[Any, float]]:
        """Pieces of at most about `size` samples, which fit into memory, each with its share of the whole."""


# epoch -> [T, B]: a random order of the steps of every environment, one column each
Shuffle = Callable[[int], Tensor]


class Algorithm(Protocol):
    """What to compute from a rollout. Knows nothing of processes."""

    @property
    def minibatches(self) -> Callable[[Rollout, Shuffle, Ranks], Iterator[Any]]:
        """From a rollout to the batches of its gradient steps."""

    @property
    def target_kl(self) -> float | None: ...

    def loss(self, policy: ActorCritic, batch: Any) -> tuple[Tensor, Metrics]: ...
