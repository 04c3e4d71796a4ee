"""The command line, `rlcb train` and its siblings. No torch until a command is sure to need it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

from rlcb import __version__
from rlcb.cli import check, compare, evaluate, launch, plot, report, scale, suite, train, video
from rlcb.cli.parser import Door, Parser, parse
from rlcb.errors import TrainingFailed, UserError


class Command(Protocol):
    """A module of this package: its docstring is the command's help."""

    __doc__: str | None

    def add_flags(self, parser: Parser, door: Door) -> None: ...

    def run(self, args: argparse.Namespace, door: Door) -> int: ...


COMMANDS: dict[str, Command] = {
    "train": train,
    "evaluate": evaluate,
    "video": video,
    "suite": suite,
    "compare": compare,
    "plot": plot,
    "report": report,
    "launch": launch,
    "scale": scale,
    "check": check,
}

__all__ = ["Door", "main"]


def main(door: Door | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit. A door is a script at the project's root and what it fixes."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(door or Door(), words)
    except UserError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        code = 2
    except TrainingFailed as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except BrokenPipeError:
        # The reader of our output is gone (`| head`): there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        # The disk is full, or the directory went away: what was saved before is whole.
        print(f"error: {error.filename or 'writing'}: {error.strerror or error}", file=sys.stderr)
        code = 1
    sys.exit(code)


def _run(door: Door, words: list[str]) -> int:
    if door.command is not None:
        command = COMMANDS[door.command]
        parser = Parser(description=command.__doc__, allow_abbrev=False)
        command.add_flags(parser, door)
        return command.run(parse(parser, words), door)
    parser = Parser(prog="rlcb", description="Reinforcement learning on CPUs, measured honestly.")
    parser.add_argument("--version", action="version", version=f"rlcb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.__doc__, description=command.__doc__, allow_abbrev=False)
        command.add_flags(sub, door)
    args = parse(parser, words)
    return COMMANDS[args.command].run(args, door)
