"""Speed and memory of this project against Stable-Baselines3 and against the hardware, back to back in one run."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.measurement import ROOT, MeasurementFailed, measure
from benchmarks.sb3_venv import sb3_python
from benchmarks.table import SIDES, Round, report, verdicts
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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # The same cores for all; what is started from here inherits them.
    os.sched_setaffinity(0, sorted(usable_cpus())[: args.cores])
    threads = choose_threads(None).number
    prepare_threads(threads)
    try:
        python = sb3_python()
        names = list(WORKLOADS) if args.workload == "all" else [args.workload]
        measured = {name: _measure(args, name, threads, python) for name in names}
    except (MeasurementFailed, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; nothing is written.", file=sys.stderr)
        return 130
    workloads = {name: choose(name, args.updates, args.quick) for name in names}
    text = "\n\n\n".join(report(workloads[name], rounds) for name, rounds in measured.items())
    print("\n" + text + ("\n\nTiny sizes: these figures mean nothing." if args.quick else ""))
    output = args.output or (RESULTS if args.workload == "all" and not args.quick else None)
    if output is not None:
        _write(output, text, {"load_before": load, **_facts(threads, workloads, measured)})
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--workload", choices=[*WORKLOADS, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured, in turn (%(default)s)")
    parser.add_argument("--updates", type=int, help="measured updates per measurement (nature 6, impala 1)")
    parser.add_argument("--cores", type=int, default=2, help="CPUs that all sides run on (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="minutes of one measurement (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it work at all? Figures mean nothing")
    parser.add_argument(
        "--output", type=Path, help="folder of bench_sequential.json and .md (docs/results after a whole run)"
    )
    return parser.parse_args()


def _measure(args: argparse.Namespace, name: str, threads: int, sb3: Path) -> list[Round]:
    print(f"\n{choose(name, args.updates, args.quick)}, {threads} threads", flush=True)
    rounds: list[Round] = []
    for number in range(1, args.rounds + 1):
        this: Round = {}
        for side, label in SIDES.items():
            with tempfile.TemporaryDirectory(prefix="rlcb-bench-") as folder:
                command = _command(side, name, threads, sb3, folder)
                command += ["--updates", str(args.updates)] if args.updates else []
                command += ["--quick"] if args.quick else []
                this[side] = measure(command, f"  {number}/{args.rounds} {label}", 60 * args.time_limit)
        assert this["ceiling"]["parameters"] == this["sb3"]["parameters"], "not the same network"
        rounds.append(this)
    return rounds


def _command(side: str, name: str, threads: int, sb3: Path, folder: str) -> list[str]:
    module, *more = {
        "ours": ["ours", "--output-dir", folder],
        "sb3": ["peer_sb3"],
        "sb3_allocator": ["peer_sb3", "--allocator"],
        "ceiling": ["ceiling"],
    }[side]
    python = str(sb3) if module == "peer_sb3" else sys.executable
    return [python, "-m", f"benchmarks.{module}", "--workload", name, "--threads", str(threads), *more]


def _facts(threads: int, workloads: dict[str, Workload], measured: dict[str, list[Round]]) -> dict[str, Any]:
    peer = next(iter(measured.values()))[0]["sb3"]
    return {
        "command": shlex.join(["make", "bench", *([f"ARGS={shlex.join(sys.argv[1:])}"] if sys.argv[1:] else [])]),
        "ended": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine()._asdict(),
        "threads": threads,
        "versions": {"stable-baselines3": peer["version"], "torch": peer["torch"]},
        "workloads": {
            name: {
                "settings": asdict(workloads[name]),
                "rounds": rounds,
                "verdicts": [{**verdict._asdict(), "met": verdict.met} for verdict in verdicts(name, rounds)],
            }
            for name, rounds in measured.items()
        },
    }


def _write(folder: Path, text: str, facts: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    here = facts["machine"]
    header = (
        "# Sequential training against Stable-Baselines3 and the hardware\n\n"
        f"`{facts['command']}`, {facts['ended'][:10]}; {here['cpu']}, {here['cores']} cores, {here['memory_gb']:g} GB, "
        f"{here['system']}, Python {here['python']}, torch {facts['versions']['torch']}, "
        f"stable-baselines3 {facts['versions']['stable-baselines3']}, {facts['threads']} threads.\n"
        "All sides in turn, on the same cores. Raw numbers: [bench_sequential.json](bench_sequential.json).\n"
    )
    (folder / "bench_sequential.md").write_text(f"{header}\n```\n{text}\n```\n", encoding="utf-8")
    (folder / "bench_sequential.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    print(f"\nWritten: {folder}/bench_sequential.md and .json")


if __name__ == "__main__":
    sys.exit(main())
