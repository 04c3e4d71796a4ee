"""`python -m rlcb.training.costs CONFIG`: what playing and learning cost here, per sample and on one core.

From these follows how many of IMPALA's processes should learn. Prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from rlcb.config import Config, load_config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.cpu.timing import seconds_per_call

AT_LEAST_SECONDS = 1.0  # per piece


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
    """In a process of its own, which gives its memory back."""
    command = [sys.executable, "-m", "rlcb.training.costs", str(config_file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Costs(**json.loads(done.stdout.splitlines()[-1]))


def measure(config: Config) -> Costs:
    """With the rollouts and batches that one actor and one learner would have."""
    from rlcb.cpu.phases import Phases
    from rlcb.training.assembly import make_collector, make_learner, make_policy
    from rlcb.training.collector import empty_rollout
    from rlcb.training.ranks import Alone

    assert config.crew is not None
    n_envs, length = config.crew.envs_each, config.batch_size // config.num_envs
    policy = make_policy(config)
    learner = make_learner(config, policy, Alone())
    collector, _ = make_collector(config, slice(0, n_envs), policy, Phases())
    rollout = empty_rollout(length, n_envs)
    play = seconds_per_call(lambda: collector.collect(rollout, bootstrap=False), AT_LEAST_SECONDS)
    learn = seconds_per_call(lambda: learner.learn(rollout, lambda epoch: rollout.actions, 1e-9), AT_LEAST_SECONDS)
    collector.close()
    return Costs(play / (n_envs * length), learn / (n_envs * length))


def main() -> None:
    keep_freed_memory()
    prepare_threads(1)
    apply_threads(1)
    print(json.dumps(measure(load_config(sys.argv[1], []))._asdict()))


if __name__ == "__main__":
    main()
