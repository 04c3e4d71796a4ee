"""The command line: `rlcb train`, `rlcb evaluate`, `rlcb check`. No torch until a command is sure to need it."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from rlcb import __version__
from rlcb.config import Config, Override, flag_name, leaves, load_config, read_yaml
from rlcb.errors import TrainingFailed, UserError
from rlcb.games import game_name

# Settings that may change when a run is resumed; all others are part of the experiment.
RESUMABLE = (
    "training.total_timesteps training.duration training.log_interval training.save_interval "
    "training.autosave_minutes hardware.num_threads hardware.micro_batch_size"
).split()


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage: a mistake is one line, like every other."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")


def main(
    argv: Sequence[str] | None = None,
    *,
    command: str | None = None,
    fixed: dict[str, str] | None = None,
    config: str | None = None,
    duration: float | None = None,
    runs_in: str = "runs",
    titled: bool = True,
) -> NoReturn:
    """Run one command and exit. The doors at the project's root give `command` and what they fix.

    `config` is a default configuration file, `duration` a default budget in hours, `runs_in` the folder of runs that
    were given no place of their own, `titled` whether an evaluation's title names the algorithm.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = _parser(command, fixed or {}, config, duration)
        args = _parse(parser, words)
        commands = {"train": _train, "evaluate": _evaluate, "check": _check}
        code = commands[command or args.command](args, fixed=fixed or {}, runs_in=runs_in, titled=titled)
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
    sys.exit(code)


def _parser(command: str | None, fixed: dict[str, str], config: str | None, duration: float | None) -> Parser:
    formatter = argparse.ArgumentDefaultsHelpFormatter
    if command is not None:
        parser = Parser(formatter_class=formatter, allow_abbrev=False)
        _ADD_FLAGS[command](parser, fixed, config, duration)
        return parser
    parser = Parser(prog="rlcb", description="Reinforcement learning on CPUs, measured honestly.")
    parser.add_argument("--version", action="version", version=f"rlcb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, description in _COMMANDS.items():
        sub = commands.add_parser(name, help=description, description=description, allow_abbrev=False)
        _ADD_FLAGS[name](sub, fixed, config, duration)
    return parser


_COMMANDS = {
    "train": "train an agent for a number of steps, for a time, or both, whichever comes first",
    "evaluate": "play whole episodes with a trained agent, on training levels and on unseen ones",
    "check": "see whether everything that training needs is installed and works",
}


def _train_flags(parser: Parser, fixed: dict[str, str], config: str | None, duration: float | None) -> None:
    parser.add_argument("--config", default=config, metavar="FILE", help="YAML file of settings (default: %(default)s)")
    groups: dict[str, Any] = {}
    for path, field in leaves():
        flag = flag_name(path)
        section = path.rpartition(".")[0] or "experiment"
        if flag is None or path in fixed or section in ("parallel", "cluster"):
            continue
        group = groups.setdefault(section, parser.add_argument_group(section) if section not in groups else None)
        text = f"{field.description}"
        if path == "training.duration" and duration is not None:
            text += f" (default: {duration:g})"
        if field.annotation is bool:
            group.add_argument(flag, dest=path, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            group.add_argument(flag, dest=path, default=None, metavar=flag[2:].rpartition("-")[2].upper(), help=text)
    runs = parser.add_argument_group("run")
    runs.add_argument(
        "--resume",
        nargs="?",
        const=True,
        metavar="RUN",
        help="continue the run in this directory (or in --output-dir) exactly where its newest checkpoint is",
    )
    runs.add_argument("--overwrite", action="store_true", help="replace a run that is already in --output-dir")
    parser.set_defaults(default_duration=duration)


def _evaluate_flags(parser: Parser, fixed: dict[str, str], config: str | None, duration: float | None) -> None:
    parser.add_argument("--checkpoint", required=True, metavar="FILE", help="checkpoint file, or directory of a run")
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
    parser.add_argument("--render", action="store_true", help="write a video of the first episodes beside the checkpoint")
    parser.add_argument("--num-threads", default=None, metavar="N", help="threads of torch")


def _check_flags(parser: Parser, fixed: dict[str, str], config: str | None, duration: float | None) -> None:
    parser.add_argument("--seconds", default="10", metavar="N", help="seconds of trial training (default: 10)")


_ADD_FLAGS = {"train": _train_flags, "evaluate": _evaluate_flags, "check": _check_flags}


def _parse(parser: Parser, words: list[str]) -> argparse.Namespace:
    args, unknown = parser.parse_known_args(words)
    problems = []
    for word in unknown:
        if not word.startswith("-"):
            problems.append(f"{word}: not expected here; see {parser.prog} --help")
            continue
        flag = word.partition("=")[0]
        close = difflib.get_close_matches(flag, _all_flags(parser), n=1, cutoff=0.6)
        problems.append(f"{flag}: unknown flag; " + (f"did you mean {close[0]}?" if close else "see --help"))
    args.problems = problems
    return args


def _all_flags(parser: argparse.ArgumentParser) -> list[str]:
    flags = []
    for action in parser._actions:
        flags += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                flags += _all_flags(sub)
    return flags


def _train(args: argparse.Namespace, *, fixed: dict[str, str], runs_in: str, titled: bool) -> int:
    config = _resumed_config(args, fixed) if args.resume else _new_config(args, fixed, runs_in)

    from rlcb.cpu.allocator import keep_freed_memory
    from rlcb.cpu.threads import choose_threads, prepare_threads

    keep_freed_memory()
    prepare_threads(choose_threads(config.hardware.num_threads).count)
    from rlcb.training.train import train

    return train(config, resume=bool(args.resume), overwrite=args.overwrite)


def _overrides(args: argparse.Namespace) -> list[Override]:
    given = vars(args)
    overrides = []
    for path, _ in leaves():
        if given.get(path) is not None:
            value = None if given[path] == "null" else given[path]
            overrides.append(Override(path, value, str(flag_name(path))))
    return overrides


def _new_config(args: argparse.Namespace, fixed: dict[str, str], runs_in: str) -> Config:
    from rlcb.runs.rundir import RunDir, refuse_unwritable

    overrides = _overrides(args)
    paths = {override.path for override in overrides}
    if args.default_duration and not paths & {"training.duration", "training.total_timesteps"}:
        overrides.append(Override("training.duration", args.default_duration, "--duration"))
    config, problems = None, list(args.problems)
    if args.overwrite and args.resume:
        problems.append("--overwrite and --resume: one replaces the run, the other continues it; use one of them")
    try:
        config = load_config(args.config, overrides, fixed)
    except UserError as error:
        problems += error.problems
    if config is not None:
        config = _with_place(config, paths, runs_in)
        problems += refuse_unwritable(config)
        if not problems and not args.overwrite:
            RunDir.of(config).refuse_if_taken()
    if problems or config is None:
        raise UserError(problems)
    return config


def _with_place(config: Config, given: set[str], runs_in: str) -> Config:
    """A run that was given no place gets one of its own; `--output-dir` moves checkpoints and logs with it."""
    places = config.logging
    if "logging.output_dir" in given:
        elsewhere = {name: None for name in ("checkpoint_dir", "log_dir") if f"logging.{name}" not in given}
        places = places.model_copy(update=elsewhere)
    elif not (places.output_dir or places.checkpoint_dir) or (runs_in != "runs" and "logging.checkpoint_dir" not in given):
        name = f"{config.run_name}_{game_name(config.env.name)}_seed{config.env.seed}_{datetime.now():%Y%m%d-%H%M%S}"
        elsewhere = {name: None for name in ("checkpoint_dir", "log_dir") if f"logging.{name}" not in given}
        places = places.model_copy(update={"output_dir": f"./{runs_in}/{name}", **elsewhere})
    return config.model_copy(update={"logging": places})


def _resumed_config(args: argparse.Namespace, fixed: dict[str, str]) -> Config:
    """The run's own configuration, with a new budget if one is given; anything else would be another experiment."""
    overrides = [override for override in _overrides(args) if not override.path.startswith("logging.")]
    place = args.resume if isinstance(args.resume, str) else vars(args)["logging.output_dir"]
    problems = list(args.problems)
    if args.overwrite:
        problems.append("--overwrite and --resume: one replaces the run, the other continues it; use one of them")
    if place is None:
        raise UserError([*problems, "--resume: which run? Name its directory: --resume benchmarks/my_run"])
    file = Path(place) / "config.yaml"
    if not file.is_file():
        raise UserError([*problems, f"--resume {place}: no run there (no config.yaml); name the directory of a run"])
    before = load_config(file, [], fixed)
    try:
        config = load_config(file, overrides, fixed)
    except UserError as error:
        raise UserError(problems + error.problems) from error
    for override in overrides:
        if override.path not in RESUMABLE and _value(config, override.path) != _value(before, override.path):
            problems.append(
                f"{override.spelling} {override.value}: the run has {_value(before, override.path)}, and a resumed run "
                "stays the same experiment; leave it out, or start a new run"
            )
    if problems:
        raise UserError(problems)
    return _moved(config, place)


def _moved(config: Config, place: str) -> Config:
    """A run whose directory was renamed or copied is resumed where it is now."""
    if config.logging.output_dir is None or Path(config.logging.output_dir).resolve() == Path(place).resolve():
        return config
    return config.model_copy(update={"logging": config.logging.model_copy(update={"output_dir": str(place)})})


def _value(config: Config, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _evaluate(args: argparse.Namespace, *, fixed: dict[str, str], runs_in: str, titled: bool) -> int:
    problems = list(args.problems)
    numbers = {}
    for name, least in (("num_episodes", 1), ("seed", 0), ("num_threads", 1)):
        text = getattr(args, name)
        if text is None:
            continue
        if text.isdecimal() and least <= int(text) < 2**31:
            numbers[name] = int(text)
        else:
            flag = "--" + name.replace("_", "-")
            problems.append(f"{flag} {text} is not a whole number from {least} on; for example {flag} {max(least, 100)}")
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
    threads = choose_threads(numbers.get("num_threads")).count
    prepare_threads(threads)
    from rlcb.evaluation import evaluate

    apply_threads(threads)
    evaluate(
        Path(args.checkpoint),
        algorithm=args.algorithm,
        game=args.env,
        num_episodes=numbers["num_episodes"],
        levels=args.levels,
        deterministic=args.deterministic,
        seed=numbers["seed"],
        render=args.render,
        titled=titled,
    )
    return 0


def _check(args: argparse.Namespace, *, fixed: dict[str, str], runs_in: str, titled: bool) -> int:
    if args.problems:
        raise UserError(args.problems)
    try:
        seconds = float(args.seconds)
    except ValueError:
        raise UserError(f"--seconds {args.seconds} is not a number; for example --seconds 10") from None
    from rlcb.check import check

    return check(seconds)


__all__ = ["main", "read_yaml"]
