"""How far a job is, as its files tell. Nothing else remembers: that is what makes a suite restartable."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from rlcb.suite.plan import Job

_TAIL = 2**17  # bytes; more than a line of metrics has


def commands(job: Job) -> list[list[str]]:
    """What is left to do, as words after `rlcb`; nothing for a finished job."""
    if not trained(job):
        return [_training(job), _evaluation(job, job.run.checkpoint("final"))]
    final = job.run.checkpoint("final")
    return [] if _evaluated(job, final) else [_evaluation(job, final)]


def trained(job: Job) -> bool:
    summary = _json(job.run.root / "training_summary.json")
    steps, hours = summary.get("total_timesteps", 0), summary.get("duration_hours", 0.0)
    return job.budget.spent(steps, 3600 * hours) and job.run.checkpoint("final").is_file()


class Position(NamedTuple):
    """How far the training of a job is."""

    share: float  # of its budget, from 0 to 1
    whole: float | None  # seconds that all of it takes, as far as one can tell


def position(job: Job) -> Position:
    record = _newest_record(job.run.metrics_file)
    steps, seconds = record.get("timesteps", 0), record.get("time/elapsed_seconds", 0.0)
    share = job.budget.share(steps, seconds)
    return Position(share, seconds / share if share else job.budget.seconds)


def seconds_left(jobs: Collection[Position], at_a_time: int) -> float | None:
    """Until all are trained. One of which nothing is known yet will take as long as the others on average."""
    known = [job.whole for job in jobs if job.whole is not None]
    if not known:
        return None
    usual = statistics.fmean(known)
    return sum((usual if job.whole is None else job.whole) * (1 - job.share) for job in jobs) / at_a_time


def _training(job: Job) -> list[str]:
    run, training = job.run, job.config.training
    if not run.checkpoint_files():
        # What is there of a run that was killed before its first checkpoint is replaced.
        return ["train", *job.flags, *(["--overwrite"] if run.traces() else [])]
    words = ["train", "--resume", str(run.root)]
    if training.total_timesteps is not None:
        words += ["--total-timesteps", str(training.total_timesteps)]
    if training.duration is not None:
        words += ["--duration", str(training.duration)]
    return words


def _evaluation(job: Job, checkpoint: Path) -> list[str]:
    asked = job.evaluation
    words = ["evaluate", "--checkpoint", str(checkpoint), "--levels", asked.levels]
    words += ["--num-episodes", str(asked.num_episodes), "--seed", str(asked.seed)]
    return [*words, "--deterministic"] if asked.deterministic else words


def _evaluated(job: Job, checkpoint: Path) -> bool:
    """This checkpoint (a resumed run's last has the name of the one before), these levels, in this way."""
    asked, steps = job.evaluation, _json(job.run.root / "training_summary.json").get("total_timesteps")
    results = _json(checkpoint.with_name("evaluation.json")).get(checkpoint.name, {}).get(job.config.env.name, {})
    wanted = {
        "timesteps": steps,
        "episodes": asked.num_episodes,
        "deterministic": asked.deterministic,
        "seed": asked.seed,
    }
    parts = ("train", "test") if asked.levels == "both" else (asked.levels,)
    return all(wanted.items() <= results.get(part, {}).items() for part in parts)


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _newest_record(file: Path) -> dict[str, Any]:
    """Of metrics.jsonl, from its end: reading all of a long run's every second would slow the run down."""
    try:
        with file.open("rb") as lines:
            lines.seek(max(0, os.fstat(lines.fileno()).st_size - _TAIL))
            whole = lines.read().rpartition(b"\n")[0]  # what follows is a line that is being written
    except OSError:
        return {}
    try:
        record = json.loads(whole.rpartition(b"\n")[2])
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
