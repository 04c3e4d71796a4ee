"""Starts the ranks of a run on this machine through torch's elastic launcher, and again when one is lost."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from rlcb.config import Config
from rlcb.errors import TrainingFailed
from rlcb.runs.rundir import RunDir
from rlcb.training.ranks import STORE_FILE
from rlcb.training.signals import StopSignal

HANDOFF = "RLCB_HANDOFF"  # folder through which ranks and launcher tell each other how it ended
SHUTDOWN_SECONDS = 5  # for ranks that are left when one is lost; whoever is frozen does not use them


def launch(config: Config, run: RunDir, stop: StopSignal) -> int:
    """Run until the ranks say that it is over; return the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # we say what happened in our own lines
    with tempfile.TemporaryDirectory(prefix="rlcb-") as folder:
        handoff = Handoff(Path(folder))
        stop.then(handoff.forward)
        os.environ.update(_environment(handoff))
        settings = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=config.num_ranks,
            run_id=uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint=str(handoff.folder / "rendezvous"),
            rdzv_configs={"store_type": "file"},  # nothing listens on a port
            local_addr="localhost",
            max_restarts=config.parallel.max_restarts,
            monitor_interval=0.2,
            logs_specs=DefaultLogsSpecs(log_dir=str(handoff.folder / "logs")),
            signals_to_handle="SIGHUP",
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        try:
            elastic_launch(settings, sys.executable)("-m", "rlcb.training.rank", str(run.config_file))
        except ChildFailedError as error:
            raise TrainingFailed(_failure(config, run, error)) from error
        return handoff.exit_code()


def _environment(handoff: Handoff) -> dict[str, str]:
    return {
        HANDOFF: str(handoff.folder),
        STORE_FILE: str(handoff.folder / "store"),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONUNBUFFERED": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _failure(config: Config, run: RunDir, error: Any) -> str:
    rank, first = error.get_first_failure()
    saved = run.checkpoint_files()
    again = f"continue with rlcb train --resume {run.root}" if saved else "no checkpoint was due before"
    name = config.crew.name if config.crew and config.algo != "impala" else "Learner"
    how = f"signal {-first.exitcode}" if first.exitcode < 0 else f"exit code {first.exitcode}"
    return f"{name} {rank} ended with {how}, and {config.parallel.max_restarts} restarts are used up; {again}"


class Handoff:
    """A folder with two small files: `stop`, from the launcher to its ranks, and `exit_code`, the other way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_this_process(cls) -> Handoff:
        return cls(Path(os.environ[HANDOFF]))

    def forward(self, number: int) -> None:
        """Pass a signal on. Ranks that are just being started find it in the file."""
        (self.folder / "stop").write_text(str(number))
        for child in psutil.Process().children():
            child.send_signal(number)

    def stopped_by(self) -> int | None:
        file = self.folder / "stop"
        return int(file.read_text()) if file.exists() else None

    def leave(self, exit_code: int, message: str = "") -> None:
        """Rank 0 says how the run ended. A rank that ends by itself has done so on purpose and needs no restart."""
        (self.folder / "exit_code").write_text(f"{exit_code}\n{message}")

    def exit_code(self) -> int:
        number, _, message = (self.folder / "exit_code").read_text().partition("\n")
        if message:
            raise TrainingFailed(message)
        return int(number)
