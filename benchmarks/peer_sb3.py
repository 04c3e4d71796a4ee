"""Measures Stable-Baselines3 on the same workload, in its own virtual environment. Prints one line of JSON."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from benchmarks.workloads import Workload, choose, measurement_flags

ALLOCATOR = Path(__file__).parents[1] / "src" / "rlcb" / "cpu" / "allocator.py"


def keep_freed_memory() -> None:
    """This project's own settings; the project itself is not installed here."""
    spec = importlib.util.spec_from_file_location("allocator", ALLOCATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.keep_freed_memory()


def result(workload: Workload, threads: int) -> dict[str, Any]:
    import stable_baselines3
    import torch

    from benchmarks.sb3_parts import ImpalaFeatures, ProcgenVecEnv, UpdateTimes

    torch.set_num_threads(threads)
    # `nature` is Stable-Baselines3's own default. Beside others it would put two hidden layers before each head.
    network = {"features_extractor_class": ImpalaFeatures, "net_arch": []} if workload.arch == "impala" else {}
    model = stable_baselines3.PPO(
        "CnnPolicy",
        ProcgenVecEnv(workload.game, workload.n_envs, workload.num_levels, workload.seed),
        learning_rate=workload.learning_rate,
        n_steps=workload.n_steps,
        batch_size=workload.batch_size,
        n_epochs=workload.n_epochs,
        gamma=workload.gamma,
        gae_lambda=workload.gae_lambda,
        clip_range=workload.clip_range,
        normalize_advantage=True,
        ent_coef=workload.ent_coef,
        vf_coef=workload.vf_coef,
        max_grad_norm=workload.max_grad_norm,
        policy_kwargs=network,
        seed=workload.seed,
        device="cpu",
    )
    times = UpdateTimes()
    model.learn(workload.total_timesteps, callback=times)
    assert len(times.ends) == 1 + workload.warm_up + workload.updates
    begin, last = times.ends[workload.warm_up], times.ends[-1]
    assert model.ep_info_buffer is not None
    return {
        "fps": workload.rollout_size * workload.updates / (last - begin),
        "version": stable_baselines3.__version__,
        "torch": torch.__version__,
        "parameters": sum(p.numel() for p in model.policy.parameters()),
        "episodes": len(model.ep_info_buffer),
    }


def main() -> None:
    parser = measurement_flags(__doc__)
    parser.add_argument("--allocator", action="store_true", help="with this project's allocator settings")
    args = parser.parse_args()
    if args.allocator:
        keep_freed_memory()
    print(json.dumps(result(choose(args.workload, args.updates, args.quick), args.threads)))


if __name__ == "__main__":
    main()
