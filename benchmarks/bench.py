"""Speed and memory of this project against its peers and against the hardware, back to back in one run."""

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
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.measurement import ROOT, MeasurementFailed, end_when_told, measure
from benchmarks.peer_venv import peer_python
from benchmarks.sides import TABLES, Side, sides_of
from benchmarks.table import Round, report, verdicts
from benchmarks.workloads import WORKLOADS, Workload, choose
from rlcb.cpu.machine import machine, usable_cpus
from rlcb.cpu.threads import choose_threads, prepare_threads

RESULTS = ROOT / "docs" / "results"
BUSY = 0.5  # load average of the last minute


def main() -> int:
    args = _arguments()
    load = os.getloadavg()[0]
    if load > BUSY:
        print(f"Warning: this machine is busy (load {load:.1f}); figures will be too low")
    end_when_told()
    # The same cores for all; what is started from here inherits them.
    os.sched_setaffinity(0, sorted(usable_cpus())[: args.cores])
    threads = choose_threads(None).number
    prepare_threads(threads)
    tables = list(TABLES) if args.table == "all" else [args.table]
    archs = list(WORKLOADS) if args.workload == "all" else [args.workload]
    try:
        measured = {arch: _measure(args, arch, tables, threads) for arch in archs}
    except (MeasurementFailed, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; nothing is written.", file=sys.stderr)
        return 130
    output = args.output or (None if args.quick else RESULTS)
    for arch, table in product(archs, tables):
        workload, rounds = choose(arch, args.updates, args.quick), _only(sides_of(table, arch), measured[arch])
        text = report(table, workload, rounds)
        print("\n" + text + ("\n\nTiny sizes: these figures mean nothing." if args.quick else ""))
        if output is not None:
            facts = {"load_before": load, **_facts(table, threads, workload, rounds)}
            _write(output / arch, table, text, facts)
    return 0


def _only(sides: dict[str, Side], rounds: list[Round]) -> list[Round]:
    return [{name: round_[name] for name in sides} for round_ in rounds]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--workload", choices=[*WORKLOADS, "all"], default="all")
    parser.add_argument("--table", choices=[*TABLES, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured, in turn (%(default)s)")
    parser.add_argument("--updates", type=int, help="measured updates per measurement (nature 6, impala 1)")
    parser.add_argument("--cores", type=int, default=2, help="CPUs that all sides run on (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="minutes of one measurement (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it work at all? Figures mean nothing")
    parser.add_argument("--output", type=Path, help="folder of <workload>/bench_<table>.json and .md (docs/results)")
    return parser.parse_args()


def _measure(args: argparse.Namespace, arch: str, tables: list[str], threads: int) -> list[Round]:
    print(f"\n{choose(arch, args.updates, args.quick)}, {threads} threads", flush=True)
    sides = {name: side for table in tables for name, side in sides_of(table, arch).items()}
    rounds: list[Round] = []
    for number in range(1, args.rounds + 1):
        this: Round = {}
        for name, side in sides.items():
            with tempfile.TemporaryDirectory(prefix="rlcb-bench-") as folder:
                command = _command(side, arch, threads, folder)
                command += ["--updates", str(args.updates)] if args.updates else []
                command += ["--quick"] if args.quick else []
                this[name] = measure(command, f"  {number}/{args.rounds} {side.label}", 60 * args.time_limit)
        sizes = {side["parameters"] for side in this.values() if "parameters" in side}
        assert len(sizes) == 1, f"not the same network: {sizes}"
        rounds.append(this)
    return rounds


def _command(side: Side, arch: str, threads: int, folder: str) -> list[str]:
    module, *words = side.command
    python = sys.executable if side.venv == "ours" else str(peer_python(side.venv))
    place = ["--output-dir", folder] if module == "ours" else []
    return [python, "-m", f"benchmarks.{module}", "--workload", arch, "--threads", str(threads), *words, *place]


def _facts(table: str, threads: int, workload: Workload, rounds: list[Round]) -> dict[str, Any]:
    first = rounds[0]
    names = {"sb3": "stable-baselines3", "sf": "sample-factory"}
    return {
        "command": shlex.join(["make", "bench", *([f"ARGS={shlex.join(sys.argv[1:])}"] if sys.argv[1:] else [])]),
        "ended": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine()._asdict(),
        "threads": threads,
        "versions": {
            **{label: first[side]["version"] for side, label in names.items() if side in first},
            "torch": first["sb3"]["torch"],
        },
        "settings": asdict(workload),
        "rounds": rounds,
        "verdicts": [{**verdict._asdict(), "met": verdict.met} for verdict in verdicts(table, workload.arch, rounds)],
    }


TITLES = {
    "sequential": "Sequential training against Stable-Baselines3 and the hardware",
    "parallel": "Parallel training against sequential, Stable-Baselines3, Sample Factory and the hardware",
}


def _write(folder: Path, table: str, text: str, facts: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    here, stem = facts["machine"], f"bench_{table}"
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    header = (
        f"# {TITLES[table]}\n\n"
        f"`{facts['command']}`, {facts['ended'][:10]}; {here['cpu']}, {here['cores']} cores, {here['memory_gb']:g} GB, "
        f"{here['system']}, Python {here['python']}, {versions}.\n"
        f"All sides in turn, on the same cores. Raw numbers: [{stem}.json]({stem}.json).\n"
    )
    (folder / f"{stem}.md").write_text(f"{header}\n```\n{text}\n```\n", encoding="utf-8")
    (folder / f"{stem}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(f"\nWritten: {folder}/{stem}.md and .json")


if __name__ == "__main__":
    sys.exit(main())
