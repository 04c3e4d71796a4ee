"""Owns the optimizer; turns a rollout into gradient steps. Knows nothing of processes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rlcb.algorithms import Algorithm, Batch, Rollout, Shuffle
from rlcb.algorithms.metrics import explained_variance
from rlcb.errors import TrainingFailed
from rlcb.kernels import add_up, keeps_parts_apart, parts_apart
from rlcb.policy import Policy
from rlcb.training.flat import FlatParameters
from rlcb.training.ranks import Ranks

MAX_SKIPPED_IN_A_ROW = 10
WEIGHTS = "weights"  # beside the metrics' own names


class Learner:
    """For each minibatch: gradient, mean over ranks, clip, step. What is not finite is skipped and counted."""

    def __init__(
        self,
        policy: Policy,
        algorithm: Algorithm,
        optimizer: Callable[[nn.Parameter], torch.optim.Optimizer],
        *,
        max_grad_norm: float,
        micro_batch_size: int,
        ranks: Ranks,
        batch_share: float | None = None,
    ) -> None:
        """`batch_share` is how many samples of a minibatch every rank would have if all had as many; None: they do.
        Whoever has more weighs more."""
        self._policy = policy
        self._algorithm = algorithm
        self._flat = FlatParameters(policy, extra=3)
        self.optimizer = optimizer(self._flat.parameters)
        self._max_grad_norm = max_grad_norm
        self._micro_batch_size = micro_batch_size
        self._ranks, self._batch_share = ranks, batch_share
        self._skipped = self._skipped_in_a_row = 0
        self._totals: dict[str, Tensor] = {}  # of metrics, since the last take

    @property
    def parameters(self) -> Tensor:
        """All of them, flat."""
        return self._flat.parameters.data

    def optimizer_memory(self) -> list[Tensor]:
        """What it keeps for every parameter: moments, mean squares."""
        kept = self.optimizer.state[self._flat.parameters]
        return [value for value in kept.values() if isinstance(value, Tensor) and value.dim() > 0]

    def learn(self, rollout: Rollout, shuffle: Shuffle, learning_rate: float) -> None:
        """One pass of the algorithm over the rollout."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        for batch in self._algorithm.minibatches(rollout, shuffle, self._ranks):
            weight = 1.0 if self._batch_share is None else len(batch) / self._batch_share
            metrics = self._gradient(batch, weight)
            if self._enough():
                break
            metrics |= {"grad_norm": self._step(), WEIGHTS: torch.tensor(1.0)}
            for name, value in metrics.items():
                self._totals[name] = self._totals.get(name, 0.0) + weight * value

    def take_metrics(self) -> dict[str, float]:
        """The mean of each over all samples of all ranks, of the gradient steps since the last take."""
        names = list(self._totals)
        if not names:
            return {}
        totals = torch.stack([self._totals[name] for name in names])
        self._totals = {}
        self._ranks.mean(totals)
        sums = dict(zip(names, totals.tolist(), strict=True))
        weights = sums.pop(WEIGHTS)
        return _readable({name: total / weights for name, total in sums.items()})

    def _gradient(self, batch: Batch, weight: float) -> dict[str, Tensor]:
        """Leave the mean gradient over all samples of all ranks in place; return this rank's metrics."""
        metrics: dict[str, Tensor] = {}
        gradient = add_up(self._gradients(batch, weight, metrics))
        if gradient is not self._flat.message:
            self._flat.message.copy_(gradient)
        self._flat.extra[0] = metrics["loss"] * weight
        self._flat.extra[1] = metrics.get("approx_kl", 0.0) * weight
        self._flat.extra[2] = weight
        self._ranks.mean(self._flat.message)
        mean_weight = float(self._flat.extra[2])
        if mean_weight != 1.0:  # some ranks brought fewer samples than were due
            self._flat.message /= mean_weight
        return metrics

    def _gradients(self, batch: Batch, weight: float, metrics: dict[str, Tensor]) -> Iterator[Tensor]:
        """Of pieces that fit into memory; adds to their metrics."""
        size = self._micro_batch_size if keeps_parts_apart() else min(self._micro_batch_size, len(batch) // batch.parts)
        pieces = batch.split(size)
        for piece, share in pieces:
            self._flat.message.zero_()
            with parts_apart(piece.parts):
                loss, of_piece = self._algorithm.loss(self._policy, piece)
                (loss * (share * weight)).backward()  # type: ignore[no-untyped-call]
            for name, value in {"loss": loss.detach(), **of_piece}.items():
                value = value.detach() * share
                metrics[name] = metrics[name] + value if name in metrics else value
            yield self._flat.message if len(pieces) == 1 else self._flat.message.clone()

    def _enough(self) -> bool:
        """Has the policy moved further than it should, before this step?"""
        target = self._algorithm.target_kl
        return target is not None and float(self._flat.extra[1]) > 1.5 * target

    def _step(self) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(self._flat.gradients)
        if not torch.isfinite(norm + self._flat.extra[0]):
            self._skip()
            return norm
        self._skipped_in_a_row = 0
        if norm > self._max_grad_norm:
            self._flat.gradients.mul_(self._max_grad_norm / (norm + 1e-6))
        self.optimizer.step()
        return norm

    def _skip(self) -> None:
        self._skipped += 1
        self._skipped_in_a_row += 1
        if self._skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise TrainingFailed(
                f"loss or gradient was not finite {MAX_SKIPPED_IN_A_ROW} times in a row; "
                "resume from the last checkpoint with a smaller learning rate"
            )

    def take_skipped(self) -> int:
        """Steps left out since the last take. Ranks that step together leave out the same, which the first counts."""
        taken, self._skipped = self._skipped, 0
        return taken if self._ranks.index == 0 else 0

    def state(self) -> dict[str, Any]:
        return {
            "model": {name: tensor.clone() for name, tensor in self._policy.state_dict().items()},
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
        }

    def load(self, state: dict[str, Any]) -> None:
        self._policy.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def _readable(means: dict[str, float]) -> dict[str, float]:
    """Replace the moments of the values' fit by the explained variance."""
    explained = explained_variance(means)
    kept = {name: value for name, value in means.items() if not name.startswith(("return_", "error_"))}
    return kept if explained is None else {**kept, "explained_variance": explained}
