"""see whether everything that training needs is installed and works"""

from __future__ import annotations

import argparse

from rlcb.cli.parser import Door, Parser
from rlcb.errors import UserError


def add_flags(parser: Parser, door: Door) -> None:
    parser.add_argument("--seconds", default="10", metavar="N", help="seconds of trial training (default: 10)")


def run(args: argparse.Namespace, door: Door) -> int:
    if args.problems:
        raise UserError(args.problems)
    try:
        seconds = float(args.seconds)
    except ValueError:
        raise UserError(f"--seconds {args.seconds} is not a number; for example --seconds 10") from None
    if not 0 <= seconds <= 3600:
        raise UserError(f"--seconds {args.seconds}: use 0 to 3600")
    from rlcb.check import check

    return check(seconds)
