"""Measures Sample Factory's asynchronous PPO with V-trace, in its own virtual environment. Prints one line of JSON.

A rollout worker per core steps a whole vector environment of Procgen; one process plays, another learns. Every one of
them has a single thread of torch: Sample Factory sees to that itself, and has no setting for it.
"""

# mypy: disable-error-code="import-not-found"
# (Sample Factory is installed in an environment of its own.)

from __future__ import annotations

import json
import os
import tempfile
from functools import partial
from typing import Any

from benchmarks.peer_sb3 import keep_freed_memory
from benchmarks.workloads import Workload, choose, measurement_flags

WITH_ALLOCATOR = "RLCB_BENCH_ALLOCATOR"
N_STEPS = 16
# Sample Factory's names of the same networks, and their features.
NETWORKS = {"nature": ("convnet_atari", 512), "impala": ("resnet_impala", 256)}


def settings(workload: Workload, workers: int, folder: str) -> dict[str, Any]:
    """What is not mentioned is as Sample Factory has it."""
    encoder, features = NETWORKS[workload.arch]
    return {
        "env": workload.game,
        "train_dir": folder,
        "seed": workload.seed,
        "device": "cpu",
        "async_rl": True,
        "serial_mode": False,
        "num_workers": workers,
        "batched_sampling": True,
        "num_envs_per_worker": 1,  # vector environments
        "worker_num_splits": 1,
        "rollout": workload.n_steps,
        "recurrence": workload.n_steps,  # V-trace wants it, without a recurrent network too
        "batch_size": workload.batch_size,
        "num_batches_per_epoch": 1,
        "num_epochs": workload.n_epochs,
        "with_vtrace": True,
        "normalize_returns": False,  # V-trace cannot
        "normalize_input": False,
        "obs_scale": 255.0,
        "encoder_conv_architecture": encoder,
        "encoder_conv_mlp_layers": features,
        "nonlinearity": "relu",
        "use_rnn": False,
        "learning_rate": workload.learning_rate,
        "gamma": workload.gamma,
        "ppo_clip_ratio": workload.clip_range,
        "exploration_loss_coeff": workload.ent_coef,
        "value_loss_coeff": workload.vf_coef,
        "max_grad_norm": workload.max_grad_norm,
    }


def result(workload: Workload, workers: int, folder: str) -> dict[str, Any]:
    from importlib.metadata import version

    import torch
    from sample_factory.algo.learning import learner_worker
    from sample_factory.algo.utils.misc import ExperimentStatus
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.model.actor_critic import create_actor_critic
    from sample_factory.train import make_runner

    from benchmarks.sample_factory_parts import UpdateTimes, VtraceLearner, make_procgen

    learner_worker.Learner = VtraceLearner
    register_env(workload.game, partial(make_procgen, workload, workload.n_envs // workers))
    words = [f"--{name}={value}" for name, value in settings(workload, workers, folder).items()]
    config, runner = make_runner(parse_full_cfg(parse_sf_args(words)[0], words))
    times = UpdateTimes(workload.warm_up + workload.updates)
    runner.register_observer(times)
    assert runner.init() == ExperimentStatus.SUCCESS
    assert runner.run() == ExperimentStatus.SUCCESS
    begin, last = times.ends[workload.warm_up - 1], times.ends[workload.warm_up + workload.updates - 1]
    assert last.frames - begin.frames == workload.rollout_size * workload.updates
    network = create_actor_critic(config, runner.env_info.obs_space, runner.env_info.action_space)
    return {
        "fps": (last.frames - begin.frames) / (last.seconds - begin.seconds),
        "version": version("sample-factory"),
        "torch": torch.__version__,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
    }


def main() -> None:
    parser = measurement_flags(__doc__)
    parser.add_argument("--allocator", action="store_true", help="with this project's allocator settings")
    args = parser.parse_args()
    if args.allocator:
        os.environ[WITH_ALLOCATOR] = "1"
        keep_freed_memory()
    workload = choose(args.workload, None, args.quick).one_pass(N_STEPS)
    with tempfile.TemporaryDirectory(prefix="rlcb-bench-") as folder:
        tempfile.tempdir = folder  # Sample Factory leaves files in the system's
        measured = result(workload, args.threads, folder)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__" and WITH_ALLOCATOR in os.environ:
    # A process of Sample Factory's. It imports this before anything else, and inherits nothing but the environment.
    keep_freed_memory()
