"""Starts the ranks of a run on this machine through torch's elastic launcher, and again when one is lost."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlcb.config import Config
from rlcb.errors import TrainingFailed
from rlcb.runs.rundir import RunDir
from rlcb.training.ranks import STORE_FILE
from rlcb.training.signals import StopSignal

SHUTDOWN_SECONDS = 5  # for ranks that are left when one is lost; whoever is frozen does not use them


def launch(config: Config, run: RunDir, stop: StopSignal) -> int:
    """Run until the ranks say that it is over; return the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from rlcb.training.lockstep import Lockstep
    from rlcb.training.rank import EXECUTIONS
    from rlcb.training.rank import main as rank

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # we say what happened in our own lines
    plays = EXECUTIONS[config.algo] is Lockstep  # others have a crew that does
    multiprocessing.set_forkserver_preload(["rlcb.training.warm" if plays else "rlcb.training.ready"])
    with tempfile.TemporaryDirectory(prefix="rlcb-") as folder:
        handoff = Handoff(Path(folder))
        stop.then(handoff.forward)
        os.environ.update(
            {
                STORE_FILE: f"{folder}/store",
                "GLOO_SOCKET_IFNAME": "lo",
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # nothing listens on a port
            }
        )
        settings = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=config.num_ranks,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=f"{folder}/rendezvous",
            rdzv_configs={"store_type": "file"},
            local_addr="localhost",
            max_restarts=config.parallel.max_restarts,
            monitor_interval=0.2,
            start_method="forkserver",
            logs_specs=DefaultLogsSpecs(log_dir=f"{folder}/logs"),
            signals_to_handle="SIGHUP",
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        try:
            results = elastic_launch(settings, rank)(config, handoff)
        except ChildFailedError as error:
            raise TrainingFailed(_failure(config, run, error)) from error
    if isinstance(results[0], str):
        raise TrainingFailed(results[0])
    return int(results[0])


def _failure(config: Config, run: RunDir, error: Any) -> str:
    rank, first = error.get_first_failure()
    saved = run.checkpoint_files()
    again = f"continue with rlcb train --resume {run.root}" if saved else "no checkpoint was due before"
    how = f"signal {-first.exitcode}" if first.exitcode < 0 else f"exit code {first.exitcode}"
    lost = f"{config.rank_name} {rank} ended with {how}"
    return f"{lost}, and {config.parallel.max_restarts} restarts are used up; {again}"


class Handoff:
    """A folder through which signals reach the ranks: those that run, and those that are just being started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def here_is(self, rank: int) -> int | None:
        """A rank says who it is, and hears whether it should stop at once."""
        (self.folder / f"rank_{rank}").write_text(str(os.getpid()))
        stop = self.folder / "stop"
        return int(stop.read_text()) if stop.exists() else None

    def forward(self, number: int) -> None:
        (self.folder / "stop").write_text(str(number))
        self._send(number, self.folder.glob("rank_*"))

    def end_others(self, rank: int) -> None:
        """One is lost, so all are to start again: now, and not when torch has waited for the one that is frozen."""
        self._send(signal.SIGKILL, (file for file in self.folder.glob("rank_*") if file.name != f"rank_{rank}"))

    def _send(self, number: int, files: Iterable[Path]) -> None:
        for file in files:
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), number)
