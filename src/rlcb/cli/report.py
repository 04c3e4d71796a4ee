"""write one page about runs: tables, curves, phases, statistics, videos; it opens from disk"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rlcb.cli.compare import add_runs, groups_of
from rlcb.cli.parser import Door, Parser
from rlcb.errors import UserError


def add_flags(parser: Parser, door: Door) -> None:
    add_runs(parser)
    parser.add_argument("--output", default="report.html", metavar="FILE", help="the page (default: report.html)")
    parser.add_argument("--videos", action="store_true", help="film agents of which there is no video yet")


def run(args: argparse.Namespace, door: Door) -> int:
    file = Path(args.output)
    if file.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--output {file}: the report is a page; for example --output report.html")
    groups = groups_of(args)
    if args.videos:
        for group in groups:
            for one in group.runs:
                _film(one.root, one.checkpoints)

    from rlcb.analysis.compare import Comparison
    from rlcb.analysis.report import write_report

    comparison = Comparison(groups)
    write_report(comparison, file)
    for line in comparison.remarks():
        print(line)
    print(f"Report: {file} ({file.stat().st_size / 2**20:.1f} MB; open it in a browser)")
    return 0


def _film(root: Path, checkpoints: Path) -> None:
    """In a process of its own: this command needs no torch. A video that is older than the agent is of another one."""
    trained = max((file.stat().st_mtime for file in checkpoints.glob("*.pt")), default=0.0)
    if any(file.stat().st_mtime >= trained for file in checkpoints.glob("*.mp4")):
        return
    done = subprocess.run([sys.executable, "-m", "rlcb", "video", str(root)])
    if done.returncode:
        print(f"Warning: no video of {root}", file=sys.stderr)
