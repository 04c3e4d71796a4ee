"""Measures this project: `rlcb train` as users run it, logs and metrics included. Prints one line of JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from benchmarks.workloads import Workload, choose, measurement_flags
from rlcb.cli import main as rlcb
from rlcb.config import flag_name

RUNS = ("sequential", "one_core", "parallel", "four_workers", "impala", "a3c")
CREWS: dict[str, dict[str, Any]] = {
    "parallel": {"parallel.num_workers": 2},
    "four_workers": {"parallel.num_workers": 4},
    "impala": {"algo": "impala", "parallel.num_actors": 2},
    "a3c": {"algo": "a3c", "parallel.num_workers": 2},
}


def workload_of(run: str, workload: Workload) -> Workload:
    return {"impala": workload.one_pass(64), "a3c": workload.one_pass(16)}.get(run, workload)


def settings(workload: Workload, run: str, threads: int) -> dict[str, Any]:
    """By their paths in the configuration."""
    values: dict[str, Any] = {
        "algo": "ppo",
        "env.name": workload.game,
        "env.num_envs": workload.n_envs,
        "env.seed": workload.seed,
        "env.distribution_mode": "easy",
        "env.num_levels": workload.num_levels,
        "model.arch": workload.arch,
        "training.n_steps": workload.n_steps,
        "training.total_timesteps": workload.total_timesteps,
        "training.batch_size": workload.batch_size,
        "training.n_epochs": workload.n_epochs,
        "training.learning_rate": workload.learning_rate,
        "training.gamma": workload.gamma,
        "training.gae_lambda": workload.gae_lambda,
        "training.ent_coef": workload.ent_coef,
        "training.vf_coef": workload.vf_coef,
        "training.max_grad_norm": workload.max_grad_norm,
        "training.normalize_advantage": run not in ("impala", "a3c"),
        "training.reward_scaling": False,  # the others do none without a further wrapper
        "ppo.clip_range": workload.clip_range,
    }
    if run in CREWS:
        return {**values, "mode": "parallel", **CREWS[run]}
    return {**values, "hardware.num_threads": threads}


def flags(values: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for path, value in values.items():
        flag = str(flag_name(path))
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, str(value)]
    return words


def result(output: Path, warm_up: int) -> dict[str, Any]:
    """From the end of the warm-up to the end of the last update."""
    (file,) = output.glob("logs/*/metrics.jsonl")
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first, measured, last = records[warm_up - 1], records[warm_up:], records[-1]
    phases = [name for name in last if name.startswith("phase/")]
    return {
        "fps": (last["timesteps"] - first["timesteps"])
        / (last["time/elapsed_seconds"] - first["time/elapsed_seconds"]),
        "phases": {  # seconds per update
            name[len("phase/") : -len("_seconds")]: sum(record[name] for record in measured) / len(measured)
            for name in phases
        },
    }


def main() -> None:
    parser = measurement_flags(__doc__)
    parser.add_argument("--run", choices=RUNS, default="sequential")
    parser.add_argument("--output-dir", type=Path, required=True, help="of the run")
    args = parser.parse_args()
    workload = workload_of(args.run, choose(args.workload, args.updates, args.quick))
    threads = args.threads
    if args.run == "one_core":
        threads = 1
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        rlcb(argv=["train", *flags(settings(workload, args.run, threads)), "--output-dir", str(args.output_dir)])
    except SystemExit as end:
        if end.code:
            raise
    print(json.dumps(result(args.output_dir, workload.warm_up)))


if __name__ == "__main__":
    main()
