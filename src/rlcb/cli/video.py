"""write a video of a trained agent that plays chosen levels"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rlcb.cli.parser import NO_LIMIT, Door, Parser, whole_numbers
from rlcb.errors import UserError

MAX_TILES = 64
LEVELS_END = 2**31 - 1
NUMBERS = {"tiles": (1, MAX_TILES), "seed": (0, NO_LIMIT), "fps": (1, 60), "max_steps": (1, NO_LIMIT)}


def add_flags(parser: Parser, door: Door) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="checkpoint, or directory of a run (its newest)")
    parser.add_argument(
        "--levels",
        metavar="0,1,2,7|train|test",
        help="levels by number, the first training levels, or the first it never saw (default: half of either)",
    )
    parser.add_argument("--tiles", metavar="N", help="levels side by side, where --levels lists none (default: 8)")
    parser.add_argument(
        "--output", metavar="FILE", help=".mp4 or .gif (default: beside the checkpoint, its name, .mp4)"
    )
    parser.add_argument("--deterministic", action="store_true", help="always the likeliest action, instead of sampling")
    parser.add_argument("--seed", default="0", metavar="N", help="of the sampled actions (default: 0)")
    parser.add_argument("--fps", default="15", metavar="N", help="steps shown in a second (default: 15)")
    parser.add_argument("--max-steps", default="1000", metavar="N", help="end after so many steps (default: 1000)")


def run(args: argparse.Namespace, door: Door) -> int:
    numbers, problems = whole_numbers(args, NUMBERS)
    problems = args.problems + problems
    levels, problem = _levels(args.levels)
    if problem:
        problems.append(problem)
    if isinstance(levels, list) and args.tiles is not None:
        problems.append(f"--tiles {args.tiles}: --levels lists {len(levels)} already; leave one of them out")
    from rlcb.video.writers import ENCODERS

    output = None if args.output is None else Path(args.output)
    if output is not None and output.suffix.lower() not in ENCODERS:
        problems.append(f"--output {output}: is neither a video nor a GIF by its name; end it in .mp4 or .gif")
    if problems:
        raise UserError(problems)

    from rlcb.cpu.allocator import keep_freed_memory
    from rlcb.cpu.threads import apply_threads, prepare_threads

    keep_freed_memory()
    prepare_threads(1)  # a few pictures at a time are too little work to share
    from rlcb.video.film import film

    apply_threads(1)
    film(
        Path(args.checkpoint),
        levels=levels,
        tiles=numbers.get("tiles", 8),
        output=output,
        deterministic=args.deterministic,
        seed=numbers["seed"],
        fps=numbers["fps"],
        max_steps=numbers["max_steps"],
    )
    return 0


def _levels(text: str | None) -> tuple[list[int] | str | None, str | None]:
    """What was asked for, and what is wrong with it."""
    if text is None or text in ("train", "test"):
        return text, None
    if not re.fullmatch(r"\d+( *, *\d+)*", text, re.ASCII):
        return None, f"--levels {text}: not a list of levels; for example --levels 0,1,2,7, or train, or test"
    levels = [int(word) for word in text.split(",")]
    if max(levels) >= LEVELS_END:
        return None, f"--levels {text}: {max(levels)} is past Procgen's last level; use levels below {LEVELS_END}"
    if len(levels) > MAX_TILES:
        return None, f"--levels: {len(levels)} levels are too many for one picture; list at most {MAX_TILES}"
    return levels, None
