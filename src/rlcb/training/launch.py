"""Starts the ranks of a run on this machine through torch's elastic launcher, and again when one is lost."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psutil

from rlcb.cluster.network import Meeting, Watch
from rlcb.config import Config
from rlcb.errors import TrainingFailed
from rlcb.runs.files import write_atomically
from rlcb.runs.rundir import RunDir
from rlcb.training import server
from rlcb.training.ranks import STORE_FILE, STORE_HOST
from rlcb.training.signals import StopFile, StopSignal

SHUTDOWN_SECONDS = 5  # for ranks that are left when one is lost; whoever is frozen does not use them
PARTING_SECONDS = 10  # for nodes that end together to say so to each other
KEEP_ALIVE = {"keep_alive_interval": 5, "keep_alive_max_attempt": 3}  # a node is gone after so many silent intervals


def launch(config: Config, run: RunDir, stop: StopSignal, meeting: Meeting | None) -> int:
    """Run until the ranks say that it is over; return the exit code. Without a `meeting` this is the only node."""
    from torch.distributed import DistError  # type: ignore[attr-defined]
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousTimeoutError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from rlcb.training.rank import main as rank

    for module in ("torch.distributed", "torch.multiprocessing"):
        logging.getLogger(module).setLevel(logging.CRITICAL)  # we say what happened in our own lines
    server.start()
    nodes, leads = config.num_nodes, meeting is not None and meeting.listens_on is not None
    with tempfile.TemporaryDirectory(prefix="rlcb-") as folder, ExitStack() as held:
        handoff = Handoff(Path(folder), nodes)
        stop.then(handoff.forward)
        rendezvous = _among_nodes(config, run, handoff, meeting, held) if meeting else _alone(folder, handoff)
        if leads:
            print(f"Waiting for the other nodes at {rendezvous['rdzv_endpoint']} …", flush=True)
        settings = LaunchConfig(
            min_nodes=min(nodes, config.cluster.min_nodes or nodes),
            max_nodes=nodes,
            nproc_per_node=config.num_ranks // nodes,
            **rendezvous,
            max_restarts=config.parallel.max_restarts,
            monitor_interval=0.2,
            start_method="forkserver",
            logs_specs=DefaultLogsSpecs(log_dir=f"{folder}/logs"),
            signals_to_handle="",  # they are ours
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        try:
            results = elastic_launch(settings, rank)(config, handoff)
        except ChildFailedError as error:
            raise TrainingFailed(_failure(config, run, error)) from error
        except (RendezvousError, ConnectionError, DistError) as error:
            say = _nobody_came if leads and isinstance(error, RendezvousTimeoutError) else _lost_meeting
            raise TrainingFailed(say(config, run, error)) from error
    first = next(iter(results.values()))  # all ranks end alike
    if isinstance(first, str):
        raise TrainingFailed(first)
    return int(first)


def _alone(folder: str, handoff: Handoff) -> dict[str, Any]:
    """One machine: its ranks meet in a file, talk over loopback, and nothing listens on a port that others reach."""
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    handoff.environment = {STORE_FILE: f"{folder}/store", "GLOO_SOCKET_IFNAME": "lo"}
    return {
        "run_id": uuid4().hex,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": f"{folder}/rendezvous",
        "rdzv_configs": {"store_type": "file"},
        "local_addr": "localhost",
    }


def _among_nodes(config: Config, run: RunDir, handoff: Handoff, meeting: Meeting, held: ExitStack) -> dict[str, Any]:
    """Several: they meet at the first node's address, and talk over the interface that leads there."""
    from rlcb.cluster import rendezvous

    rendezvous.register()
    cluster = config.cluster
    place, port = cluster.master_addr, cluster.master_port
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # torch's would listen on all addresses
    handoff.environment = {STORE_HOST: f"{meeting.listens_on or place}:{port}"}
    if meeting.interface:
        handoff.environment["GLOO_SOCKET_IFNAME"] = meeting.interface
    if meeting.listens_on is None:

        def lost() -> None:
            try:
                handoff.end_others(-1)
                print(f"error: {_lost_meeting(config, run, None)}", file=sys.stderr, flush=True)
            finally:
                handoff.end(1)

        held.enter_context(Watch(place, port, config.timeout, lost))
    run_id = f"{run.root.resolve()} {place} {port}"
    return {
        "run_id": cluster.run_id or hashlib.sha256(run_id.encode()).hexdigest()[:16],
        "rdzv_backend": rendezvous.BACKEND,
        "rdzv_endpoint": f"{place}:{port}",
        "rdzv_configs": {"listen_on": meeting.listens_on, "read_timeout": config.timeout, **KEEP_ALIVE},
        "local_addr": meeting.address,
    }


def _failure(config: Config, run: RunDir, error: Any) -> str:
    rank, first = error.get_first_failure()
    how = f"signal {-first.exitcode}" if first.exitcode < 0 else f"exit code {first.exitcode}"
    lost = f"{config.rank_name} {rank} ended with {how}"
    return f"{lost}, and {config.parallel.max_restarts} restarts are used up; {_again(run)}"


def _lost_meeting(config: Config, run: RunDir, error: Exception | None) -> str:
    first = f"the first node, {config.cluster.master_addr}:{config.cluster.master_port},"
    reason = str(error or "").strip().partition("\n")[0]
    return f"{first} does not answer any more{f' ({reason})' if reason else ''}; {_again(run)}"


def _nobody_came(config: Config, run: RunDir, error: Exception | None) -> str:
    cluster = config.cluster
    here = f"{cluster.master_addr}:{cluster.master_port}"
    return f"not enough of the {cluster.nodes} nodes have come to {here} in ten minutes; {_again(run)}"


def _again(run: RunDir) -> str:
    saved = run.checkpoint_files()
    return f"continue with rlcb train --resume {run.root}" if saved else "no checkpoint was due before"


class Handoff:
    """A folder through which the launcher and its ranks hear of each other."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        self.folder, self._nodes = folder, nodes
        self.environment: dict[str, str] = {}  # for the ranks; the server that forks them may be older than this run
        self.directory = Path.cwd()  # likewise

    def here_is(self, rank: int) -> None:
        """A rank that has found the others says who it is."""
        me = psutil.Process()
        (self.folder / f"rank_{rank}").write_text(f"{me.pid} {me.create_time()}")

    @property
    def stop(self) -> StopFile:
        """The ranks' side of `forward`: those that run see it, and those that are just being started."""
        return StopFile(self.folder / "stop")

    def forward(self, number: int) -> None:
        write_atomically(self.folder / "stop", str(number).encode())
        if self._nodes > 1:
            threading.Thread(target=self._end_after_ranks, args=(number,), daemon=True).start()

    def _end_after_ranks(self, number: int) -> None:
        """Torch's launcher would go on to wait for other nodes to come back."""
        parting = 0
        while self._send(0, self.folder.glob("rank_*")):
            parting = PARTING_SECONDS
            time.sleep(0.5)
        time.sleep(parting)
        self.end(128 + number)

    def end(self, code: int) -> NoReturn:
        """At once, from whichever thread."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(code)

    def end_others(self, rank: int) -> None:
        """One is lost, so all are to start again: now, and not when torch has waited for the one that is frozen."""
        self._send(signal.SIGKILL, (file for file in self.folder.glob("rank_*") if file.name != f"rank_{rank}"))

    def _send(self, number: int, files: Iterable[Path]) -> int:
        """To so many."""
        told = 0
        for file in files:
            with suppress(ProcessLookupError, FileNotFoundError, ValueError, psutil.Error):
                pid, began = file.read_text().split()
                if psutil.Process(int(pid)).create_time() == float(began):  # numbers are used again
                    os.kill(int(pid), number)
                    told += 1
        return told
