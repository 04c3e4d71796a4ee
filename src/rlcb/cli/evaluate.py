"""play whole episodes with a trained agent, on training levels and on unseen ones"""

from __future__ import annotations

import argparse
from pathlib import Path

from rlcb.cli.parser import NO_LIMIT, Door, Parser, whole_numbers
from rlcb.errors import UserError
from rlcb.games import game_name


def add_flags(parser: Parser, door: Door) -> None:
    parser.add_argument("--checkpoint", metavar="FILE", help="checkpoint, or directory of a run (default: the newest)")
    parser.add_argument("--algorithm", "--algo", metavar="NAME", help="checked against the checkpoint, which decides")
    parser.add_argument("--env", metavar="GAME", help="another game than the checkpoint's")
    parser.add_argument("--num-episodes", default="100", metavar="N", help="whole episodes to play (default: 100)")
    parser.add_argument("--deterministic", action="store_true", help="always the likeliest action, instead of sampling")
    parser.add_argument(
        "--levels",
        default="train",
        metavar="train|test|both",
        help="levels it was trained on, levels it never saw, or both (default: train)",
    )
    parser.add_argument("--seed", default="0", help="which levels come up, and the sampled actions (default: 0)")
    parser.add_argument(
        "--render",
        action="store_true",
        help="show the first episodes in a window, or write a video beside the checkpoint where there is no display",
    )
    parser.add_argument("--num-threads", default=None, metavar="N", help="threads of torch")


def run(args: argparse.Namespace, door: Door) -> int:
    numbers, problems = whole_numbers(
        args, {"num_episodes": (1, NO_LIMIT), "seed": (0, NO_LIMIT), "num_threads": (1, NO_LIMIT)}
    )
    problems = args.problems + problems
    if args.levels not in ("train", "test", "both"):
        problems.append(f"--levels {args.levels} is not a choice; use train, test or both")
    if args.env is not None:
        try:
            game_name(args.env)
        except ValueError as error:
            problems.append(f"--env {args.env} {error}")
    if problems:
        raise UserError(problems)

    from rlcb.cpu.allocator import keep_freed_memory
    from rlcb.cpu.threads import apply_threads, choose_threads, prepare_threads

    keep_freed_memory()
    threads = choose_threads(numbers.get("num_threads")).number
    prepare_threads(threads)
    from rlcb.evaluation import evaluate

    apply_threads(threads)
    evaluate(
        Path(args.checkpoint) if args.checkpoint is not None else None,
        algorithm=args.algorithm,
        game=args.env,
        num_episodes=numbers["num_episodes"],
        levels=args.levels,
        deterministic=args.deterministic,
        seed=numbers["seed"],
        render=args.render,
        titled=door.titled,
    )
    return 0
