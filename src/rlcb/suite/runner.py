"""Runs the jobs of a suite as processes of their own, so many at a time, and sums up."""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlcb.suite.plan import Job, Plan
from rlcb.suite.progress import SuiteProgress
from rlcb.suite.state import Position, commands, position, seconds_left
from rlcb.training.lifeline import end_with_parent
from rlcb.training.signals import StopSignal

POLL_SECONDS = 0.2
STOP_SECONDS = 300.0  # for runs that were asked to stop: an update of a large configuration takes a minute or two


@dataclass(frozen=True)
class Failure:
    job: Job
    code: int

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        said = self.job.log.read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        return f"{self.job.name}: failed with {how} ({said}); see {self.job.log}"


def dry_run(plan: Plan) -> None:
    """Print what would be done, for copying."""
    for job in plan.jobs:
        words = commands(job)
        if not words:
            print(f"# {job.name} is finished")
        for command in words:
            print(shlex.join(["rlcb", *command]))


def run_suite(plan: Plan, shares: list[set[int]]) -> int:
    """Run what is not finished yet, as many jobs at a time as there are shares of the CPUs; return the exit code."""
    waiting = [job for job in plan.jobs if commands(job)]
    finished = len(plan.jobs) - len(waiting)
    print(f"Suite {plan.name} in {plan.output}: {finished} of {len(plan.jobs)} runs finished already", flush=True)
    if len(shares) > 1:
        print(f"{len(shares)} at a time; CPUs of each: {len(shares[0])}", flush=True)
    with StopSignal() as stop, SuiteProgress(len(plan.jobs)) as progress:
        failures = _Runner(plan.jobs, waiting, shares, stop, progress).run()
    left = [job for job in plan.jobs if commands(job)]
    if stop.received is not None and left:
        done = f"{len(plan.jobs) - len(left)} of {len(plan.jobs)} runs finished"
        print(f"{done}; run the same command again to continue", flush=True)
        stop.obeyed = True
        return stop.exit_code
    _sum_up(plan, failures)
    return 1 if failures else 0


def _sum_up(plan: Plan, failures: list[Failure]) -> None:
    from rlcb.analysis.compare import summary_table

    trained = [job.run.root for job in plan.jobs if (job.run.root / "training_summary.json").is_file()]
    if trained:
        print("\n" + summary_table(trained))
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)


class _Runner:
    def __init__(
        self,
        jobs: Sequence[Job],
        waiting: Sequence[Job],
        shares: list[set[int]],
        stop: StopSignal,
        progress: SuiteProgress,
    ) -> None:
        self._waiting, self._idle, self._at_a_time = deque(waiting), list(shares), len(shares)
        self._stop, self._progress = stop, progress
        self._done = len(jobs) - len(waiting)
        self._positions = {job.name: position(job) for job in jobs}
        self._running: list[_Running] = []
        self._failures: list[Failure] = []
        self._deadline = float("inf")

    def run(self) -> list[Failure]:
        try:
            while (self._running or self._waiting) and time.monotonic() < self._deadline:
                if self._stop.received is not None:
                    self._wind_up(self._stop.received)
                while self._waiting and self._idle:
                    self._begin(self._waiting.popleft(), self._idle.pop(0))
                self._collect()
                if self._progress.due:
                    self._show()
                time.sleep(POLL_SECONDS)
        finally:
            for running in self._running:
                running.process.kill()
        return self._failures

    def _begin(self, job: Job, cpus: set[int]) -> None:
        running = _Running(job, cpus)
        self._running.append(running)
        self._progress.say(f"{job.name}: {running.doing}")

    def _collect(self) -> None:
        for running in list(self._running):
            code = running.over()
            if code is None:
                continue
            self._running.remove(running)
            self._idle.append(running.cpus)
            if self._stop.received is not None:
                self._progress.say(f"{running.job.name}: stopped")
                continue
            self._done += 1
            self._positions[running.job.name] = position(running.job)._replace(share=1.0)  # failed ones are over too
            if code == 0:
                self._progress.say(f"{running.job.name}: finished")
            else:
                self._failures.append(Failure(running.job, code))
                self._progress.say(str(self._failures[-1]))

    def _show(self) -> None:
        self._positions |= {running.job.name: running.position() for running in self._running}
        everywhere = self._positions.values()
        self._progress.show(
            self._done,
            {running.job.name: self._positions[running.job.name].share for running in self._running},
            statistics.fmean(job.share for job in everywhere),
            seconds_left(everywhere, self._at_a_time),
        )

    def _wind_up(self, number: int) -> None:
        """Nothing new is started; what runs is told once, and saves. The second time it would end at once."""
        if self._deadline == float("inf"):
            self._deadline = time.monotonic() + STOP_SECONDS
            self._progress.say("Stopping: runs save and end (once more to end at once)")
        self._waiting.clear()
        for running in self._running:
            running.stop(number)


class _Running:
    """A job under way: its commands, one after the other, on its CPUs."""

    def __init__(self, job: Job, cpus: set[int]) -> None:
        self.job, self.cpus = job, cpus
        self._left = commands(job)
        self._stopped = False
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = self._left.pop(0)
        self.doing = "evaluating" if words[0] == "evaluate" else "resuming" if "--resume" in words else "training"
        self.job.log.parent.mkdir(parents=True, exist_ok=True)
        with self.job.log.open("ab") as log:
            log.write(f"$ {shlex.join(['rlcb', *words])}\n".encode())
            log.flush()
            # A group of its own: Ctrl-C on a terminal reaches the suite alone, which then tells every run once.
            return subprocess.Popen(
                [sys.executable, "-m", "rlcb", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=_settle_in(self.cpus),
            )

    def over(self) -> int | None:
        """The exit code, once there is nothing left to do."""
        code = self.process.poll()
        if code == 0 and self._left and not self._stopped:
            self.process = self._start()
            return None
        return code

    def position(self) -> Position:
        here = position(self.job)
        return here._replace(share=1.0) if self.doing == "evaluating" else here

    def stop(self, number: int) -> None:
        if not self._stopped:
            self._stopped = True
            self.process.send_signal(number)


def _settle_in(cpus: set[int]) -> Callable[[], None]:
    """What a child does before it becomes the command: it takes its CPUs, and asks to end when the suite is killed."""
    suite = os.getpid()

    def settle() -> None:
        if sys.platform.startswith("linux"):
            os.sched_setaffinity(0, cpus)
            end_with_parent()
            if os.getppid() != suite:  # killed meanwhile
                os._exit(1)

    return settle
