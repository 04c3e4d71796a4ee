"""Measures what the hardware allows: environment steps, acting and gradients, each alone. Prints one line of JSON.

For several processes it does so in each of them at the same time, each with its share of environments and minibatches.
No rollout to fill, no minibatches to gather, no optimizer, no logs: a training loop can come close to this, no closer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from typing import Any

from benchmarks.ours import CREWS, RUNS, settings, workload_of
from benchmarks.workloads import choose, measurement_flags
from rlcb.config import Config, Override, load_config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.cpu.timing import seconds_per_call

PROCESSES = 2
SECONDS = {False: 15.0, True: 0.2}  # per piece: whole, quick


def pieces(config: Config) -> tuple[int, dict[str, Callable[[], object]]]:
    """The number of the network's parameters; one environment step, one acting pass, the gradient of one minibatch."""
    from rlcb.algorithms import RECIPES
    from rlcb.cpu.phases import Phases
    from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, make_envs
    from rlcb.envs.randomness import EnvRandomness
    from rlcb.policy import MICRO_BATCH_SIZES, Policy
    from rlcb.training.collector import Collector, empty_rollout
    from rlcb.training.flat import FlatParameters
    from rlcb.training.ranks import Alone

    env, n_steps = config.env, config.training.n_steps
    envs = make_envs(
        env.name, env.num_envs, seed=env.seed, distribution_mode=env.distribution_mode, num_levels=env.num_levels
    )
    policy = Policy(config.model.arch, OBS_SHAPE, N_ACTIONS, seed=env.seed)
    FlatParameters(policy)  # gradients are added up in place, as in training
    randomness = EnvRandomness(env.seed, range(env.num_envs))
    rollout = empty_rollout(n_steps, env.num_envs)
    Collector(envs, policy, randomness, Phases()).collect(rollout)
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
        # One more for the value after the last step; V-trace computes that one itself.
        "act": training.n_steps + (config.algo != "impala"),
        "learn": training.n_epochs * config.rollout_size // config.batch_size,
    }
    from rlcb.kernels import weights_held

    parameters, once = pieces(config)
    phases = {}
    for name, call in once.items():
        with weights_held() if name == "act" else nullcontext():
            phases[name] = calls[name] * seconds_per_call(call, at_least)
    return {"fps": config.rollout_size / sum(phases.values()), "phases": phases, "parameters": parameters}


def one_share(values: dict[str, Any], processes: int) -> dict[str, Any]:
    """The settings of one of several processes, as a run of its own."""
    alone = {path: value for path, value in values.items() if not path.startswith("parallel.")}
    divided = {path: values[path] // processes for path in ("env.num_envs", "training.batch_size")}
    return {**alone, **divided, "mode": "sequential", "hardware.num_threads": 1}


def together(command: list[str], processes: int) -> dict[str, Any]:
    """Each process prints its own result; all of them are at the same piece at the same time."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    results = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    phases = {name: sum(one["phases"][name] for one in results) / processes for name in results[0]["phases"]}
    return {**results[0], "fps": sum(one["fps"] for one in results), "phases": phases}


def main() -> None:
    parser = measurement_flags(__doc__)
    parser.add_argument("--run", choices=RUNS, default="sequential")
    parser.add_argument("--one-of", type=int, help="measure the share of one of so many processes")
    args = parser.parse_args()
    processes = PROCESSES if args.run in CREWS else 1
    if processes > 1 and args.one_of is None:
        command = [sys.executable, "-m", "benchmarks.ceiling", *sys.argv[1:], "--one-of", str(processes)]
        print(json.dumps(together(command, processes)))
        return
    threads = 1 if args.one_of else args.threads
    keep_freed_memory()
    prepare_threads(threads)
    apply_threads(threads)
    workload = workload_of(args.run, choose(args.workload, args.updates, args.quick))
    values = settings(workload, args.run, threads)
    values = one_share(values, args.one_of) if args.one_of else values
    config = load_config(None, [Override(path, value, path) for path, value in values.items()])
    print(json.dumps(result(config, SECONDS[args.quick])))


if __name__ == "__main__":
    main()
