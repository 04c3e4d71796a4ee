"""Measures here what a training's pieces cost, with as many processes at once as there are cores."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import mean, median
from typing import Any

from rlcb.config import Config
from rlcb.cpu.machine import machine
from rlcb.errors import TrainingFailed
from rlcb.scale.costs import Costs, Curve
from rlcb.screen import Screen

SECONDS = 1.5  # per size, at least
ROUNDS = 3
LIMIT_SECONDS = 900.0  # for everything
SIZES = 4  # at most
MOST_ENVS = 64  # of one process: beyond it everything is in proportion

Updates = list[dict[str, float]]  # seconds by phase, of each


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
    cores = machine().cores
    levels = [1, cores, 2 * cores] if crowded else [1, cores]  # processes at a time
    length = config.batch_size // config.num_envs
    with probes(max(2, *levels)) as crew, tempfile.TemporaryDirectory(prefix="rlcb-scale-") as folder:
        screen.show(0.0, "starting")
        (facts,) = crew.ask([{"what": "facts", "config": _small(config, length), "folder": folder}])
        sizes = chosen_sizes({*n_envs, facts["micro_batch_size"] // length})
        lengths = {size: _length(config, size, length, facts["micro_batch_size"]) for size in sizes}
        crew.ask([{"what": "prepare", "config": config.model_dump(), "lengths": lengths}] * max(levels))
        middle = sizes[len(sizes) // 2]
        todo = sorted({*((size, cores) for size in sizes), *((middle, level) for level in levels)})
        rounds = []
        for number in range(ROUNDS):  # a bad moment of the machine should not count for one size only
            screen.show((number + 1) / (ROUNDS + 2), f"round {number + 1} of {ROUNDS}")
            rounds.append({(size, level): _work(crew, size, level, seconds / ROUNDS) for size, level in todo})
        screen.show((ROUNDS + 1) / (ROUNDS + 2), "exchanges")
        exchange = _exchange(crew, f"{folder}/store", facts["parameters"])
    full = {size: [one[size, cores] for one in rounds] for size in sizes}
    crowds = {level / cores: [one[middle, level] for one in rounds] for level in sorted(set(levels))}
    return Costs(
        machine=machine()._asdict(),
        algo=config.algo,
        arch=config.model.arch,
        game=config.env.name,
        parameters=facts["parameters"],
        optimizer_tensors=facts["optimizer_tensors"],
        environment=_by_envs(full, "environment", lengths),
        act=_by_envs(full, "act", {size: steps + 1 for size, steps in lengths.items()}),
        other=_by_envs(full, "other", lengths),
        learn=_by_samples(full, lengths),
        crowd_play=_crowding(crowds, ("environment", "act", "other")),
        crowd_learn=_crowding(crowds, ("learn",)),
        spread=_spread(full.values()),
        crowded_spread=_spread([crowds[2.0]]) if crowded else (),
        smallest_exchange=exchange["smallest"],
        meeting=exchange["meeting"],
        exchange={name: exchange[name] for name in ("none", "fp16")},
        shared_exchange=exchange["shared"],
        report_bytes=facts["report_bytes"],
        record_number=facts["record_number"],
        look_at_processes=facts["look_at_processes"],
    )


def _work(crew: Probes, size: int, level: int, seconds: float) -> Updates:
    """Of all processes."""
    answers = crew.ask([{"what": "work", "n_envs": size, "seconds": seconds}] * level)
    return [update for updates in answers for update in updates]


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


def _phase(updates: Updates, *names: str) -> float:
    return mean(sum(update[name] for name in names) for update in updates)


def _by_envs(full: dict[int, list[Updates]], name: str, calls: dict[int, int]) -> Curve:
    return Curve(points=tuple((size, median(_phase(one, name) for one in full[size]) / calls[size]) for size in full))


def _by_samples(full: dict[int, list[Updates]], lengths: dict[int, int]) -> Curve:
    """Two sizes may give the same number of them."""
    found: dict[int, list[float]] = {}
    for size, rounds in full.items():
        found.setdefault(size * lengths[size], []).append(median(_phase(one, "learn") for one in rounds))
    return Curve(points=tuple((samples, mean(seconds)) for samples, seconds in sorted(found.items())))


def _crowding(crowds: dict[float, list[Updates]], names: tuple[str, ...]) -> Curve:
    """Against one process on every core, round by round."""
    usual = [_phase(one, *names) for one in crowds[1.0]]
    return Curve(
        points=tuple(
            (load, median(_phase(one, *names) / base for one, base in zip(rounds, usual, strict=True)))
            for load, rounds in crowds.items()
        )
    )


def _spread(sizes: Iterable[list[Updates]]) -> tuple[float, ...]:
    """Of everything that was done at the same time and size, in whichever process."""
    ratios: list[float] = []
    for rounds in sizes:
        for one in rounds:
            usual = _phase(one, "learn")
            ratios += [update["learn"] / usual for update in one]
    return tuple(sorted(ratios))
