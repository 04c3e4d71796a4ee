"""What the ways to exchange cost and bring: bytes per update, FPS over slow networks, reward after equal steps.

Two simulated hosts (tests/cluster/hosts.py: root and iproute2). Called again, it goes on where it
was stopped; what another workload has left is measured anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.measurement import ROOT, end_when_told
from benchmarks.ours import flags, settings
from benchmarks.strategies_table import report
from benchmarks.workloads import Workload, choose
from rlcb.analysis.run import read_run
from rlcb.cpu.machine import machine
from rlcb.runs.files import write_json
from tests.cluster.hosts import WHY_NOT, can_make_hosts, two_hosts
from tests.cluster.training import ended, logs, records, start, wait_for

STRATEGIES: dict[str, dict[str, Any]] = {  # settings by their paths in the configuration
    "allreduce": {},
    "allreduce, fp16": {"cluster.compression": "fp16"},
    "accumulate": {"cluster.sync": "accumulate"},
    "average, H = 1": {"cluster.sync": "average", "cluster.average_every": 1},
    "average, H = 8": {"cluster.sync": "average", "cluster.average_every": 8},
    "average, H = 8, fp16": {
        "cluster.sync": "average",
        "cluster.average_every": 8,
        "cluster.compression": "fp16",
    },
    # 60% of two workers are both of them: nobody is cut.
    "allreduce, 4 workers": {"parallel.num_workers": 4},
    "allreduce, 4 workers, straggler cut": {"parallel.num_workers": 4, "cluster.straggler_cut": True},
}
FAST = "0 ms"
NETWORKS: dict[str, dict[str, float]] = {  # of two_hosts; milliseconds are those that ping shows
    FAST: {},
    "10 ms": {"ping_ms": 10},
    "50 ms": {"ping_ms": 50},
    "100 Mbit/s": {"mbit": 100},
}
OTHER_SEEDS = (1, 2)  # of the first strategy, to see how much seeds differ
UPDATES, LEARNING_UPDATES = 8, 32  # multiples of every H; the run over the fast network is the one that is evaluated
EPISODES = 400
TIME_LIMIT = 1200.0  # seconds of one run
BUSY = 0.5  # load average of the last minute


def main() -> int:
    args = _arguments()
    if not can_make_hosts():
        print(f"error: {WHY_NOT}", file=sys.stderr)
        return 2
    if (load := os.getloadavg()[0]) > BUSY:
        print(f"Warning: this machine is busy (load {load:.1f}); figures will be too low")
    end_when_told()
    workload = choose("nature", None, args.quick)
    output = args.output or (None if args.quick else ROOT / "docs" / "results")
    results = Results(output / "cluster_strategies.json" if output else None, workload, args.add)
    strategies, networks = args.strategy or list(STRATEGIES), args.network or list(NETWORKS)
    todo = [(strategy, network, workload.seed) for network in networks for strategy in strategies]
    if FAST in networks and "allreduce" in strategies:
        todo += [("allreduce", FAST, seed) for seed in OTHER_SEEDS]
    todo = [one for one in todo if one not in results]
    for number, (strategy, network, seed) in enumerate(todo, start=1):
        print(f"{number}/{len(todo)} {strategy}, over {network}, seed {seed} … ", end="", flush=True)
        begin = perf_counter()
        try:
            figures = measure(strategy, network, seed, workload)
        except (AssertionError, subprocess.CalledProcessError) as error:
            print(f"\nerror: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nInterrupted; with --add the same command goes on with this one.", file=sys.stderr)
            return 130
        results.add(strategy, network, seed, figures)
        megabytes = figures["bytes_per_update"] / 1e6
        print(
            f"{figures['fps']:,.0f} FPS, {megabytes:.2f} MB per update, in {perf_counter() - begin:.0f} s", flush=True
        )
    print("\n" + report(results.facts, STRATEGIES, NETWORKS))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-cluster", description=__doc__)
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help="only this one (repeatable)")
    parser.add_argument("--network", action="append", choices=NETWORKS, help="only this one (repeatable)")
    parser.add_argument("--add", action="store_true", help="to what is in --output already")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it work at all? Figures mean nothing")
    parser.add_argument("--output", type=Path, help="folder of cluster_strategies.json and .md (docs/results)")
    return parser.parse_args()


class Results:
    """What was measured so far, on disk after every measurement."""

    def __init__(self, file: Path | None, workload: Workload, add: bool) -> None:
        self._file = file
        self.facts: dict[str, Any] = {"workload": asdict(workload), "measured": []}
        if add and file is not None and file.is_file():
            before = json.loads(file.read_text(encoding="utf-8"))
            if before["workload"] == self.facts["workload"]:
                self.facts = before

    def __contains__(self, which: tuple[str, str, int]) -> bool:
        return which in [(one["strategy"], one["network"], one["seed"]) for one in self.facts["measured"]]

    def add(self, strategy: str, network: str, seed: int, figures: dict[str, Any]) -> None:
        words = sys.argv[1:]
        self.facts["measured"].append({"strategy": strategy, "network": network, "seed": seed, **figures})
        self.facts["command"] = shlex.join(["make", "bench-cluster", *([f"ARGS={shlex.join(words)}"] if words else [])])
        self.facts["ended"] = datetime.now().astimezone().isoformat(timespec="seconds")
        self.facts["machine"] = machine()._asdict()
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._file, self.facts)
            text = report(self.facts, STRATEGIES, NETWORKS)
            self._file.with_suffix(".md").write_text(text, encoding="utf-8")


def measure(strategy: str, network: str, seed: int, workload: Workload) -> dict[str, Any]:
    """One run, and what it sent between the end of the first update and the end of the last but one: after the last
    one, the checkpoint travels too."""
    learns = network == FAST and not workload.quick
    warm_up, updates = workload.warm_up, LEARNING_UPDATES if learns else UPDATES
    values = {
        **settings(workload, "parallel", threads=1),
        "mode": "cluster",
        "env.seed": seed,
        "training.total_timesteps": workload.rollout_size * (warm_up + updates + 1),
        "training.reward_scaling": True,  # as users train
        "training.autosave_minutes": 1e6,  # what is measured is what updates send
        **STRATEGIES[strategy],
    }
    with tempfile.TemporaryDirectory(prefix="rlcb-bench-") as name, two_hosts(**NETWORKS[network]) as hosts:
        folder = Path(name)
        agents = start(hosts, folder, *flags(values), "--output-dir", "run")

        def sent_after(count: int) -> int:
            def there() -> bool:
                return len(records(folder)) >= count or any(agent.poll() is not None for agent in agents)

            wait_for(there, TIME_LIMIT, lambda: logs(folder))
            return sum(host.sent_bytes() for host in hosts)

        before, after = sent_after(warm_up), sent_after(warm_up + updates)
        assert ended(agents, folder, TIME_LIMIT) == [0, 0], logs(folder)
        figures = {
            "bytes_per_update": (after - before) / updates / len(hosts),  # that one host sends
            **speed(records(folder)[warm_up - 1 : warm_up + updates]),
        }
        return {**figures, **reward(folder / "run")} if learns else figures


def speed(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """From the end of the first to the end of the last; phases in seconds per update."""
    first, *rest = measured
    last = rest[-1]
    seconds = last["time/elapsed_seconds"] - first["time/elapsed_seconds"]
    phases = [name for name in last if name.startswith("phase/")]
    return {
        "updates": len(rest),
        "fps": (last["timesteps"] - first["timesteps"]) / seconds,
        "phases": {name: sum(record[name] for record in rest) / len(rest) for name in phases},
    }


def reward(run: Path) -> dict[str, Any]:
    """Of whole episodes on the levels it was trained on, with the standard error of their mean."""
    words = ["evaluate", "--checkpoint", str(run), "--levels", "train", "--num-episodes", str(EPISODES)]
    subprocess.run([sys.executable, "-m", "rlcb", *words], check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    done = read_run(run)
    played = done.evaluation["train"]
    error = played["std_reward"] / played["episodes"] ** 0.5
    return {"steps": done.summary["total_timesteps"], "reward": played["mean_reward"], "reward_error": error}


if __name__ == "__main__":
    sys.exit(main())
