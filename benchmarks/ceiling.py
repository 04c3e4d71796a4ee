"""Measures what the hardware allows: environment steps, acting and gradients, each alone. Prints one line of JSON.

No rollout to fill, no minibatches to gather, no optimizer, no logs: a training loop can come close to this, no closer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import cycle
from time import perf_counter
from typing import Any

from benchmarks.ours import settings
from benchmarks.workloads import choose, measurement_flags
from rlcb.config import Config, Override, load_config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads

SECONDS = {False: 15.0, True: 0.2}  # per piece: whole, quick


def seconds_per_call(call: Callable[[], object], at_least: float) -> float:
    call()
    calls, begin = 0, perf_counter()
    while perf_counter() - begin < at_least:
        call()
        calls += 1
    return (perf_counter() - begin) / calls


def pieces(config: Config) -> tuple[int, dict[str, Callable[[], object]]]:
    """The number of the network's parameters; one environment step, one acting pass, the gradient of one minibatch."""
    from rlcb.algorithms import RECIPES
    from rlcb.cpu.phases import Phases
    from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, make_envs
    from rlcb.envs.randomness import EnvRandomness
    from rlcb.policy import MICRO_BATCH_SIZES, Policy
    from rlcb.training.collector import Collector
    from rlcb.training.flat import FlatParameters
    from rlcb.training.ranks import Alone

    env, n_steps = config.env, config.training.n_steps
    envs = make_envs(
        env.name, env.num_envs, seed=env.seed, distribution_mode=env.distribution_mode, num_levels=env.num_levels
    )
    policy = Policy(config.model.arch, OBS_SHAPE, N_ACTIONS, seed=env.seed)
    FlatParameters(policy)  # gradients are added up in place, as in training
    randomness = EnvRandomness(env.seed, range(env.num_envs))
    collector = Collector(envs, policy, n_steps, randomness, Phases())
    collector.collect()
    rollout = collector.rollout
    algorithm = RECIPES[config.algo].algorithm(config)
    batch = next(algorithm.minibatches(rollout, lambda epoch: randomness.order(0, epoch, n_steps), Alone()))
    parts = batch.split(MICRO_BATCH_SIZES[config.model.arch])
    seen = cycle(zip(rollout.obs, randomness.gumbel(0, n_steps, N_ACTIONS), strict=False))
    actions = cycle(rollout.actions.numpy())

    def gradient() -> None:
        for part, share in parts:
            loss, _ = algorithm.loss(policy, part)
            (loss * share).backward()  # type: ignore[no-untyped-call]

    return sum(p.numel() for p in policy.parameters()), {
        "environment": lambda: envs.step(next(actions)),
        "act": lambda: policy.act(*next(seen)),
        "learn": gradient,
    }


def result(config: Config, at_least: float) -> dict[str, Any]:
    training = config.training
    calls = {
        "environment": training.n_steps,
        "act": training.n_steps + 1,  # one more for the value after the last step
        "learn": training.n_epochs * config.rollout_size // config.batch_size,
    }
    parameters, once = pieces(config)
    phases = {name: calls[name] * seconds_per_call(call, at_least) for name, call in once.items()}
    return {"fps": config.rollout_size / sum(phases.values()), "phases": phases, "parameters": parameters}


def main() -> None:
    args = measurement_flags(__doc__).parse_args()
    keep_freed_memory()
    prepare_threads(args.threads)
    apply_threads(args.threads)
    workload = choose(args.workload, args.updates, args.quick)
    values = settings(workload, args.threads)
    config = load_config(None, [Override(path, value, path) for path, value in values.items()])
    print(json.dumps(result(config, SECONDS[args.quick])))


if __name__ == "__main__":
    main()
