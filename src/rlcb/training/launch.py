"""Starts the ranks of a run on this machine through torch's elastic launcher, and again when one is lost."""

from __future__ import annotations

import hashlib
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

from rlcb.cluster.network import address_on, is_here
from rlcb.config import Config
from rlcb.errors import TrainingFailed
from rlcb.runs.rundir import RunDir
from rlcb.training.ranks import STORE_FILE
from rlcb.training.signals import StopSignal

SHUTDOWN_SECONDS = 5  # for ranks that are left when one is lost; whoever is frozen does not use them
KEEP_ALIVE = {"keep_alive_interval": 5, "keep_alive_max_attempt": 3}  # a node is gone after so many silent intervals


def launch(config: Config, run: RunDir, stop: StopSignal) -> int:
    """Run until the ranks say that it is over; return the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from rlcb.training.lockstep import Lockstep
    from rlcb.training.rank import EXECUTIONS
    from rlcb.training.rank import main as rank

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # we say what happened in our own lines
    plays = EXECUTIONS[config.algo] is Lockstep  # others have a crew that does
    multiprocessing.set_forkserver_preload(["rlcb.training.warm" if plays else "rlcb.training.ready"])
    nodes = config.num_nodes
    with tempfile.TemporaryDirectory(prefix="rlcb-") as folder:
        handoff = Handoff(Path(folder))
        stop.then(handoff.forward)
        meeting = _among_nodes(config, run) if nodes > 1 else _alone(folder)
        settings = LaunchConfig(
            min_nodes=min(nodes, config.cluster.min_nodes or nodes),
            max_nodes=nodes,
            nproc_per_node=config.num_ranks // nodes,
            **meeting,
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
        except (RendezvousError, ConnectionError) as error:
            raise TrainingFailed(_lost_meeting(config, run, error)) from error
    first = next(iter(results.values()))  # all ranks end alike
    if isinstance(first, str):
        raise TrainingFailed(first)
    return int(first)


def _alone(folder: str) -> dict[str, Any]:
    """One machine: its ranks meet in a file, talk over loopback, and nothing listens on a port that others reach."""
    os.environ.update(
        {
            STORE_FILE: f"{folder}/store",
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
    )
    return {
        "run_id": uuid4().hex,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": f"{folder}/rendezvous",
        "rdzv_configs": {"store_type": "file"},
        "local_addr": "localhost",
    }


def _among_nodes(config: Config, run: RunDir) -> dict[str, Any]:
    """Several: they meet at the first node's address, and talk over the interface that leads there."""
    from rlcb.cluster import rendezvous

    rendezvous.register()
    cluster = config.cluster
    address, interface = address_on(cluster.interface, cluster.master_addr, cluster.master_port)
    os.environ.pop(STORE_FILE, None)
    os.environ.pop("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", None)
    if interface:
        os.environ["GLOO_SOCKET_IFNAME"] = interface
    place = f"{run.root.resolve()} {cluster.master_addr} {cluster.master_port}"
    return {
        "run_id": cluster.run_id or hashlib.sha256(place.encode()).hexdigest()[:16],
        "rdzv_backend": rendezvous.BACKEND,
        "rdzv_endpoint": f"{cluster.master_addr}:{cluster.master_port}",
        "rdzv_configs": {"is_host": is_here(cluster.master_addr), **KEEP_ALIVE},
        "local_addr": address,
    }


def _failure(config: Config, run: RunDir, error: Any) -> str:
    rank, first = error.get_first_failure()
    how = f"signal {-first.exitcode}" if first.exitcode < 0 else f"exit code {first.exitcode}"
    lost = f"{config.rank_name} {rank} ended with {how}"
    return f"{lost}, and {config.parallel.max_restarts} restarts are used up; {_again(run)}"


def _lost_meeting(config: Config, run: RunDir, error: Exception) -> str:
    first = f"{config.cluster.master_addr}:{config.cluster.master_port}"
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"the first node ({first}) does not answer any more, or the nodes did not meet ({reason}); {_again(run)}"


def _again(run: RunDir) -> str:
    saved = run.checkpoint_files()
    return f"continue with rlcb train --resume {run.root}" if saved else "no checkpoint was due before"


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
