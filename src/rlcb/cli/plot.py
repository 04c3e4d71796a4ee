"""draw training curves of runs, with bands over seeds, by steps or by time"""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcb.cli.compare import add_runs, groups_of, picture_file
from rlcb.cli.parser import Door, Parser
from rlcb.errors import UserError

DEFAULT_METRICS = ("rollout/ep_reward_mean", "time/fps", "train/policy_loss", "train/entropy")


def add_flags(parser: Parser, door: Door) -> None:
    add_runs(parser)
    parser.add_argument("--log-file", action="append", default=[], metavar="FILE", help="metrics.jsonl of a run")
    parser.add_argument(
        "--output", metavar="FILE", help="PNG, SVG or PDF (default: training_curves.png beside the log)"
    )
    parser.add_argument("--metric", action="append", metavar="NAME", help="a name in metrics.jsonl; may be repeated")
    parser.add_argument(
        "--x", choices=("steps", "time"), default="steps", help="what the curves go over (default: steps)"
    )
    parser.add_argument("--smooth", default="0.6", metavar="0..1", help="weight of what came before (default: 0.6)")
    parser.add_argument("--published", action="store_true", help="add the published PPO curve of the game")


def run(args: argparse.Namespace, door: Door) -> int:
    problems = []
    smoothing = 0.0
    try:
        smoothing = float(args.smooth)
    except ValueError:
        problems.append(f"--smooth {args.smooth} is not a number; for example --smooth 0.6")
    if not 0 <= smoothing < 1:
        problems.append(f"--smooth {args.smooth} is not from 0 to below 1; for example --smooth 0.6")
    logs = [Path(text) for text in args.log_file]
    problems += [f"--log-file {log}: no such file; train first, or name another" for log in logs if not log.is_file()]
    args.problems = [*args.problems, *problems]

    from rlcb.analysis.groups import Group, short_labels
    from rlcb.analysis.run import read_log

    groups = groups_of(args) if args.runs or args.group or args.problems or not logs else []
    runs = [read_log(log) for log in logs]
    groups += [Group(label, (run,)) for label, run in zip(short_labels(runs), runs, strict=True)]
    metrics = args.metric or list(DEFAULT_METRICS)
    known = {name for group in groups for run in group.runs for record in run.history for name in record}
    unknown = [name for name in metrics if name not in known]
    if args.metric and unknown:
        raise UserError(
            [f"--metric {name}: not in the metrics; there are {', '.join(sorted(known))}" for name in unknown]
        )
    if not known:
        raise UserError("no metrics in these runs yet; wait for the first update, or name others")
    place = logs[0].parent if logs else Path()
    file = picture_file(args.output or str(place / "training_curves.png"))

    from rlcb.analysis.compare import Comparison
    from rlcb.analysis.plots import curves

    remarks, shown = Comparison(groups).remarks(), [name for name in metrics if name in known]
    curves(groups, file, shown, args.x, smoothing, args.published, remarks)
    for line in remarks:
        print(line)
    print(f"Picture: {file}")
    return 0
