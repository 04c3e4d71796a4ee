"""What all commands share: doors, and a parser whose complaints are one line each."""

from __future__ import annotations

import argparse
import difflib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from rlcb.errors import UserError


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
    args, unknown = parser.parse_known_args(words)
    problems = []
    value_follows = False  # the word after an unknown flag is its value, not another mistake
    for word in unknown:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            close = difflib.get_close_matches(flag, _all_flags(parser), n=1, cutoff=0.6)
            problems.append(f"{flag}: unknown flag; " + (f"did you mean {close[0]}?" if close else "see --help"))
        elif not value_follows:
            problems.append(f"{word}: not expected here; see {parser.prog} --help")
        value_follows = word.startswith("-") and "=" not in word
    args.problems = problems
    return args


def _all_flags(parser: argparse.ArgumentParser) -> list[str]:
    flags: list[str] = []
    for action in parser._actions:
        flags += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                flags += _all_flags(sub)
    return flags
