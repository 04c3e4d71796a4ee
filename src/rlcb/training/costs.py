"""`python -m rlcb.training.costs CONFIG`: what playing and learning cost here, per sample and on one core.

From these follows how many of IMPALA's processes should learn. Prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from rlcb.config import Config, load_config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.errors import TrainingFailed
from rlcb.training.lifeline import end_with_parent
from rlcb.training.signals import deaf

AT_LEAST_SECONDS = 2.0
AT_LEAST_UPDATES = 2
STAND_STILL = 1e-9  # a learning rate that leaves the agent as it is


class Costs(NamedTuple):
    """Seconds per sample."""

    play: float  # environment and acting
    learn: float


def choose_learners(config_file: Path, actors: int, cores: int) -> int:
    return learners_for(measured(config_file), actors, cores)


def learners_for(costs: Costs, actors: int, cores: int) -> int:
    """At least as many as keep up, where that many divide the actors: a learner that has nothing to do leaves its core
    to actors, but actors that have nothing to do cannot learn."""
    wanted = cores * costs.learn / (costs.play + costs.learn)
    fitting = [number for number in range(1, min(actors, max(cores, 1)) + 1) if actors % number == 0]
    return next((number for number in fitting if number >= wanted), fitting[-1])


def measured(config_file: Path) -> Costs:
    """In a process of its own, which gives its memory back. Signals are for this one, not for it."""
    command = [sys.executable, "-m", "rlcb.training.costs", str(config_file)]
    with deaf():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
    output = process.communicate()[0]
    if process.returncode:
        raise TrainingFailed(f"measuring costs failed (exit code {process.returncode}); give --num-learners yourself")
    return Costs(**json.loads(output.splitlines()[-1]))


def measure(config: Config) -> Costs:
    """With the rollouts and batches that one actor and one learner would have."""
    assert config.crew is not None
    n_envs, length = config.crew.envs_each, config.batch_size // config.num_envs
    trial = Trial(config, n_envs, length)
    seconds = _mean(trial.updates(AT_LEAST_SECONDS))
    trial.close()
    # An actor asks for no value after its last step.
    play = seconds["environment"] + seconds["other"] + seconds["act"] * length / (length + 1)
    return Costs(play / (n_envs * length), config.training.n_epochs * seconds["learn"] / (n_envs * length))


class Trial:
    """One process whose updates are `length` steps of so many environments and one gradient step from them, as training
    does them. The first one is behind it."""

    def __init__(self, config: Config, n_envs: int, length: int) -> None:
        from rlcb.cpu.phases import Phases
        from rlcb.training.lockstep import Lockstep
        from rlcb.training.ranks import Alone

        training = {"n_steps": length, "batch_size": n_envs * length, "n_epochs": 1}
        alone = config.model_copy(
            update={
                "mode": "sequential",
                "env": config.env.model_copy(update={"num_envs": n_envs}),
                "training": config.training.model_copy(update=training),
            }
        )
        self._phases = Phases()
        self._run = Lockstep(alone, Alone(), self._phases)
        self._run.update(STAND_STILL)

    def updates(self, at_least: float) -> list[dict[str, float]]:
        """Seconds by phase of each."""
        self._phases.mark("wait")  # until now
        self._phases.take()
        taken: list[dict[str, float]] = []
        begin = perf_counter()
        while len(taken) < AT_LEAST_UPDATES or perf_counter() - begin < at_least:
            taken.append(self._run.update(STAND_STILL).phases["worker_0"])
        return taken

    def close(self) -> None:
        self._run.close()


def _mean(taken: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(one[name] for one in taken) / len(taken) for name in taken[0]}


def main() -> None:
    keep_freed_memory()
    prepare_threads(1)
    apply_threads(1)
    print(json.dumps(measure(load_config(sys.argv[1], []))._asdict()))


if __name__ == "__main__":
    main()
