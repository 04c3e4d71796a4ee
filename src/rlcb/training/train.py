"""From a checked configuration to a finished run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, EFBIG, ENOSPC, EROFS
from typing import Any

import yaml

from rlcb.cluster.network import Meeting, find_meeting, is_here
from rlcb.cluster.torchrun import under_torchrun
from rlcb.config import Config
from rlcb.cpu.machine import physical_cores
from rlcb.cpu.memory import MemoryWatch
from rlcb.cpu.threads import Threads, apply_threads, threads_of
from rlcb.errors import TrainingFailed, UserError
from rlcb.runs.checkpoint import DamagedCheckpoint, most_trained
from rlcb.runs.files import write_atomically
from rlcb.runs.metrics import MetricsLog
from rlcb.runs.rundir import RunDir
from rlcb.training.budget import Budget
from rlcb.training.execution import Execution
from rlcb.training.lockstep import Lockstep
from rlcb.training.loop import Training
from rlcb.training.progress import Progress, header
from rlcb.training.ranks import Alone
from rlcb.training.signals import Stop, StopSignal


def train(config: Config, *, resume: bool = False, overwrite: bool = False, node: int | None = None) -> int:
    """Train, print, and return the exit code. `node` is the number of this one: the first, 0, looks after the run's
    directory. Where nobody says, that is the one which has the address at which they meet."""
    run = RunDir.of(config)
    if under_torchrun():
        from rlcb.training.as_rank import train_as_rank

        return train_as_rank(config, run, resume=resume, overwrite=overwrite)
    first = is_here(config.cluster.master_addr) if node is None else node == 0
    meeting, cluster = None, config.cluster
    if config.num_nodes > 1:  # what is wrong with it is said before anything is written
        meeting = find_meeting(cluster.master_addr, cluster.master_port, cluster.interface, leads=first)
    elif config.mode == "cluster" and not first:
        print(f"Note: --nodes is 1, so nobody is sought at --master-addr {cluster.master_addr}", file=sys.stderr)
    if meeting is not None and not first:
        from rlcb.training.launch import launch

        with StopSignal() as stop:
            return launch(config, run, stop, meeting)
    with prepared(config, run, resume=resume, overwrite=overwrite) as checkpoint, StopSignal() as stop:
        if config.mode != "sequential":
            return _train_in_parallel(config, run, stop, meeting)
        threads = threads_of(config)
        apply_threads(threads.number)
        execution = Lockstep(config, Alone())
        if checkpoint:
            execution.load(checkpoint["execution"])
        run_loop(config, run, execution, checkpoint, stop, threads, root=os.getpid())
        return stop.exit_code


@contextmanager
def prepared(config: Config, run: RunDir, *, resume: bool, overwrite: bool) -> Iterator[dict[str, Any] | None]:
    """The run's directory, ours while this lasts; gives the checkpoint to go on from."""
    if not (resume or overwrite):
        run.refuse_if_taken()
    with run.create():
        checkpoint = newest_checkpoint(run) if resume else None
        if resume and checkpoint is None and run.checkpoint_files():
            raise UserError(
                f"--resume {run.root}: no checkpoint in {run.checkpoints} can be read; "
                "put a whole one there, or begin anew with --overwrite"
            )
        if resume and checkpoint is None:
            print(f"Note: no checkpoint in {run.checkpoints} yet; the run starts at step 0", file=sys.stderr)
        if checkpoint is not None and run.is_summed_up():
            _refuse_if_spent(budget_of(config), run, checkpoint["progress"])
        if overwrite:
            run.clear()
        write_atomically(run.config_file, config_text(config).encode())
        yield checkpoint


def _train_in_parallel(config: Config, run: RunDir, stop: StopSignal, meeting: Meeting | None) -> int:
    from rlcb.training.costs import choose_learners
    from rlcb.training.launch import launch

    choice = config.algo == "impala" and config.mode == "parallel" and config.parallel.num_learners is None
    if choice and config.crew:
        print("Measuring what playing and learning cost here, to choose the number of learners …", flush=True)
        number = choose_learners(run.config_file, config.crew.number, physical_cores())
        parallel = config.parallel.model_copy(update={"num_learners": number})
        config = config.model_copy(update={"parallel": parallel})
        write_atomically(run.config_file, config_text(config).encode())
    return launch(config, run, stop, meeting)


def _refuse_if_spent(budget: Budget, run: RunDir, done: dict[str, Any]) -> None:
    if budget.spent(done["timesteps"], done["seconds"]):
        raise UserError(
            f"--resume {run.root}: the run has spent its budget ({done['timesteps']:,} steps, "
            f"{done['seconds'] / 3600:.2f} hours); give it a larger --total-timesteps or --duration"
        )


def budget_of(config: Config) -> Budget:
    hours = config.training.duration
    return Budget(config.training.total_timesteps, None if hours is None else 3600 * hours)


def run_loop(
    config: Config,
    run: RunDir,
    execution: Execution,
    checkpoint: dict[str, Any] | None,
    stop: Stop,
    threads: Threads,
    root: int,
    restarts: int = 0,
) -> None:
    """What the one process does that writes the run's files. `root` is the process above all others of the run."""
    budget = budget_of(config)
    done = checkpoint["progress"] if checkpoint else {"updates": 0, "timesteps": 0}
    with (
        MetricsLog(run.logs, done["updates"], done["timesteps"]) as log,
        Progress(budget, run.logs / "training.log") as progress,
        MemoryWatch(root) as memory,
    ):
        if restarts:
            again = f"Restart {restarts} of {config.parallel.max_restarts}"
            progress.say(f"{again}: a process was lost; all go on from step {done['timesteps']:,}")
        else:
            progress.say(header(config, budget, threads, run.root, done["timesteps"] if checkpoint else None))
        for index, n_envs in enumerate(execution.started()):
            progress.say(f"{config.crew.name if config.crew else 'Process'} {index} started with {n_envs} environments")
        progress.say("")
        training = Training(config, budget, run, execution, log, progress, memory, threads.number, restarts)
        if checkpoint:
            training.load(checkpoint)
        with _room_to_write(run):
            summary = training.run(stop)
        execution.close()
        progress.say("\n" + summary.block())


@contextmanager
def _room_to_write(run: RunDir) -> Iterator[None]:
    """Starting again would not help against these."""
    try:
        yield
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT, EROFS, EFBIG, EACCES):
            raise
        remedy = f"make room, then rlcb train --resume {run.root}"
        raise TrainingFailed(f"{error.filename or run.root}: cannot write ({error.strerror}); {remedy}") from error


def config_text(config: Config) -> str:
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)


def newest_checkpoint(run: RunDir, warn: bool = True) -> dict[str, Any] | None:
    """The one with the most steps that is whole; damaged ones are named. None where a run ended before its first."""

    def passed_over(damage: DamagedCheckpoint) -> None:
        if warn:
            print(f"Warning: {damage}; trying the one before it", file=sys.stderr)

    found = most_trained(run.checkpoint_files(), passed_over)
    return found[1] if found else None
