"""compare runs: speed, reward, memory, efficiency, with statistics over seeds and a picture"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlcb.cli.parser import Door, Parser
from rlcb.errors import UserError

if TYPE_CHECKING:
    from rlcb.analysis.groups import Group

PICTURES = (".png", ".svg", ".pdf")


def add_flags(parser: Parser, door: Door) -> None:
    add_runs(parser)
    parser.add_argument("--sequential", metavar="DIR", help="the sequential run: first column")
    parser.add_argument("--parallel", metavar="DIR", help="the parallel run: second column")
    parser.add_argument("--output", default="comparison.png", metavar="FILE", help="picture (default: comparison.png)")
    parser.add_argument("--target-reward", metavar="R", help="measure steps and seconds to this reward")
    parser.add_argument("--template", action="store_true", help="print a benchmark record, filled in")


def add_runs(parser: Parser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="directories of runs, or directories that hold runs")
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=DIR,DIR,…",
        help="runs of several seeds as one column (otherwise names that differ in the seed only are taken together)",
    )


def groups_of(args: argparse.Namespace) -> list[Group]:
    """All problems of the command line at once."""
    from rlcb.analysis.groups import group_by_name

    problems: list[str] = list(args.problems)
    groups: list[Group] = []
    for name in ("sequential", "parallel"):
        folder = getattr(args, name, None)
        if folder is not None:
            groups += _collect(problems, partial(_one_group, name.capitalize(), [Path(folder)]))
    for text in args.group:
        name, equals, folders = text.partition("=")
        if not (name and equals and all(folders.split(","))):
            problems.append(f"--group {text} is not NAME=DIR,DIR; for example --group ppo=runs/seed1,runs/seed2")
        else:
            paths = [Path(folder) for folder in folders.split(",")]
            groups += _collect(problems, partial(_one_group, name, paths))
    if args.runs:
        groups += _collect(problems, partial(group_by_name, [Path(run) for run in args.runs]))
    labels = [group.label for group in groups]
    problems += [f"{label}: two groups of this name; name them with --group" for label in _twice(labels)]
    if not groups and not problems:
        problems.append("no runs given; name their directories, for example rlcb compare runs/a runs/b")
    if problems:
        raise UserError(problems)
    return groups


def _one_group(name: str, paths: list[Path]) -> list[Group]:
    from rlcb.analysis.groups import named_group

    return [named_group(name, paths)]


def _collect(problems: list[str], read: Callable[[], list[Group]]) -> list[Group]:
    try:
        return read()
    except UserError as error:
        problems += error.problems
        return []


def _twice(labels: list[str]) -> list[str]:
    return sorted({label for label in labels if labels.count(label) > 1})


def picture_file(text: str) -> Path:
    file = Path(text)
    if file.suffix.lower() not in PICTURES:
        raise UserError(f"--output {text}: pictures are {', '.join(PICTURES)}; for example --output comparison.png")
    return file


def run(args: argparse.Namespace, door: Door) -> int:
    file = picture_file(args.output)
    target = None
    if args.target_reward is not None:
        try:
            target = float(args.target_reward)
        except ValueError as error:
            raise UserError(f"--target-reward {args.target_reward} is not a number; for example 8.5") from error
    groups = groups_of(args)
    from rlcb.analysis.compare import Comparison

    comparison = Comparison(groups, target)
    if args.template:
        from rlcb.analysis.template import record

        print(record(groups, comparison.remarks()))
        return 0
    print(comparison.text(), flush=True)

    from rlcb.analysis.plots import four_panels
    from rlcb.runs.files import write_atomically

    four_panels(groups, file, comparison.remarks())
    report = file.with_name("comparison_report.txt")
    write_atomically(report, comparison.report().encode())
    print(f"\nPicture: {file}\nReport: {report}")
    return 0
