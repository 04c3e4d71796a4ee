"""What the pieces of a training cost, as measured on one machine, and the file that keeps it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rlcb.config import Config
from rlcb.errors import UserError
from rlcb.scale.network import Link, ring

SMALLEST = (3, 8)  # elements and bytes of each: an all-reduce that is nothing but latency


class Measured(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Curve(Measured):
    """Seconds by size: straight lines between what was measured."""

    points: tuple[tuple[float, float], ...] = Field(min_length=1)  # sizes in order

    def at(self, size: float) -> float:
        """Below the smallest size it is the fixed cost that remains; beyond the largest, more comes in pieces of it."""
        (first_size, first), (last_size, last) = self.points[0], self.points[-1]
        if size <= first_size:
            return first
        if size >= last_size:
            return last * size / last_size
        for (x0, y0), (x1, y1) in pairwise(self.points):
            if size <= x1:
                return y0 + (y1 - y0) * (size - x0) / (x1 - x0)
        raise AssertionError("points are in order")


class Costs(Measured):
    """Seconds of one process with one thread, while every core of the machine has one."""

    machine: dict[str, Any]
    algo: str
    arch: str
    game: str
    parameters: int
    optimizer_tensors: int  # that have an entry for every parameter
    environment: Curve  # one step of so many environments
    act: Curve  # one pass over their pictures
    other: Curve  # the rest of a step: rewards, copies
    learn: Curve  # one gradient step from so many samples
    crowd_play: Curve  # how many times as long it takes with so many processes for every core; 1 at 1
    crowd_learn: Curve
    spread: tuple[float, ...] = Field(min_length=1)  # how many times the mean updates of the same size took, in order
    crowded_spread: tuple[float, ...]  # the same with two processes on every core; empty where that was not asked for
    smallest_exchange: float  # an all-reduce of a few numbers over gloo between two processes here
    meeting: float  # the same in memory that the two share
    exchange: dict[str, float]  # of all gradients over gloo, by compression
    shared_exchange: float  # of all gradients, in memory that the two share
    report_bytes: int  # what a rank tells the first one about an update
    record_number: float  # to write down one number of an update
    look_at_processes: float  # to see what time they have used

    def here(self, compression: str = "none") -> Link:
        """Between processes of one machine, over gloo: what reproduces the two exchanges that were measured."""
        trips = Link(1.0, 0.0)
        latency = self.smallest_exchange / ring(2, trips, *SMALLEST)
        sent = self.parameters * (2 if compression == "fp16" else 4)  # by each of two
        beyond = self.exchange[compression] - latency * ring(2, trips, self.parameters, 4)
        return Link(latency, max(beyond, 0.0) / sent)

    def shared_sum(self, ranks: int, size: int, turns: float = 1.0) -> float:
        """Of so many bytes over the ranks of one machine. They meet once, all at the same time; each writes its own
        bytes and reads everybody's. `turns`: processes per core."""
        return self.meeting + size * (1 + ranks) * self._copy * turns

    def hand_round(self, ranks: int, size: int, turns: float = 1.0) -> float:
        """What the first rank of a machine got from others: it writes, they meet, and the rest read."""
        return self.meeting + size * 2 * self._copy * turns

    @property
    def _copy(self) -> float:
        """Of one byte, by one of two that share their memory: each writes its own and reads both."""
        return max(self.shared_exchange - self.meeting, 0.0) / (4 * self.parameters * (1 + 2))

    def slowest_of(self, processes: int, load: float = 1.0) -> float:
        """How many times the mean the slowest of so many takes, on average: each is drawn from what was measured, so
        nobody is ever slower than the slowest that was seen. Processes that take turns differ more."""
        spread = self.crowded_spread if load > 1 and self.crowded_spread else self.spread
        n = len(spread)
        chances = [((i + 1) / n) ** processes - (i / n) ** processes for i in range(n)]
        return sum(chance * value for chance, value in zip(chances, spread, strict=True))


def read_costs(file: Path, config: Config) -> Costs:
    """Of an earlier `rlcb scale`, here or on another machine; they must be those of this training."""
    try:
        costs = Costs.model_validate(json.loads(file.read_text(encoding="utf-8"))["costs"])
    except FileNotFoundError as error:
        raise UserError(f"--costs {file}: no such file; leave it out to measure here") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"--costs {file}: not a file that rlcb scale wrote; leave it out to measure here") from error
    asked = {"algo": config.algo, "arch": config.model.arch, "game": config.env.name}
    problems = [
        f"--costs {file}: measured with {name} {getattr(costs, name)}, asked for {value}; leave it out to measure here"
        for name, value in asked.items()
        if getattr(costs, name) != value
    ]
    if problems:
        raise UserError(problems)
    return costs
