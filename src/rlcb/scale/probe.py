"""`python -m rlcb.scale.probe`: one process that measures. Questions come as lines of JSON, and so do the answers.

Several of them that are asked at once work at the same time, as the processes of a run do.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rlcb.config import Config
from rlcb.cpu.allocator import keep_freed_memory
from rlcb.cpu.threads import apply_threads, prepare_threads
from rlcb.training.costs import STAND_STILL, Trial

if TYPE_CHECKING:
    from torch import Tensor

EXCHANGES = 20  # of each kind, after a few that warm up
RECORDS = 20
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
        "bookkeeping": _bookkeeping(report.metrics, Path(folder)),
    }


def _bookkeeping(metrics: dict[str, float], folder: Path) -> float:
    """Seconds per record in metrics.jsonl and TensorBoard."""
    from rlcb.runs.metrics import MetricsLog

    record = {f"train/{name}": value for name, value in metrics.items() if value == value}
    with MetricsLog(folder) as log:
        log.write({"timesteps": 0, **record})
        begin = perf_counter()
        for step in range(RECORDS):
            log.write({"timesteps": step, **record})
        return (perf_counter() - begin) / RECORDS


def prepare(config: Config, n_envs: int, length: int) -> str:
    """What takes its own time in every process comes before all of them work at once."""
    _prepared.append(Trial(config, n_envs, length))
    return "ready"


def work(seconds: float) -> list[dict[str, float]]:
    trial = _prepared.pop()
    taken = trial.updates(seconds)
    trial.close()
    return taken


def exchange(index: int, store: str, parameters: int) -> dict[str, float]:
    """Seconds of all-reduces between two processes: of a few numbers, and of a gradient in either precision."""
    import torch

    from rlcb.cpu.phases import Phases
    from rlcb.training.ranks import STORE_FILE, Together

    os.environ |= {"RANK": str(index), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    gradient = torch.zeros(parameters)
    measured = {}
    for compression in ("none", "fp16"):
        os.environ[STORE_FILE] = f"{store}_{compression}"
        with Together(Phases(), TIMEOUT, compress=compression == "fp16") as both:
            measured["smallest"] = _seconds_each(both.sum, torch.zeros(3, dtype=torch.float64))
            measured[compression] = _seconds_each(both.mean, gradient)
    return measured


def _seconds_each(reduce: Callable[[Tensor], None], values: Tensor) -> float:
    for _ in range(3):
        reduce(values)
    begin = perf_counter()
    for _ in range(EXCHANGES):
        reduce(values)
    return (perf_counter() - begin) / EXCHANGES


QUESTIONS: dict[str, Callable[..., Any]] = {"facts": facts, "prepare": prepare, "work": work, "exchange": exchange}
_prepared: list[Trial] = []


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
