"""The one training loop: ask an execution for updates until the budget is spent; log, save, sum up."""

from __future__ import annotations

import copy
from collections import deque
from datetime import datetime
from time import perf_counter
from typing import Any

from rlcb.config import Config
from rlcb.cpu.memory import MemoryWatch
from rlcb.cpu.phases import PHASES
from rlcb.errors import TrainingFailed
from rlcb.kernels import kernels_in_use
from rlcb.runs.checkpoint import save_checkpoint
from rlcb.runs.files import read_json_lines, write_json
from rlcb.runs.metrics import MetricsLog, as_columns
from rlcb.runs.rewards import RewardTally
from rlcb.runs.rundir import RunDir
from rlcb.runs.summary import Summary
from rlcb.training.budget import Budget
from rlcb.training.execution import Execution, PhasesOfProcesses, Report
from rlcb.training.merging import add_phases
from rlcb.training.progress import Progress
from rlcb.training.signals import Stop

FINAL_FPS_UPDATES = 10  # the last FPS is taken over so many updates


class Training:
    """One run: its counters, its clock and its files."""

    def __init__(
        self,
        config: Config,
        budget: Budget,
        run: RunDir,
        execution: Execution,
        log: MetricsLog,
        progress: Progress,
        memory: MemoryWatch,
        threads: int,
        restarts: int = 0,
    ) -> None:
        self._config, self._budget, self._run = config, budget, run
        self._execution, self._log, self._progress, self._memory = execution, log, progress, memory
        self._threads, self._restarts = threads, restarts
        self.updates = self.timesteps = self.skipped = 0
        self._replaced = self._replaced_before = 0  # members of crews: by this process, and by those before a restart
        self._seconds_before = self._cpu_before = self._cpu_elsewhere = 0.0
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._rewards = RewardTally()
        self._phases: PhasesOfProcesses = {}
        self._recent: deque[tuple[int, float]] = deque(maxlen=FINAL_FPS_UPDATES + 1)  # (timesteps, seconds)

    def run(self, stop: Stop) -> Summary:
        self._log.begin(self._config)
        self._begin = self._saved_at = perf_counter()
        self._memory.sample()
        self._cpu_begin = self._memory.usage.cpu_seconds
        self._recent.append((self.timesteps, self.seconds))
        status, report = "finished", None
        while not self._budget.spent(self.timesteps, self.seconds):
            if stop.received is not None:
                status, stop.obeyed = "interrupted", True
                break
            report = self._one_update()
            if self.updates % self._config.training.log_interval == 0:
                self._record(report)
                report = None
            self._save_if_due()
        if report is not None:
            self._record(report)  # the last one, whatever the interval
        self._save("final" if status == "finished" else "step")
        self._run.checkpoint("latest").unlink(missing_ok=True)
        summary = self.summary(status)
        self.write_summary(summary)
        return summary

    @property
    def seconds(self) -> float:
        """Time in training, from the first environment step, over all parts of a resumed run."""
        return self._seconds_before + perf_counter() - self._begin

    def _one_update(self) -> Report:
        training = self._config.training
        used = self._budget.share(self.timesteps, self.seconds) if training.anneal_lr else 0.0
        self._learning_rate = training.learning_rate * (1 - used)
        try:
            report = self._execution.update(self._learning_rate)
        except TrainingFailed as error:
            saved = self._run.checkpoint_files()
            kept = f"; the last good checkpoint is {saved[0]}" if saved else "; no checkpoint was due before"
            raise TrainingFailed(f"update {self.updates + 1}: {error}{kept}") from error
        self.updates += 1
        self._count(report)
        self._recent.append((self.timesteps, self.seconds))
        return report

    def _count(self, report: Report) -> None:
        self.timesteps += report.timesteps
        self.skipped += report.skipped
        self._replaced = self._replaced_before + report.replaced
        self._memory.elsewhere, self._cpu_elsewhere = report.elsewhere
        for episode in report.episodes:
            self._rewards.add(episode.reward, episode.length)
        self._phases = add_phases([self._phases, report.phases])

    @property
    def _fps(self) -> float:
        (first_steps, first_seconds), (last_steps, last_seconds) = self._recent[0], self._recent[-1]
        return (last_steps - first_steps) / (last_seconds - first_seconds) if last_seconds > first_seconds else 0.0

    @property
    def _cpu_seconds(self) -> float:
        return self._cpu_before + self._memory.usage.cpu_seconds - self._cpu_begin + self._cpu_elsewhere

    @property
    def _cpu_percent(self) -> float:
        """Of one core, from the start until the CPU time was last looked at."""
        used = self._cpu_seconds
        return 100 * used / (self.seconds - self._memory.cpu_age)

    def _record(self, report: Report) -> None:
        record: dict[str, Any] = {
            "updates": self.updates,
            "timesteps": self.timesteps,
            "time/elapsed_seconds": self.seconds,
            "time/fps": self._fps,
            "time/fps_average": self.timesteps / self.seconds,
            "rollout/episodes": self._rewards.episodes,
        }
        if self._rewards.final is not None:
            record["rollout/ep_reward_mean"], record["rollout/ep_reward_std"] = self._rewards.final
            record["rollout/ep_length_mean"] = self._rewards.mean_length
        record |= {f"train/{name}": value for name, value in report.metrics.items() if _finite(value)}
        record["train/learning_rate"] = self._learning_rate
        record["train/skipped_updates"] = self.skipped
        record["system/lost_processes"] = self._restarts + self._replaced
        record["system/memory_gb"] = self._memory.last / 2**30
        record["system/peak_memory_gb"] = self._memory.peak / 2**30
        record["system/cpu_percent"] = self._cpu_percent
        record |= {f"phase/{name}_seconds": seconds for name, seconds in mean_phases(report.phases).items()}
        if len(report.phases) > 1:
            for process, phases in report.phases.items():
                record |= {f"{process}/{name}_seconds": seconds for name, seconds in phases.items()}
        self._log.write(record)
        self._progress.update(record)

    def _save_if_due(self) -> None:
        training = self._config.training
        if self.updates % training.save_interval == 0:
            self._save("step")
        elif perf_counter() - self._saved_at >= 60 * training.autosave_minutes:
            self._save("latest")

    def _save(self, label: str) -> None:
        settled = self._execution.settle()
        if settled is not None:
            self._count(settled)
        self._saved_at = perf_counter()
        label = f"step_{self.timesteps}" if label == "step" else label  # with what has just been counted
        save_checkpoint(self._run.checkpoint(label), self.state())

    def state(self) -> dict[str, Any]:
        return {
            "config": self._config.model_dump(),
            "progress": {
                "updates": self.updates,
                "timesteps": self.timesteps,
                "skipped": self.skipped,
                "replaced": self._replaced,
                "seconds": self.seconds,
                "cpu_seconds": self._cpu_seconds,
                "started": self._started,
                "peak_memory": self._memory.peak,
                "phase_seconds": copy.deepcopy(self._phases),
            },
            "rewards": self._rewards.state(),
            "execution": self._execution.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Counters and clock; the execution loads its own part."""
        progress = state["progress"]
        self.updates, self.timesteps = progress["updates"], progress["timesteps"]
        self.skipped = progress.get("skipped", 0)
        self._replaced_before = progress.get("replaced", 0) if self._restarts else 0
        self._seconds_before, self._cpu_before = progress["seconds"], progress["cpu_seconds"]
        self._started = progress["started"]
        self._phases = copy.deepcopy(progress["phase_seconds"])
        self._memory.peak = max(self._memory.peak, progress["peak_memory"])
        self._rewards.load(state["rewards"])

    def summary(self, status: str) -> Summary:
        self._memory.sample()
        return Summary(
            config=self._config,
            status=status,
            started=self._started,
            ended=datetime.now().astimezone().isoformat(timespec="seconds"),
            seconds=self.seconds,
            timesteps=self.timesteps,
            updates=self.updates,
            skipped_updates=self.skipped,
            final_fps=self._fps,
            episodes=self._rewards.episodes,
            initial_reward=self._rewards.initial,
            final_reward=self._rewards.final,
            best_reward=self._rewards.best,
            mean_episode_length=self._rewards.mean_length,
            peak_memory=self._memory.peak,
            mean_memory=self._memory.mean,
            cpu_percent=self._cpu_percent,
            threads=self._threads,
            kernels=kernels_in_use(),
            phase_seconds=mean_phases(self._phases),
            process_seconds=copy.deepcopy(self._phases),
            output=str(self._run.root),
        )

    def write_summary(self, summary: Summary) -> None:
        root = self._run.root
        self._log.end(summary.training_summary())
        write_json(root / "training_summary.json", summary.training_summary())
        write_json(root / "benchmark_metrics.json", summary.benchmark_metrics())
        write_json(root / "metrics.json", as_columns(read_json_lines(self._log.file)))


def mean_phases(phases: PhasesOfProcesses) -> dict[str, float]:
    """Over all processes: adds up to the time that passed."""
    totals = dict.fromkeys(PHASES, 0.0)
    for seconds in phases.values():
        for name in PHASES:
            totals[name] += seconds[name] / len(phases)
    return totals


def _finite(value: float) -> bool:
    return value - value == 0
