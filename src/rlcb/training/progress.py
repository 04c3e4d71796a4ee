"""What a person sees while a run goes on: a live bar on a terminal, plain lines elsewhere and in training.log."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TextIO

from tqdm import tqdm

from rlcb.config import Config
from rlcb.config.tree import ALGORITHM_LABELS
from rlcb.cpu.machine import machine
from rlcb.cpu.threads import Threads
from rlcb.kernels import kernels_in_use
from rlcb.runs.summary import RULE
from rlcb.screen import Screen
from rlcb.training.budget import Budget


def header(config: Config, budget: Budget, threads: Threads, output: Path, resumed_at: int | None) -> str:
    here = machine()
    timed = " - Timed Benchmark" if budget.seconds is not None else ""
    lines = [
        RULE,
        f"{ALGORITHM_LABELS[config.algo]} {config.mode.capitalize()} Training{timed}",
        RULE,
        f"Environment: {config.env.name} ({config.env.distribution_mode}, {_levels(config)})",
        *_environments(config),
        f"Network: {config.model.arch}",
        f"{'Duration' if budget.timesteps is None else 'Budget'}: {budget}",
        f"Device: {config.hardware.device}",
        f"CPU: {here.cpu}, {here.cores} cores, {here.threads} threads, {here.memory_gb:.0f} GB",
        f"Threads: {threads.number} ({threads.reason})",
        f"Kernels: {kernels_in_use()}",
        f"Output: {output}",
    ]
    if resumed_at is not None:
        lines.append(f"Resumed at step: {resumed_at:,}")
    return "\n".join([*lines, RULE])


def _environments(config: Config) -> list[str]:
    crew = config.crew
    if crew is None:
        return [f"Num environments: {config.num_envs}"]
    name = crew.name.lower()
    lines = [
        f"{crew.name}s: {crew.number}",
        f"Envs per {name}: {crew.envs_each}",
        f"Total environments: {config.num_envs}",
    ]
    if config.algo == "impala":
        lines.append(f"Learners: {config.num_ranks}")
    cores = machine().cores
    if crew.number > cores:
        lines.append(f"Warning: {crew.number} {name}s on {cores} cores take turns; fewer would be as fast")
    return lines


def _levels(config: Config) -> str:
    if config.env.num_levels == 0:
        return "all levels"
    return f"levels {config.env.start_level} to {config.env.start_level + config.env.num_levels - 1}"


class Progress:
    """`update` per record of metrics; the bar shows the used share of the budget, by time or by steps."""

    def __init__(self, budget: Budget, log_file: Path, screen: TextIO | None = None) -> None:
        self._budget = budget
        self._screen = Screen("Training", screen)
        self._log = log_file.open("a", encoding="utf-8")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.close()
        self._log.close()

    def say(self, text: str) -> None:
        """A block or a line of its own, above the bar."""
        self._screen.say(text)
        print(text, file=self._log, flush=True)

    def update(self, record: dict[str, float]) -> None:
        lines = self._lines(record)
        print(lines, file=self._log, flush=True)
        if not self._screen.live:
            self._screen.say(lines)
            return
        steps, seconds = int(record["timesteps"]), record["time/elapsed_seconds"]
        left = self._budget.seconds_left(steps, seconds)
        elapsed, remaining = tqdm.format_interval(seconds), tqdm.format_interval(left or 0)
        self._screen.show(
            self._budget.share(steps, seconds),
            f"[{elapsed}<{remaining}] Update {record['updates']:,} | Step {steps:,} | "
            f"FPS: {record['time/fps']:,.0f} | Reward: {_reward(record)}",
        )

    def _lines(self, record: dict[str, float]) -> str:
        steps = f"Step: {int(record['timesteps']):,}"
        speed = f"FPS: {record['time/fps']:.0f} | Loss: {record.get('train/loss', float('nan')):.4f}"
        if self._budget.seconds is not None:
            hours = record["time/elapsed_seconds"] / 3600
            line = f"[{hours:.2f}h/{self._budget.seconds / 3600:.2f}h] {steps} | Updates: {record['updates']} | {speed}"
            return f"{line}\n  Mean Reward (last 100): {_reward(record)}"
        entropy = f"Entropy: {record.get('train/entropy', float('nan')):.3f}"
        length = record.get("rollout/ep_length_mean")
        lengths = f" | Mean Length: {length:.0f}" if length is not None else ""
        return f"{steps} | Update: {record['updates']} | {speed} | {entropy}\n  Mean Reward: {_reward(record)}{lengths}"


def _reward(record: dict[str, float]) -> str:
    if "rollout/ep_reward_mean" not in record:
        return "no episode has ended yet"
    return f"{record['rollout/ep_reward_mean']:.2f} ± {record['rollout/ep_reward_std']:.2f}"
