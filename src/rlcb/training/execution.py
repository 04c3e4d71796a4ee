"""What the training loop asks of an execution, and what it gets."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Episode(NamedTuple):
    reward: float
    length: int


class Report(NamedTuple):
    """What one update did."""

    metrics: dict[str, float]
    episodes: list[Episode]
    phases: dict[str, float]  # seconds
    skipped: int  # gradient steps left out so far because they were not finite


class Execution(Protocol):
    """Who collects and who learns."""

    def update(self, learning_rate: float) -> Report:
        """Collect one rollout and learn from it."""

    def state(self) -> dict[str, Any]:
        """Everything that the next update depends on: tensors and plain values."""

    def load(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...
