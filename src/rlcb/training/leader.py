"""Many ranks as one execution: rank 0 runs the training loop, and what the loop asks of it, all ranks do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rlcb.cpu.memory import NOWHERE, Usage
from rlcb.training.execution import Execution, PhasesOfProcesses, Report
from rlcb.training.merging import join_envs, merge_metrics
from rlcb.training.ranks import Together
from rlcb.training.signals import Stop

STARTED, UPDATE, SETTLE, STATE, CLOSE = range(5)


class Leader:
    """Rank 0's side. Ranks load their checkpoint by themselves."""

    def __init__(self, mine: Execution, ranks: Together, stop: Stop) -> None:
        self._mine, self._ranks, self._stop = mine, ranks, stop

    def started(self) -> list[int]:
        self._ranks.tell(STARTED, 0.0)
        return [n_envs for theirs in self._ranks.gather(self._mine.started()) for n_envs in theirs]

    def update(self, learning_rate: float) -> Report:
        self._ranks.tell(UPDATE, learning_rate)
        return self._merged(self._mine.update(learning_rate))

    def settle(self) -> Report | None:
        self._ranks.tell(SETTLE, 0.0)
        report = self._mine.settle()
        return None if report is None else self._merged(report)

    def state(self) -> dict[str, Any]:
        self._ranks.tell(STATE, 0.0)
        state = self._mine.state()
        return {**state, "envs": join_envs(self._ranks.gather(state["envs"]))}

    def load(self, state: dict[str, Any]) -> None:
        self._mine.load(state)

    def close(self) -> None:
        self._ranks.tell(CLOSE, float(self._stop.received or 0) if self._stop.obeyed else 0.0)
        self._mine.close()

    def _merged(self, report: Report) -> Report:
        gathered = _gather(report, self._ranks, self._stop, NOWHERE)
        reports = [theirs.report for theirs in gathered]
        for theirs in gathered:
            self._stop.received = self._stop.received or theirs.signal  # one rank's signal is enough
        return Report(
            metrics=merge_metrics([theirs.metrics for theirs in reports]),
            # In the order of time, then of environments, as one rank would report them.
            episodes=sorted((e for theirs in reports for e in theirs.episodes), key=lambda episode: episode.step),
            phases=_without_waiting(reports, [theirs.exchanges for theirs in gathered]),
            timesteps=sum(theirs.timesteps for theirs in reports),
            skipped=sum(theirs.skipped for theirs in reports),
            replaced=sum(theirs.replaced for theirs in reports),
            elsewhere=Usage(*map(sum, zip(*(theirs.usage for theirs in gathered), strict=True))),
        )


def follow(mine: Execution, ranks: Together, stop: Stop, usage: Callable[[], Usage]) -> None:
    """The other ranks' side: do what rank 0 says until it says that this was all. `usage` is of this rank's machine,
    where no other rank tells it."""
    while True:
        command, number = ranks.told(2)
        if command == CLOSE:
            stop.received, stop.obeyed = int(number) or None, bool(number)  # all end with the same exit code
            mine.close()
            return
        if command == STARTED:
            ranks.gather(mine.started())
        elif command == STATE:
            ranks.gather(mine.state()["envs"])
        else:
            report = mine.update(number) if command == UPDATE else mine.settle()
            if report is not None:
                _gather(report, ranks, stop, usage())


class Told(NamedTuple):
    """What rank 0 hears of every rank after an update."""

    report: Report
    exchanges: list[float]  # seconds of each
    signal: int | None
    usage: Usage


def _gather(report: Report, ranks: Together, stop: Stop, usage: Usage) -> list[Told]:
    return ranks.gather(Told(report, ranks.take_exchanges(), stop.received, usage))


def _without_waiting(reports: list[Report], exchanges: list[list[float]]) -> PhasesOfProcesses:
    """Exchanging a gradient takes what it takes the last rank to arrive; the rest of the others' time is waiting."""
    needed = sum(min(times) for times in zip(*exchanges, strict=True))
    phases: PhasesOfProcesses = {}
    for report, times in zip(reports, exchanges, strict=True):
        waited = sum(times) - needed
        for process, seconds in report.phases.items():
            learns = seconds["synchronise"] > 0
            moved = waited if learns else 0.0
            phases[process] = {
                **seconds,
                "synchronise": seconds["synchronise"] - moved,
                "wait": seconds["wait"] + moved,
            }
    return phases
