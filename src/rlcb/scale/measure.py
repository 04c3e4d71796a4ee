"""Measures here what a training's pieces cost, with as many processes at once as there are cores."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import mean
from typing import Any

from rlcb.config import Config
from rlcb.cpu.machine import machine
from rlcb.errors import TrainingFailed
from rlcb.scale.costs import Costs, Curve
from rlcb.screen import Screen

SECONDS = 1.0  # per size, at least
LIMIT_SECONDS = 900.0  # for everything
SIZES = 4  # at most
MOST_ENVS = 64  # of one process: beyond it everything is in proportion

Updates = list[dict[str, float]]  # seconds by phase


class Probes:
    """Processes that measure. They end with their input, and so with this process."""

    def __init__(self, number: int) -> None:
        command = [sys.executable, "-m", "rlcb.scale.probe"]
        self._processes = [
            # A group of their own: Ctrl-C reaches us alone, and we end them.
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
            for _ in range(number)
        ]
        self._limit = threading.Timer(LIMIT_SECONDS, self._kill)
        self._limit.daemon = True
        self._limit.start()

    def ask(self, questions: list[dict[str, Any]]) -> list[Any]:
        """One each; they answer at the same time."""
        asked = self._processes[: len(questions)]
        for process, question in zip(asked, questions, strict=True):
            assert process.stdin is not None
            print(json.dumps(question), file=process.stdin, flush=True)
        return [self._answer(process) for process in asked]

    def _answer(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise TrainingFailed("measuring failed: a process ended before it could answer")
        return json.loads(line)

    def close(self) -> None:
        self._limit.cancel()
        self._kill()
        for process in self._processes:
            process.communicate()

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()


@contextmanager
def probes(number: int) -> Iterator[Probes]:
    started = Probes(number)
    try:
        yield started
    finally:
        started.close()


def measure(config: Config, n_envs: Iterable[int], crowded: bool, screen: Screen, seconds: float = SECONDS) -> Costs:
    """For processes that have so many environments; `crowded`: also with two of them on every core."""
    here = machine()
    cores = here.cores
    levels = {1, cores, *([2 * cores] if crowded else [])}  # processes at a time
    length = config.batch_size // config.num_envs
    with probes(max(2, *levels)) as crew, tempfile.TemporaryDirectory(prefix="rlcb-scale-") as folder:
        (facts,) = crew.ask([{"what": "facts", "config": _small(config, length), "folder": folder}])
        sizes = chosen_sizes({*n_envs, facts["micro_batch_size"] // length})
        middle = sizes[len(sizes) // 2]
        # What is held against each other comes one after the other.
        todo = sorted({*((size, cores) for size in sizes), *((middle, level) for level in levels)})
        done: dict[tuple[int, int], list[Updates]] = {}
        for number, (size, level) in enumerate(todo):
            screen.show(number / (len(todo) + 1), f"{level} × {size} environments")
            steps = _length(config, size, length, facts["micro_batch_size"])
            sized = {"config": config.model_dump(), "n_envs": size, "length": steps}
            crew.ask([{"what": "prepare", **sized}] * level)
            done[size, level] = crew.ask([{"what": "work", "seconds": seconds}] * level)
        screen.show(len(todo) / (len(todo) + 1), "exchanges")
        exchange = _exchange(crew, f"{folder}/store", facts["parameters"])
    lengths = {size: _length(config, size, length, facts["micro_batch_size"]) for size in sizes}
    full = {size: done[size, cores] for size in sizes}
    crowds = {level / cores: done[middle, level] for level in sorted(levels)}
    return Costs(
        machine=here._asdict(),
        algo=config.algo,
        arch=config.model.arch,
        game=config.env.name,
        parameters=facts["parameters"],
        optimizer_tensors=facts["optimizer_tensors"],
        environment=_by_size(full, "environment", {size: lengths[size] for size in sizes}),
        act=_by_size(full, "act", {size: lengths[size] + 1 for size in sizes}),
        other=_by_size(full, "other", {size: lengths[size] for size in sizes}),
        learn=_learn(full, lengths),
        crowd_play=_crowding(crowds, ("environment", "act", "other")),
        crowd_learn=_crowding(crowds, ("learn",)),
        spread=_spread(full),
        smallest_exchange=exchange["smallest"],
        exchange={name: exchange[name] for name in ("none", "fp16")},
        report_bytes=facts["report_bytes"],
        bookkeeping=facts["bookkeeping"],
    )


def chosen_sizes(wanted: set[int]) -> list[int]:
    """The smallest, the largest, and a few between them, as evenly as doubling goes."""
    sizes = sorted({min(max(1, size), MOST_ENVS) for size in wanted})
    if len(sizes) <= SIZES:
        return sizes
    ratio = sizes[-1] / sizes[0]
    targets = [sizes[0] * ratio ** (i / (SIZES - 1)) for i in range(SIZES)]
    return sorted({min(sizes, key=lambda size: abs(size - target)) for target in targets})


def _length(config: Config, n_envs: int, length: int, micro_batch_size: int) -> int:
    """Steps before a gradient. More samples than go through the network at once come in several passes, each like the
    first. V-trace needs whole unrolls."""
    if config.algo == "impala":
        return length
    return max(1, min(length, micro_batch_size // n_envs))


def _small(config: Config, length: int) -> dict[str, Any]:
    """One environment: enough to see what the network is."""
    tree = config.model_dump()
    tree["mode"] = "sequential"
    tree["env"]["num_envs"] = 1
    tree["training"] |= {"n_steps": length, "batch_size": length, "n_epochs": 1}
    return tree


def _exchange(crew: Probes, store: str, parameters: int) -> dict[str, float]:
    question = {"what": "exchange", "store": store, "parameters": parameters}
    both = crew.ask([{**question, "index": index} for index in range(2)])
    return {name: mean(one[name] for one in both) for name in both[0]}


def _phase(processes: list[Updates], *names: str) -> float:
    """The mean over all processes and updates."""
    return mean(sum(update[name] for name in names) for updates in processes for update in updates)


def _by_size(full: dict[int, list[Updates]], name: str, calls: dict[int, int]) -> Curve:
    return Curve(points=tuple((size, _phase(processes, name) / calls[size]) for size, processes in full.items()))


def _learn(full: dict[int, list[Updates]], lengths: dict[int, int]) -> Curve:
    """By samples. Two sizes may give the same number of them."""
    by_samples: dict[int, list[float]] = {}
    for size, processes in full.items():
        by_samples.setdefault(size * lengths[size], []).append(_phase(processes, "learn"))
    return Curve(points=tuple((samples, mean(seconds)) for samples, seconds in sorted(by_samples.items())))


def _crowding(crowds: dict[float, list[Updates]], names: tuple[str, ...]) -> Curve:
    usual = _phase(crowds[1.0], *names)
    return Curve(points=tuple((load, _phase(processes, *names) / usual) for load, processes in crowds.items()))


def _spread(full: dict[int, list[Updates]]) -> tuple[float, ...]:
    """Of everything that was done at the same size, in whichever process."""
    ratios: list[float] = []
    for processes in full.values():
        usual = _phase(processes, "learn")
        ratios += [update["learn"] / usual for updates in processes for update in updates]
    return tuple(sorted(ratios))
