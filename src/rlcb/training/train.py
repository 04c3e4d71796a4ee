"""From a checked configuration to a finished run."""

from __future__ import annotations

import sys
from typing import Any

import yaml

from rlcb.config import Config
from rlcb.cpu.memory import MemoryWatch
from rlcb.cpu.threads import apply_threads, choose_threads
from rlcb.errors import UserError
from rlcb.runs.checkpoint import DamagedCheckpoint, load_checkpoint
from rlcb.runs.files import write_atomically
from rlcb.runs.metrics import MetricsLog
from rlcb.runs.rundir import RunDir
from rlcb.training.budget import Budget
from rlcb.training.lockstep import Lockstep
from rlcb.training.loop import Training
from rlcb.training.progress import Progress, header
from rlcb.training.ranks import Alone
from rlcb.training.signals import StopSignal


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> int:
    """Train, print, and return the exit code."""
    run = RunDir.of(config)
    if not (resume or overwrite):
        run.refuse_if_taken()
    hours = config.training.duration
    budget = Budget(config.training.total_timesteps, None if hours is None else 3600 * hours)
    with run.create(), StopSignal() as stop:
        checkpoint = newest_checkpoint(run) if resume else None
        if checkpoint is not None:
            _refuse_if_spent(budget, run, checkpoint["progress"])
        if overwrite:
            run.clear()
        return _train(config, budget, run, checkpoint, stop)


def _refuse_if_spent(budget: Budget, run: RunDir, done: dict[str, Any]) -> None:
    if budget.spent(done["timesteps"], done["seconds"]):
        raise UserError(
            f"--resume {run.root}: the run has spent its budget ({done['timesteps']:,} steps, "
            f"{done['seconds'] / 3600:.2f} hours); give it a larger --total-timesteps or --duration"
        )


def _train(config: Config, budget: Budget, run: RunDir, checkpoint: dict[str, Any] | None, stop: StopSignal) -> int:
    write_atomically(run.config_file, config_text(config).encode())
    threads = choose_threads(config.hardware.num_threads)
    apply_threads(threads.number)
    done = checkpoint["progress"] if checkpoint else {"updates": 0, "timesteps": 0}
    with (
        MetricsLog(run.logs, done["updates"], done["timesteps"]) as log,
        Progress(budget, run.logs / "training.log") as progress,
        MemoryWatch() as memory,
    ):
        progress.say(header(config, budget, threads, run.root, done["timesteps"] if checkpoint else None) + "\n")
        execution = Lockstep(config, Alone())
        training = Training(config, budget, run, execution, log, progress, memory, threads.number)
        if checkpoint:
            execution.load(checkpoint["execution"])
            training.load(checkpoint)
        summary = training.run(stop)
        execution.close()
        progress.say("\n" + summary.block())
    return stop.exit_code


def config_text(config: Config) -> str:
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def newest_checkpoint(run: RunDir) -> dict[str, Any] | None:
    """The newest that is whole; damaged ones are named and passed over. None where a run ended before its first."""
    for file in run.checkpoint_files():
        try:
            return load_checkpoint(file)
        except DamagedCheckpoint as damage:
            print(f"Warning: {damage}; trying the one before it", file=sys.stderr)
    print(f"Note: no checkpoint in {run.checkpoints} yet; the run starts at step 0", file=sys.stderr)
    return None
