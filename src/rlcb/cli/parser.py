"""What all commands share: doors, and a parser whose complaints are one line each."""

from __future__ import annotations

import argparse
import difflib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from rlcb.errors import UserError

NO_LIMIT = 2**31 - 1  # none that anybody would come to


@dataclass(frozen=True)
class Door:
    """A script at the project's root: the command it runs, and what it settles so that no flag can change it."""

    command: str | None = None
    fixed: dict[str, str] = field(default_factory=dict)  # settings, such as algo and mode
    config: str | None = None  # configuration file that it loads unless told otherwise
    duration: float | None = None  # hours that it trains unless told otherwise
    runs_in: str | None = None  # folder of the runs that are given no place of their own
    num_envs_per_worker: bool = False  # whether `--num-envs` counts those of one worker instead of all
    titled: bool = True  # whether the title of an evaluation names the algorithm

    @property
    def hidden(self) -> set[str]:
        """Sections whose settings mean nothing here."""
        unused = {"sequential": {"parallel", "cluster"}, "parallel": {"cluster"}}
        return unused.get(self.fixed.get("mode", ""), set())

    @property
    def config_file(self) -> str | None:
        """Beside the script, wherever that is called from."""
        return None if self.config is None else str(Path(sys.argv[0]).parent / self.config)


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage: a mistake is one line, like every other."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help")


def parse(parser: Parser, words: list[str]) -> argparse.Namespace:
    """What comes after `--` is for another command: `args.after`."""
    end = words.index("--") if "--" in words else len(words)
    args, unknown = parser.parse_known_args(words[:end])
    args.after = words[end + 1 :]
    problems = []
    if args.after and not getattr(args, "passes_on", False):
        problems.append(f"-- {' '.join(args.after)}: no other command gets this; leave out the --")
    value_follows = False  # the word after an unknown flag is its value, not another mistake
    for word in unknown:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            problems.append(f"{flag}: unknown flag; {_remedy(flag, parser, args)}")
        elif not value_follows:
            problems.append(f"{word}: not expected here; see {parser.prog} --help")
        value_follows = word.startswith("-") and "=" not in word
    args.problems = problems
    return args


def _remedy(flag: str, parser: Parser, args: argparse.Namespace) -> str:
    if flag in _flags(parser):
        return "another command has it; see --help"
    known = _flags(parser, getattr(args, "command", None))
    close = [one for one in known if flag.startswith(f"{one}-")]  # --env-name
    close += difflib.get_close_matches(flag, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else "see --help"


def whole_numbers(args: argparse.Namespace, limits: dict[str, tuple[int, int]]) -> tuple[dict[str, int], list[str]]:
    """Of the flags named, those that were given, and a complaint about each that is not between its limits."""
    numbers, problems = {}, []
    for name, (least, most) in limits.items():
        text = getattr(args, name)
        if text is None:
            continue
        if text.isdecimal() and least <= int(text) <= most:
            numbers[name] = int(text)
        else:
            flag = "--" + name.replace("_", "-")
            limit = f"from {least} on" if most >= NO_LIMIT else f"from {least} to {most}"
            example = min(max(least, 100), most)
            problems.append(f"{flag} {text} is not a whole number {limit}; for example {flag} {example}")
    return numbers, problems


def _flags(parser: argparse.ArgumentParser, command: str | None = None) -> list[str]:
    """Its own and those of its commands, or of one."""
    flags: list[str] = []
    for action in parser._actions:
        flags += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                flags += _flags(sub) if command in (None, name) else []
    return flags
