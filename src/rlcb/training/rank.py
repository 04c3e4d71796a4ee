"""`python -m rlcb.training.rank CONFIG`: one rank of a run, as torch's launcher starts it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rlcb.config import Config, load_config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import prepare_threads, threads_of
from rlcb.training.lifeline import die_with
from rlcb.training.signals import StopSignal

if TYPE_CHECKING:  # torch is imported after the number of its threads is settled
    from rlcb.cpu.phases import Phases
    from rlcb.training.launch import Handoff
    from rlcb.training.ranks import Together


def main() -> int:
    launcher = os.getppid()
    die_with(launcher)
    with StopSignal() as stop:
        config = load_config(sys.argv[1], [])
        keep_freed_memory()
        prepare_threads(threads_of(config).number)
        return _run(config, launcher, stop)


def _run(config: Config, launcher: int, stop: StopSignal) -> int:
    from rlcb.cpu.phases import Phases
    from rlcb.cpu.threads import apply_threads
    from rlcb.errors import PeerLost, TrainingFailed
    from rlcb.training.launch import Handoff
    from rlcb.training.ranks import Together

    handoff = Handoff.of_this_process()
    apply_threads(threads_of(config).number)
    phases = Phases()
    try:
        with Together(phases, config.parallel.timeout) as ranks:
            _take_part(config, ranks, phases, launcher, stop, handoff)
    except TrainingFailed as error:
        # All ranks come to this together, and a restart would come to it again.
        if os.environ["RANK"] == "0":
            handoff.leave(1, str(error))
    except PeerLost as lost:
        print(f"Process {os.environ['RANK']}: lost the others ({lost})", file=sys.stderr, flush=True)
        return 1
    return 0


def _take_part(
    config: Config, ranks: Together, phases: Phases, launcher: int, stop: StopSignal, handoff: Handoff
) -> None:
    from rlcb.runs.rundir import RunDir
    from rlcb.training.actor_learner import ActorLearner
    from rlcb.training.hogwild import Hogwild
    from rlcb.training.leader import Leader, follow
    from rlcb.training.lockstep import Lockstep
    from rlcb.training.train import newest_checkpoint, run_loop

    executions = {"ppo": Lockstep, "a2c": Lockstep, "impala": ActorLearner, "a3c": Hogwild}
    stop.received = stop.received or handoff.stopped_by()
    run = RunDir.of(config)
    execution = executions[config.algo](config, ranks, phases)
    # All ranks find the same: nobody saves before everybody has taken part in an update.
    checkpoint = newest_checkpoint(run, warn=ranks.index == 0)
    if checkpoint:
        execution.load(checkpoint["execution"])
    if ranks.index:
        follow(execution, ranks, stop)
        return
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    run_loop(config, run, Leader(execution, ranks, stop), checkpoint, stop, threads_of(config), launcher, restarts)
    handoff.leave(stop.exit_code)


if __name__ == "__main__":
    sys.exit(main())
