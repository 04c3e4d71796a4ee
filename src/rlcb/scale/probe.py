"""`python -m rlcb.scale.probe`: one process that measures. Questions come as lines of JSON, and so do the answers.

Several of them that are asked at once work at the same time, as the processes of a run do.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rlcb.config import Config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.memory import tree_cpu_seconds
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.training.costs import STAND_STILL, Trial

CALLS = 21
NUMBERS = 40  # of a record
TIMEOUT = 60.0


def facts(config: Config, folder: str) -> dict[str, Any]:
    """Of the network and its optimizer; what an update is worth telling, and what writing it down takes."""
    from torch import Tensor

    from rlcb.policy import MICRO_BATCH_SIZES
    from rlcb.training.lockstep import Lockstep
    from rlcb.training.ranks import Alone

    run = Lockstep(config, Alone())
    report = run.update(STAND_STILL)
    (remembered,) = run.state()["optimizer"]["state"].values()
    run.close()
    return {
        "parameters": sum(p.numel() for p in run.policy.parameters()),
        "optimizer_tensors": sum(isinstance(value, Tensor) and value.dim() > 0 for value in remembered.values()),
        "micro_batch_size": config.hardware.micro_batch_size or MICRO_BATCH_SIZES[config.model.arch],
        "report_bytes": len(pickle.dumps(report)),
        "record_number": _seconds_to_record(Path(folder)),
        "look_at_processes": _seconds_each(lambda: tree_cpu_seconds(os.getppid())),
    }


def _seconds_to_record(folder: Path) -> float:
    """One number of an update, in metrics.jsonl and in TensorBoard."""
    from rlcb.runs.metrics import MetricsLog

    record = {"timesteps": 1.0, **{f"some/number_{i}": 1.0 for i in range(NUMBERS)}}
    with MetricsLog(folder) as log:
        return _seconds_each(lambda: log.write(record)) / NUMBERS


def prepare(config: Config, lengths: dict[str, int]) -> str:
    """By number of environments. What takes its own time in every process comes before all of them work at once."""
    _trials.update({int(n_envs): Trial(config, int(n_envs), length) for n_envs, length in lengths.items()})
    return "ready"


def work(n_envs: int, seconds: float) -> list[dict[str, float]]:
    return _trials[n_envs].updates(seconds)


def exchange(index: int, store: str, parameters: int) -> dict[str, float]:
    """Seconds of all-reduces between two processes: of a few numbers, of a gradient in either precision as ranks of two
    machines exchange it, and of one in memory that they share."""
    import torch

    from rlcb.cpu.phases import Phases
    from rlcb.training.ranks import STORE_FILE, Together

    os.environ |= {"RANK": str(index), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    few, gradient = torch.zeros(3, dtype=torch.float64), torch.zeros(parameters)
    measured = {}
    for way, ranks_here in (("none", 1), ("fp16", 1), ("shared", 2)):
        os.environ |= {STORE_FILE: f"{store}_{way}", "LOCAL_WORLD_SIZE": str(ranks_here)}
        with Together(Phases(), TIMEOUT, compress=way == "fp16") as both:
            measured["meeting" if way == "shared" else "smallest"] = _seconds_each(partial(both.sum, few))
            measured[way] = _seconds_each(partial(both.mean, gradient))
    return measured


def _seconds_each(call: Callable[[], object]) -> float:
    """The median: whoever is interrupted once should not have it count for all."""
    taken = []
    for _ in range(CALLS):
        begin = perf_counter()
        call()
        taken.append(perf_counter() - begin)
    return median(taken)


QUESTIONS: dict[str, Callable[..., Any]] = {"facts": facts, "prepare": prepare, "work": work, "exchange": exchange}
_trials: dict[int, Trial] = {}


def main() -> None:
    """Until there are no more questions, or nobody to ask them."""
    keep_freed_memory()
    prepare_threads(1)
    apply_threads(1)
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        if "config" in question:
            question["config"] = Config.model_validate(question["config"])
        answer = QUESTIONS[question.pop("what")](**question)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
