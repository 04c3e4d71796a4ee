"""One rank of a run, as torch's launcher starts it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from rlcb.config import Config
from rlcb.cpu.memory import NOWHERE, MemoryWatch, Usage
from rlcb.cpu.phases import Phases
from rlcb.cpu.threads import apply_threads, threads_of
from rlcb.errors import PeerLost, TrainingFailed
from rlcb.runs.rundir import RunDir
from rlcb.training.actor_learner import ActorLearner
from rlcb.training.hogwild import Hogwild
from rlcb.training.leader import Leader, follow
from rlcb.training.lifeline import live_with_parent, parent_lives
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Together
from rlcb.training.signals import Stop
from rlcb.training.train import newest_checkpoint, run_loop

if TYPE_CHECKING:
    from rlcb.training.launch import Handoff  # which imports this module

FIND_SECONDS = 90.0  # for what one node has saved to be seen by all: network filesystems keep listings for a minute
EXECUTIONS: dict[str, Any] = {"ppo": Lockstep, "a2c": Lockstep, "impala": ActorLearner, "a3c": Hogwild}


def main(config: Config, handoff: Handoff) -> int | str:
    """Returns the exit code of the run, or why it failed: in rank 0, which knows. Whoever ends otherwise is lost."""
    index = int(os.environ["RANK"])
    os.environ.update(handoff.environment)
    os.chdir(handoff.directory)
    launcher = live_with_parent(f"rlcb-rank-{index}")
    phases, stop = Phases(), handoff.stop
    try:
        with Together(phases, config.timeout, config.compresses) as ranks:
            handoff.here_is(ranks.index)
            take_part(config, RunDir.of(config), ranks, phases, stop, launcher)
        return stop.exit_code
    except TrainingFailed as failure:
        # All ranks come to this together, and a restart would come to it again.
        return str(failure)
    except PeerLost as lost:
        print(f"{config.rank_name} {index}: lost the others ({lost})", file=sys.stderr, flush=True)
        handoff.end_others(index)
    except Exception:
        if parent_lives():  # without it we cannot start others, and nobody wants to know
            traceback.print_exc()
    sys.exit(1)


def take_part(config: Config, run: RunDir, ranks: Together, phases: Phases, stop: Stop, launcher: int) -> None:
    """Until the run is over. `launcher` is the process above all others of the run on this machine."""
    threads = threads_of(config)
    apply_threads(threads.number)
    _refuse_if_different(config, ranks)
    execution = EXECUTIONS[config.algo](config, ranks, phases)
    checkpoint = _same_checkpoint(run, ranks)
    if checkpoint:
        execution.load(checkpoint["execution"])
    if ranks.index:
        with _usage(launcher) as usage:
            follow(execution, ranks, stop, usage)
    else:
        restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        run_loop(config, run, Leader(execution, ranks, stop), checkpoint, stop, threads, launcher, restarts)


def _same_checkpoint(run: RunDir, ranks: Together) -> dict[str, Any] | None:
    """Nobody saves before everybody has taken part in an update, so all find the same, in a directory that is the same;
    what one machine wrote, another may see a little later."""
    until = monotonic() + FIND_SECONDS
    while True:
        checkpoint = newest_checkpoint(run, warn=ranks.index == 0)
        steps = checkpoint["progress"]["timesteps"] if checkpoint else 0
        found = ranks.share((steps, monotonic() < until))
        if len({step for step, _ in found}) == 1:
            return checkpoint
        if not all(patient for _, patient in found):
            seen = " and ".join(f"{step:,}" for step in sorted({step for step, _ in found}))
            raise TrainingFailed(
                f"the nodes find different checkpoints in {run.checkpoints}, of steps {seen}; "
                "the directory of a run has to be on storage that all nodes share"
            )
        sleep(0.5)


@contextmanager
def _usage(launcher: int) -> Iterator[Callable[[], Usage]]:
    """Of another node than rank 0's, told by its first rank; the others have nothing to tell."""
    if os.environ["GROUP_RANK"] == "0" or os.environ["LOCAL_RANK"] != "0":
        yield lambda: NOWHERE
        return
    with MemoryWatch(launcher) as watch:
        yield lambda: watch.usage


def _refuse_if_different(config: Config, ranks: Together) -> None:
    """Every node read its own command line; where files are may differ between machines."""
    mine = config.model_dump(exclude={"logging": True, "hardware": True, "cluster": {"interface"}})
    if any(theirs != mine for theirs in ranks.share(mine)):
        raise TrainingFailed("the nodes were started with different settings; start the same command on all of them")
