"""train and evaluate many runs from one file: games × algorithms × modes × seeds; run again, it continues"""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcb.cli.parser import Door, Parser
from rlcb.config import Override
from rlcb.cpu.machine import physical_cores, usable_cpus
from rlcb.errors import UserError

# Flags that replace what the file says, and where it says it.
REPLACED = {
    "duration": "duration",
    "total_timesteps": "total_timesteps",
    "num_episodes": "evaluation.num_episodes",
    "output": "output",
}


def add_flags(parser: Parser, door: Door) -> None:
    parser.add_argument("file", metavar="FILE", help="YAML file of the suite, such as config/suites/workflow.yaml")
    parser.add_argument(
        "--jobs", default="1", metavar="N", help="runs at a time, each on its part of the CPUs (default: 1)"
    )
    parser.add_argument("--duration", metavar="HOURS", help="hours of each run, instead of the file's budget")
    parser.add_argument("--total-timesteps", metavar="N", help="steps of each run, instead of the file's budget")
    parser.add_argument("--num-episodes", metavar="N", help="episodes of each evaluation, instead of the file's")
    parser.add_argument("--output", metavar="FOLDER", help="folder of all runs, instead of the file's")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would run, and do nothing")


def run(args: argparse.Namespace, door: Door) -> int:
    from rlcb.suite.cores import divided
    from rlcb.suite.plan import load_plan
    from rlcb.suite.runner import dry_run, run_suite

    problems, plan = list(args.problems), None
    cpus = len(usable_cpus())
    jobs = int(args.jobs) if args.jobs.isdecimal() else 0
    if not 1 <= jobs <= cpus:
        problems.append(
            f"--jobs {args.jobs}: not a number of runs that {cpus} CPUs can be divided among; use 1 to {cpus}"
        )
    given = {name: vars(args)[name] for name in REPLACED}
    overrides = [
        Override(REPLACED[name], value, "--" + name.replace("_", "-"))
        for name, value in given.items()
        if value is not None
    ]
    try:
        plan = load_plan(Path(args.file), overrides, max(1, physical_cores() // max(1, jobs)))
    except UserError as error:
        problems += error.problems
    if problems or plan is None:
        raise UserError(problems)
    if args.dry_run:
        dry_run(plan)
        return 0
    return run_suite(plan, divided(jobs))
