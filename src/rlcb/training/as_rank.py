"""Under `torchrun` there is nothing to launch: this process takes its place among the ranks."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack

import psutil

from rlcb.cluster.network import address_on
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.errors import PeerLost, TrainingFailed, UserError
from rlcb.runs.files import write_atomically
from rlcb.runs.rundir import RunDir
from rlcb.training.lifeline import end_with_parent
from rlcb.training.rank import take_part
from rlcb.training.ranks import Together, meeting_store
from rlcb.training.signals import StopSignal
from rlcb.training.train import prepared

PREPARED = "rlcb/prepared"  # in torchrun's store


def train_as_rank(config: Config, run: RunDir, *, resume: bool, overwrite: bool) -> int:
    """Returns the exit code. Rank 0 looks after the run's directory, and says what is wrong."""
    end_with_parent()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface(config))
    phases = Phases()
    try:
        with StopSignal() as stop, Together(phases, config.timeout, config.compresses) as ranks, ExitStack() as held:
            problems: list[str] = []
            if ranks.index == 0:
                again = _prepared_before(run)
                mine = prepared(config, run, resume=resume or again, overwrite=overwrite and not again)
                try:
                    held.enter_context(mine)
                    _remember(run)
                except UserError as error:
                    problems = error.problems
            problems = ranks.share(problems)[0]
            if problems:
                raise UserError(problems)
            take_part(config, run, ranks, phases, stop, launcher=os.getppid())
            return stop.exit_code
    except PeerLost as lost:
        print(f"{config.rank_name} {os.environ['RANK']}: lost the others ({lost})", file=sys.stderr, flush=True)
        return 1
    except (TrainingFailed, UserError):
        if os.environ["RANK"] == "0":
            raise
        return 1


def _interface(config: Config) -> str:
    """Loopback where all are on one machine; otherwise the one that leads to the first node."""
    if os.environ["GROUP_WORLD_SIZE"] == "1":
        return "lo"
    return address_on(config.cluster.interface, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))[1]


def _prepared_before(run: RunDir) -> bool:
    """Is this another attempt of the same torchrun, after one that was not refused? Its store tells where that outlives
    the ranks, and the run's directory where not."""
    mark = run.root / ".torchrun"
    return bool(meeting_store().add(PREPARED, 0)) or (mark.is_file() and mark.read_text() == _torchrun())


def _remember(run: RunDir) -> None:
    meeting_store().add(PREPARED, 1)
    write_atomically(run.root / ".torchrun", _torchrun().encode())


def _torchrun() -> str:
    """The one that has started us, and no other."""
    return f"{socket.gethostname()} {os.getppid()} {psutil.Process(os.getppid()).create_time()}"
