"""Are the predictions of `rlcb scale` right? Predicts what can be run here, runs it, and holds one against the other.

One rank, two and four on this machine, and two simulated hosts with a throttled cable between them. Costs are measured
before and after the runs of every round: these machines wander.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

from benchmarks.measurement import ROOT, cpu_seconds, end_when_told
from benchmarks.ours import flags, result
from rlcb.config import Config, Override, load_config
from rlcb.cpu.machine import machine
from rlcb.cpu.memory import tree_cpu_seconds
from rlcb.scale.costs import Costs
from rlcb.scale.measure import measure
from rlcb.scale.model import Machines, predict
from rlcb.screen import Screen
from tests.cluster.hosts import WHY_NOT, can_make_hosts, two_hosts

T = TypeVar("T")
Found = dict[str, list[dict[str, Any]]]  # by row: what every round predicted and measured

RESULTS = ROOT / "docs" / "results"
BAR = 0.15
UNTHROTTLED = 1e5  # Mbit/s: a cable between two hosts that are one machine is as fast as its memory
WARM_UP, UPDATES = 1, 4  # as many as between two averages of weights, or a multiple
LIMIT_SECONDS = 180.0  # for one run
DISTURBED, ATTEMPTS, SAMPLE_SECONDS = 0.25, 3, 0.5
COMMON: dict[str, Any] = {
    "env.name": "coinrun",
    "env.num_envs": 32,
    "model.arch": "nature",
    "training.n_steps": 64,
    "training.save_interval": 100_000,
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {"training.batch_size": 512, "training.n_epochs": 2},
    "a2c": {"training.n_steps": 16},
    "impala": {},
    "a3c": {"training.n_steps": 16},
}
MORE_UPDATES = {"a2c": 6, "impala": 2, "a3c": 6}  # times as many: theirs are short


@dataclass(frozen=True)
class Row:
    """A run that is predicted and made."""

    algo: str
    workers: int
    hosts: int = 1
    mbits: float | None = None  # None: as fast as it goes
    ping_ms: float = 0.0  # there and back
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        name = {"impala": "actor", "a3c": "worker"}.get(self.algo, "rank")
        where = "one machine" if self.hosts == 1 else "two hosts"
        where += f", {self.mbits:g} Mbit/s" if self.mbits else ""
        where += f", ping {self.ping_ms:g} ms" if self.ping_ms else ""
        what = f"{self.workers} {name}{'s' if self.workers > 1 else ''}"
        ways = ", ".join(str(value) for value in self.settings.values())
        return f"{self.algo.upper()}, {what}, {where}{', ' + ways if ways else ''}"

    @property
    def updates(self) -> int:
        return (WARM_UP + UPDATES) * MORE_UPDATES.get(self.algo, 1)

    def values(self) -> dict[str, Any]:
        """Settings by their paths."""
        kind = "actors" if self.algo == "impala" else "workers"
        values = {**COMMON, **ALGORITHMS[self.algo], **self.settings}
        values["training.total_timesteps"] = self.updates * COMMON["env.num_envs"] * values["training.n_steps"]
        return {
            "algo": self.algo,
            "mode": "cluster",
            **values,
            "cluster.nodes": self.hosts,
            f"parallel.num_{kind}": self.workers,
        }

    def config(self) -> Config:
        return load_config(None, [Override(path, value, path) for path, value in self.values().items()])

    def words(self) -> list[str]:
        """Of `rlcb train`."""
        return ["train", *flags(self.values()), "--output-dir", "run"]

    def machines(self) -> Machines:
        """Two hosts that are one machine have its cores between them."""
        return Machines(machine().cores // self.hosts, self.ping_ms / 2, self.mbits or UNTHROTTLED)


ROWS = [
    Row("ppo", 1),
    Row("ppo", 2),
    Row("ppo", 4),
    Row("ppo", 2, 2),
    Row("ppo", 2, 2, 100),
    Row("ppo", 2, 2, 50),
    Row("ppo", 2, 2, 50, settings={"cluster.compression": "fp16"}),
    Row("ppo", 2, 2, 50, settings={"cluster.sync": "accumulate"}),
    Row("ppo", 2, 2, 50, settings={"cluster.sync": "average"}),
    Row("ppo", 4, 2, 100),
    Row("ppo", 2, 2, 100, ping_ms=20),
    Row("ppo", 4, 2, 100, ping_ms=20),
    Row("a2c", 2, 2, 100),
    Row("impala", 2, 2, 100),
    Row("impala", 2, 2, 100, ping_ms=20),
    Row("a3c", 2, 2, 100),
]


def main() -> int:
    args = _arguments()
    if not can_make_hosts():
        print(f"error: {WHY_NOT}", file=sys.stderr)
        return 1
    end_when_told()
    file = args.output / "scale_check.json"
    found: Found = json.loads(file.read_text())["rows"] if args.add and file.exists() else {}
    rows = [row for row in ROWS if args.only in row.label]
    for number in range(1, args.rounds + 1):
        print(f"Round {number} of {args.rounds}", flush=True)
        for label, pair in _round(rows).items():
            found.setdefault(label, []).append(pair)
        _write(args.output, found)
    print(f"\n{table(found)}\n\nWritten: {args.output}/scale_check.md and .json")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make check-scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is predicted and run (%(default)s)")
    parser.add_argument("--add", action="store_true", help="to the rounds that are in --output already")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name holds this")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of scale_check.json and .md")
    return parser.parse_args()


def undisturbed(what: str, work: Callable[[], T]) -> T:
    """Do it, and do it again if somebody else has used the machine meanwhile."""
    for attempt in range(ATTEMPTS):
        with Neighbours() as others:
            done = work()
        if others.cores < DISTURBED or attempt == ATTEMPTS - 1:
            break
        print(f"  {what}: disturbed, others used {others.cores:.2f} cores meanwhile; again", flush=True)
    return done


class Neighbours:
    """How many cores are busy with what we have not started, the neighbours of a virtual machine included."""

    def __enter__(self) -> Neighbours:
        self._end = threading.Event()
        self._ours = self._before = tree_cpu_seconds(os.getpid())
        self._all, self._begin = cpu_seconds(), time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        """What processes have used is gone when they are."""
        while not self._end.wait(SAMPLE_SECONDS):
            self._ours = max(self._ours, tree_cpu_seconds(os.getpid()))

    def __exit__(self, *error: object) -> None:
        everything, seconds = cpu_seconds() - self._all, time.monotonic() - self._begin
        self._end.set()
        self._thread.join()
        self.cores = (everything - (self._ours - self._before)) / seconds


def _round(rows: list[Row]) -> dict[str, dict[str, Any]]:
    """By row: predicted from the costs before and after the runs, and measured between them."""
    algos = dict.fromkeys(row.algo for row in rows)
    before, after = {}, {}
    for algo in algos:
        before[algo] = undisturbed("costs", partial(_costs, algo, rows))
    measured = {row.label: undisturbed(row.label, partial(_run, row)) for row in rows}
    for algo in algos:
        after[algo] = undisturbed("costs", partial(_costs, algo, rows))
    return {
        row.label: {
            "predicted": [predict(row.config(), costs[row.algo], row.machines()).fps for costs in (before, after)],
            "measured": measured[row.label],
            "seconds": asdict(predict(row.config(), after[row.algo], row.machines()).seconds),
        }
        for row in rows
    }


def _costs(algo: str, rows: list[Row]) -> Costs:
    configs = [row.config() for row in rows if row.algo == algo]
    sizes = {config.crew.envs_each for config in configs if config.crew}
    if algo == "impala":
        sizes |= {config.num_envs // config.num_nodes for config in configs}
    print(f"  costs of {algo.upper()} …", flush=True)
    screen = Screen("Measuring", leave=False)
    try:
        return measure(configs[0], sizes, crowded=True, screen=screen)
    finally:
        screen.close()


def _run(row: Row) -> float:
    """Frames per second, from the end of the warm-up on."""
    print(f"  {row.label} …", end=" ", flush=True)
    with tempfile.TemporaryDirectory(prefix="rlcb-scale-check-") as folder:
        with _started(row, Path(folder)) as processes:
            end = time.monotonic() + LIMIT_SECONDS
            while any(process.poll() is None for process in processes) and time.monotonic() < end:
                time.sleep(0.2)
            codes = [process.poll() for process in processes]
        if any(codes):
            logs = "\n".join(log.read_text()[-2000:] for log in Path(folder).glob("*.log"))
            raise SystemExit(f"{row.label}: ended with {codes}\n{logs}")
        warm_up = WARM_UP * MORE_UPDATES.get(row.algo, 1)
        fps = float(result(Path(folder) / "run", warm_up)["fps"])
    print(f"{fps:,.0f} FPS", flush=True)
    return fps


@contextmanager
def _started(row: Row, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """On this machine, or on two hosts; nothing of it is left."""
    if row.hosts == 1:
        with (folder / "one.log").open("wb") as log:
            command = [sys.executable, "-m", "rlcb", *row.words()]
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield [process]
        finally:
            process.kill()
            process.wait()
        return
    with two_hosts(ping_ms=row.ping_ms, mbit=row.mbits) as hosts:
        master = ["--master-addr", hosts[0].address]
        processes = [host.start(folder, f"{host.name}.log", *row.words(), *master) for host in hosts]
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
                process.wait()


def table(found: Found) -> str:
    """Medians over the rounds, of speeds and of errors."""
    labels = [row.label for row in ROWS if row.label in found]
    width = max(map(len, labels)) + 2
    lines = [f"{'FPS':<{width}}{'predicted':>10}{'measured':>10}{'error':>8}{'rounds':>8}  {'':<16}{'bar':>6}"]
    for label in labels:
        pairs = [(mean(one["predicted"]), one["measured"]) for one in found[label]]
        errors = [predicted / measured - 1 for predicted, measured in pairs]
        error = median(errors)
        verdict = "met" if abs(error) <= BAR else "MISSED"
        lines.append(
            f"{label:<{width}}{median(p for p, _ in pairs):>10,.0f}{median(m for _, m in pairs):>10,.0f}{error:>+8.0%}"
            f"{len(pairs):>8}  {f'({min(errors):+.0%} to {max(errors):+.0%})':<16}{f'±{BAR:.0%}':>6}  {verdict}"
        )
    return "\n".join(lines)


def _write(folder: Path, found: Found) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    here = machine()
    header = (
        "# Predictions of `rlcb scale` against runs\n\n"
        f"`make check-scale`, {datetime.now():%Y-%m-%d}; {here.cpu}, {here.cores} cores, {here.memory_gb:g} GB, "
        f"{here.system}, Python {here.python}.\n"
        "Medians over the rounds; costs are measured before and after the runs of every round.\n"
        "CoinRun, `nature`, 32 games; PPO: 64 steps, batch 512, 2 epochs; IMPALA: 64 steps; A2C, A3C: 16 steps.\n"
        "Raw numbers: [scale_check.json](scale_check.json).\n"
    )
    (folder / "scale_check.md").write_text(f"{header}\n```\n{table(found)}\n```\n", encoding="utf-8")
    facts = {"machine": here._asdict(), "bar": BAR, "rows": found}
    (folder / "scale_check.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
