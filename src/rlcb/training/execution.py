"""What the training loop asks of an execution, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from rlcb.cpu.memory import NOWHERE, Usage

PhasesOfProcesses = dict[str, dict[str, float]]  # process ("worker_0", "actor_3") -> phase -> seconds


class Episode(NamedTuple):
    reward: float
    length: int
    step: int  # of its environment, when it ended


@dataclass(frozen=True)
class Report:
    """What one update did."""

    metrics: dict[str, float]
    episodes: list[Episode]
    phases: PhasesOfProcesses
    timesteps: int
    skipped: int  # gradient steps left out because they were not finite
    replaced: int = 0  # processes that died or froze so far, and were replaced
    elsewhere: Usage = NOWHERE  # of other machines


class Execution(Protocol):
    """Who collects and who learns."""

    def started(self) -> list[int]:
        """How many environments each process of its crew has, once they have; empty where there is no crew."""

    def update(self, learning_rate: float) -> Report:
        """Collect one rollout and learn from it."""

    def settle(self) -> Report | None:
        """Let what is under way come to an end, so that `state` is whole; what that did, if anything."""

    def state(self) -> dict[str, Any]:
        """Everything that the next update depends on: tensors and plain values. What belongs to environments is in
        `envs`: a sequence by name, with one entry per environment."""

    def load(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None: ...
