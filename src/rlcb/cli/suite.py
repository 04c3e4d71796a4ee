"""train and evaluate many runs from one file: games × algorithms × modes × seeds; run again, it continues"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlcb.cli.parser import NO_LIMIT, Door, Parser, parse, whole_numbers
from rlcb.config import Override
from rlcb.cpu.machine import physical_cores, usable_cpus
from rlcb.errors import UserError

if TYPE_CHECKING:
    from rlcb.suite.plan import Plan

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
    parser.add_argument("--only", metavar="N", help="one run alone: the N-th of those that --dry-run lists")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would run, and do nothing")


def run(args: argparse.Namespace, door: Door) -> int:
    from rlcb.suite.cores import divided
    from rlcb.suite.runner import dry_run, run_suite

    cpus = len(usable_cpus())
    jobs = int(args.jobs) if args.jobs.isdecimal() else 0
    if not 1 <= jobs <= cpus:
        args.problems.append(
            f"--jobs {args.jobs}: not a number of runs that {cpus} CPUs can be divided among; use 1 to {cpus}"
        )
    plan = _plan(args, max(1, physical_cores() // max(1, jobs)))
    if args.dry_run:
        dry_run(plan)
        return 0
    return run_suite(plan, divided(jobs))


def checked(words: list[str], cores: int) -> Plan:
    """What a command line would run, or a UserError with all that is wrong with it, found without doing anything."""
    parser = Parser(allow_abbrev=False)
    add_flags(parser, Door())
    return _plan(parse(parser, words), cores)


def _plan(args: argparse.Namespace, cores: int) -> Plan:
    from rlcb.suite.plan import load_plan

    numbers, wrong = whole_numbers(args, {"only": (1, NO_LIMIT)})
    problems, plan = [*args.problems, *wrong], None
    given = {name: vars(args)[name] for name in REPLACED}
    overrides = [
        Override(REPLACED[name], value, "--" + name.replace("_", "-"))
        for name, value in given.items()
        if value is not None
    ]
    try:
        plan = load_plan(Path(args.file), overrides, cores)
    except UserError as error:
        problems += error.problems
    only = numbers.get("only")
    if plan is not None and only is not None and only > len(plan.jobs):
        problems.append(f"--only {only}: the suite has {len(plan.jobs)} runs; use at most that")
    if problems or plan is None:
        raise UserError(problems)
    return plan if only is None else replace(plan, jobs=(plan.jobs[only - 1],))
