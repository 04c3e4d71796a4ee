"""What the directory of a run says of it. Whatever is missing or damaged is named, and the rest is read."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rlcb.errors import UserError
from rlcb.runs.files import read_json_lines

Floats = NDArray[np.float64]
WINDOW = 100  # episodes that rewards are means of
MARKS = ("config.yaml", "training_summary.json", "benchmark_metrics.json")


@dataclass(frozen=True)
class Curve:
    """One quantity over a run: a point for every line of metrics.jsonl that has it."""

    steps: Floats
    seconds: Floats
    values: Floats

    def at(self, steps: float) -> float | None:
        """The value at so many environment steps, between two points on the line that joins them."""
        if not len(self.steps) or steps < self.steps[0] or steps > self.steps[-1]:
            return None
        return float(np.interp(steps, self.steps, self.values))

    def first_at_least(self, value: float) -> tuple[float, float] | None:
        """Steps and seconds at which the value is first reached."""
        reached = np.flatnonzero(self.values >= value)
        return (float(self.steps[reached[0]]), float(self.seconds[reached[0]])) if len(reached) else None


@dataclass(frozen=True)
class Run:
    root: Path
    config: dict[str, Any]
    summary: dict[str, Any]  # as in training_summary.json; from the metrics where there is none
    history: list[dict[str, Any]]
    evaluation: dict[str, dict[str, Any]]  # by levels: train, test
    gaps: tuple[str, ...]  # what is missing, damaged or not over yet

    @property
    def name(self) -> str:
        return self.root.resolve().name

    @property
    def algorithm(self) -> str:
        """PPO"""
        return str(self.summary.get("algorithm") or self.config.get("algo", "?")).upper()

    @property
    def mode(self) -> str:
        """Sequential"""
        return str(self.summary.get("mode") or self.config.get("mode", "?")).capitalize()

    @property
    def label(self) -> str:
        return f"{self.algorithm} {self.mode}"

    @property
    def status(self) -> str:
        return str(self.summary.get("status", "unfinished"))

    def number(self, name: str) -> float | None:
        value = self.summary.get(name)
        return float(value) if isinstance(value, int | float) else None

    def setting(self, path: str) -> Any:
        """Of the configuration: `env.name`."""
        value: Any = self.config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def curve(self, name: str) -> Curve:
        records = [record for record in self.history if isinstance(record.get(name), int | float)]
        columns = ("timesteps", "time/elapsed_seconds", name)
        return Curve(*(np.array([record.get(column, np.nan) for record in records], float) for column in columns))

    @cached_property
    def rewards(self) -> Curve:
        return self.curve("rollout/ep_reward_mean")

    @cached_property
    def settled_rewards(self) -> Curve:
        """Without the beginning, where a mean is one of a few episodes: luck."""
        return replace(self, history=settled(self.history)).rewards

    @property
    def checkpoints(self) -> Path:
        return _places(self.root, self.config)[0]


def find_runs(path: Path) -> list[Path]:
    """The run in this directory, or the runs in the directories below it."""
    if not path.exists():
        raise UserError(f"{path}: no such directory; {_nearby(path)}")
    if _holds_a_run(path):
        return [path]
    below = sorted({file.parent for mark in MARKS for file in path.glob(f"*/{mark}")})
    return below + sorted({file.parents[2] for file in path.glob("*/logs/*/metrics.jsonl")} - set(below))


def runs_in(paths: Iterable[Path]) -> list[Run]:
    """Of all these directories, those of one in order. What holds no run is named and left out, if others do."""
    found = {path: find_runs(path) for path in paths}
    empty = [path for path, roots in found.items() if not roots]
    if len(empty) == len(found):
        raise UserError(
            [f"{path}: no run in it (no {', '.join(MARKS)} and no logs); {_nearby(path)}" for path in empty]
        )
    for path in empty:
        print(f"Note: {path} is left out: no run in it", file=sys.stderr)
    seen: set[Path] = set()
    once = {path: [root for root in roots if not _known(root, seen)] for path, roots in found.items()}
    return [run for roots in once.values() for run in _in_order([read_run(root) for root in roots])]


def _known(root: Path, seen: set[Path]) -> bool:
    known = root.resolve() in seen
    seen.add(root.resolve())
    return known


def _in_order(runs: list[Run]) -> list[Run]:
    """PPO before the others, sequential before parallel: the first is what all are compared with."""
    modes, algorithms = ("Sequential", "Parallel", "Cluster"), ("PPO", "A2C", "A3C", "IMPALA")

    def place(run: Run) -> tuple[int, int, str]:
        first = algorithms.index(run.algorithm) if run.algorithm in algorithms else len(algorithms)
        return first, modes.index(run.mode) if run.mode in modes else len(modes), run.name

    return sorted(runs, key=place)


def _holds_a_run(path: Path) -> bool:
    return any((path / mark).exists() for mark in MARKS) or any(path.glob("logs/*/metrics.jsonl"))


def _nearby(path: Path) -> str:
    folder = path.parent
    names = sorted(str(other) for other in folder.glob("*") if other.is_dir() and _holds_a_run(other))[:6]
    return f"there are {', '.join(names)}" if names else f"no run in {folder} either; train first"


def read_run(root: Path) -> Run:
    gaps: list[str] = []
    config = _read(root / "config.yaml", yaml.safe_load, gaps)
    history = _history(root, config, gaps)
    written = _read(root / "training_summary.json", json.loads, [])
    if not written:
        written = _of_benchmark(_read(root / "benchmark_metrics.json", json.loads, []))
    running = _is_running(root)
    reached = history[-1].get("timesteps", 0) if history else 0
    if written and reached <= (written.get("total_timesteps") or reached):
        summary = written  # otherwise the run was resumed since
    else:
        summary = {**_from_history(history), "status": "unfinished"}
    if running:
        summary = {**summary, "status": "running"}
    if summary.get("status") != "finished":
        gaps.append(f"the run is {summary.get('status', 'unfinished')}; its figures are those so far")
    return Run(root, config, summary, history, _evaluation(root, config, summary, gaps), tuple(gaps))


def _read(file: Path, parse: Callable[[str], Any], gaps: list[str]) -> dict[str, Any]:
    try:
        content = parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        gaps.append(f"{file.name} is missing")
        return {}
    except (OSError, ValueError, yaml.YAMLError):
        gaps.append(f"{file.name} is damaged")
        return {}
    if not isinstance(content, dict):
        gaps.append(f"{file.name} is damaged")
        return {}
    return content


def _places(root: Path, config: dict[str, Any]) -> tuple[Path, Path | None]:
    """Where the checkpoints of a run are, and its logs if they are not in it. Its settings name them from where it was
    started; a run that was moved is found by itself, but not what it had elsewhere."""
    logging = config.get("logging") or {}
    output, checkpoints, logs = (logging.get(name) for name in ("output_dir", "checkpoint_dir", "log_dir"))
    here, before = root.resolve().parts, Path(output or checkpoints or root).parts
    start = Path(*here[: -len(before)]) if here[-len(before) :] == before else None

    def found(place: str | None) -> Path | None:
        if place is None or (start is None and not Path(place).is_absolute()):
            return None
        return (start or Path()) / place

    inside = root if checkpoints and not output else root / "checkpoints"
    return (found(checkpoints) or inside if output else inside), found(logs)


def _history(root: Path, config: dict[str, Any], gaps: list[str]) -> list[dict[str, Any]]:
    elsewhere = _places(root, config)[1]
    name = f"{config.get('algo', '')}_{config.get('mode', '')}".lower()
    files = [] if elsewhere is None else sorted(elsewhere.glob("*/metrics.jsonl"))
    inside = sorted((root / "logs").glob("*/metrics.jsonl"))
    files = [file for file in [*files, *inside] if file.parent.name.lower() == name] or inside
    if files:
        return read_history(files[0])
    gaps.append("metrics.jsonl is missing: no curves")
    return []


def read_history(file: Path) -> list[dict[str, Any]]:
    """Torn lines are passed over; what a resumed run repeats counts once, as written last."""
    by_step = {record["timesteps"]: record for record in read_json_lines(file) if "timesteps" in record}
    return [by_step[step] for step in sorted(by_step)]


def settled(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines from where means are taken over a whole window on: 100 episodes, or half of those of a short run."""
    last = history[-1].get("rollout/episodes") if history else None
    enough = 0 if last is None else min(WINDOW, last / 2)
    return [record for record in history if record.get("rollout/episodes", enough) >= enough]


def read_log(file: Path) -> Run:
    """A run of which only metrics.jsonl is known: the folder it is in says what it is (PPO_Sequential)."""
    algorithm, _, mode = file.resolve().parent.name.partition("_")
    history = read_history(file)
    return Run(file.parent, {"algo": algorithm, "mode": mode}, _from_history(history), history, {}, ())


def _is_running(root: Path) -> bool:
    """Whoever trains holds the lock of the directory."""
    try:
        with (root / ".lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _of_benchmark(metrics: dict[str, Any]) -> dict[str, Any]:
    """benchmark_metrics.json says the same in other words."""
    if not metrics:
        return {}
    performance, resources = metrics.get("performance") or {}, metrics.get("resource_usage") or {}
    same = {name: value for name, value in metrics.items() if name not in ("performance", "resource_usage", "config")}
    names = {"mode": metrics.get("training_mode"), "avg_fps": metrics.get("average_fps")}
    return {**same, **names, **performance, **resources}


def _from_history(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if not history:
        return {}
    last, reward = history[-1], "rollout/ep_reward_mean"
    rewards = [record[reward] for record in history if reward in record]
    phases: dict[str, float] = {}
    for record in history:
        for name, seconds in record.items():
            if name.startswith("phase/"):
                short = name.removeprefix("phase/").removesuffix("_seconds")
                phases[short] = phases.get(short, 0.0) + seconds
    if total := sum(phases.values()):  # of the updates that have a line
        phases = {name: seconds * last.get("time/elapsed_seconds", total) / total for name, seconds in phases.items()}
    return {
        "duration_hours": last.get("time/elapsed_seconds", 0.0) / 3600,
        "total_timesteps": last.get("timesteps"),
        "total_updates": last.get("updates"),
        "avg_fps": last.get("time/fps_average"),
        "final_fps": last.get("time/fps"),
        "initial_reward": rewards[0] if rewards else None,
        "final_reward": rewards[-1] if rewards else None,
        "final_reward_std": last.get("rollout/ep_reward_std"),
        "best_reward": max((record[reward] for record in settled(history) if reward in record), default=None),
        "mean_episode_length": last.get("rollout/ep_length_mean"),
        "peak_memory_gb": last.get("system/peak_memory_gb"),
        "cpu_percent": last.get("system/cpu_percent"),
        "phase_seconds": phases,
    }


def _evaluation(
    root: Path, config: dict[str, Any], summary: dict[str, Any], gaps: list[str]
) -> dict[str, dict[str, Any]]:
    """Of the checkpoint with the most steps, on the game it was trained on."""
    file = _places(root, config)[0] / "evaluation.json"
    if not file.exists():
        return {}
    everything = _read(file, json.loads, gaps)
    game = (config.get("env") or {}).get("name")
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(everything, key=lambda name: name.endswith("_final.pt")):
        games = everything[name] if isinstance(everything[name], dict) else {}
        parts = games.get(game) or (next(iter(games.values())) if game is None and len(games) == 1 else None)
        if isinstance(parts, dict) and max(_steps(parts), default=0) >= max(_steps(found), default=0):
            found = parts
    steps = _steps(found)
    trained = summary.get("total_timesteps")
    if trained is not None and steps - {trained}:
        at = " and ".join(f"{step:,}" for step in sorted(steps))
        gaps.append(f"evaluated at step {at} of {trained:,}; for the rest: rlcb evaluate --checkpoint {root}")
    return found


def _steps(evaluation: dict[str, Any]) -> set[int]:
    """That agents had been trained for, where it says so."""
    return {part["timesteps"] for part in evaluation.values() if isinstance(part, dict) and "timesteps" in part}
