"""train an agent for a number of steps, for a time, or both, whichever comes first"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rlcb.cli.parser import NO_LIMIT, Door, Parser, parse, whole_numbers
from rlcb.cli.place import describes_its_own_run, moved, with_place
from rlcb.cluster.torchrun import settings_of_torchrun, under_torchrun
from rlcb.config import Config, Override, flag_name, leaves, load_config
from rlcb.config.describe import choices, default_text
from rlcb.errors import UserError

# Settings that may change when a run is resumed; all others are part of the experiment.
RESUMABLE = (
    "training.total_timesteps",
    "training.duration",
    "training.log_interval",
    "training.save_interval",
    "training.autosave_minutes",
    "parallel.num_workers",
    "parallel.num_envs_per_worker",
    "parallel.num_actors",
    "parallel.num_envs_per_actor",
    "parallel.num_learners",
    "parallel.max_restarts",
    "parallel.timeout",
    "cluster.nodes",
    "cluster.min_nodes",
    "cluster.master_addr",
    "cluster.master_port",
    "cluster.interface",
    "cluster.run_id",
    "hardware.num_threads",
    "hardware.micro_batch_size",
)
PER_WORKER = "parallel.num_envs_per_worker"


def add_flags(parser: Parser, door: Door) -> None:
    add_settings(parser, door, door.hidden)
    runs = parser.add_argument_group("run")
    runs.add_argument(
        "--resume",
        nargs="?",
        const=True,
        metavar="RUN",
        help="continue the run in this directory (or in --output-dir) exactly where its newest checkpoint is",
    )
    runs.add_argument("--overwrite", action="store_true", help="replace a run that is already in --output-dir")
    parser.set_defaults(node_rank=None)
    if "cluster" not in door.hidden:
        runs.add_argument(
            "--node-rank",
            metavar="N",
            help="number of this node on a cluster; 0 leads (default: the node whose address is --master-addr leads)",
        )


def add_settings(parser: Parser, door: Door, hidden: set[str]) -> None:
    """A flag for every setting, but for those in sections that are hidden."""
    usual = f" (default: {door.config_file})" if door.config_file else ""
    parser.add_argument("--config", default=door.config_file, metavar="FILE", help=f"YAML file of settings{usual}")
    groups: dict[str, Any] = {}
    for path, field in leaves():
        flag = flag_name(path)
        section = path.rpartition(".")[0] or "experiment"
        if flag is None or path in door.fixed or section in hidden:
            continue
        flags = [flag]
        if door.num_envs_per_worker and path == "env.num_envs":
            continue
        if door.num_envs_per_worker and path == PER_WORKER:
            flags.append("--num-envs")
        if section not in groups:
            groups[section] = parser.add_argument_group(section)
        timed = path == "training.duration" and door.duration
        text = f"{field.description} (default: {door.duration if timed else default_text(path, field)})"
        if field.annotation is bool:
            groups[section].add_argument(*flags, dest=path, action=argparse.BooleanOptionalAction, help=text)
        else:
            value = "|".join(choices(field)) or flag[2:].rpartition("-")[2].upper()
            groups[section].add_argument(*flags, dest=path, metavar=value, help=text)


def run(args: argparse.Namespace, door: Door) -> int:
    numbers, problems = whole_numbers(args, {"node_rank": (0, NO_LIMIT)})
    args.problems += problems
    config = _resumed_config(args, door) if args.resume else _new_config(args, door)
    node = numbers.get("node_rank")
    if node is not None and node >= config.num_nodes:
        raise UserError(f"--node-rank {node}: nodes are counted from 0, and there are {config.num_nodes}; use less")

    from rlcb.cpu.allocator import keep_freed_memory
    from rlcb.cpu.threads import prepare_threads, threads_of

    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # its warnings about host names say nothing to users
    keep_freed_memory()
    prepare_threads(threads_of(config).number)
    if config.mode != "sequential" and not under_torchrun():
        from rlcb.training import server

        server.start()  # it imports torch while we do
    from rlcb.training.train import train

    return train(config, resume=bool(args.resume), overwrite=args.overwrite, node=node)


def checked(words: list[str]) -> Config:
    """What a command line would train, or a UserError with all that is wrong with it, found without doing anything."""
    from rlcb.runs.rundir import RunDir

    parser = Parser(allow_abbrev=False)
    add_flags(parser, Door())
    args = parse(parser, words)
    if args.resume:
        return _resumed_config(args, Door())
    config = _new_config(args, Door())
    if not args.overwrite:
        RunDir.of(config).refuse_if_taken()
    return config


def overrides_of(args: argparse.Namespace) -> list[Override]:
    given = vars(args)
    overrides = []
    for path, _ in leaves():
        if given.get(path) is not None:
            value = None if given[path] == "null" else given[path]
            overrides.append(Override(path, value, str(flag_name(path))))
    return overrides


def _new_config(args: argparse.Namespace, door: Door) -> Config:
    from rlcb.cpu.machine import physical_cores
    from rlcb.runs.rundir import refuse_unwritable

    overrides = overrides_of(args)
    paths = {override.path for override in overrides}
    timed = door.duration and not paths & {"training.duration", "training.total_timesteps"}
    hours = door.duration if timed else None
    config, problems = None, list(args.problems)
    try:
        config = load_config(args.config, overrides, door.fixed, physical_cores(), hours)
        more, misfits = settings_of_torchrun(config.algo, config.mode, {one.path: one for one in overrides})
        problems += misfits
        if more:
            config = load_config(args.config, [*overrides, *more], door.fixed, hours=hours)
    except UserError as error:
        problems += error.problems
    if config is not None:
        repeats = not args.overwrite and describes_its_own_run(args.config, config)
        config = with_place(config, paths, door.runs_in, repeats)
        problems += refuse_unwritable(config)
    if problems or config is None:
        raise UserError(problems)
    return config


def _resumed_config(args: argparse.Namespace, door: Door) -> Config:
    """The run's own configuration, with a new budget if one is given; anything else would be another experiment."""
    overrides = [override for override in overrides_of(args) if not override.path.startswith("logging.")]
    place = args.resume if isinstance(args.resume, str) else vars(args)["logging.output_dir"]
    problems = list(args.problems)
    if args.overwrite:
        problems.append("--overwrite and --resume: one replaces the run, the other continues it; use one of them")
    if args.config != door.config_file:
        problems.append(f"--config {args.config}: a resumed run has a configuration of its own; leave it out")
    elsewhere = vars(args)["logging.output_dir"]
    if place and elsewhere and Path(place).resolve() != Path(elsewhere).resolve():
        problems.append(f"--output-dir {elsewhere}: a run is resumed where it is, {place}; leave it out")
    problems += [
        f"{flag_name(path)} {given_place}: a run is resumed where it is; leave it out"
        for path in ("logging.log_dir", "logging.checkpoint_dir")
        if (given_place := vars(args).get(path)) is not None
    ]
    if place is None:
        raise UserError([*problems, "--resume: which run? Name its directory: --resume benchmarks/my_run"])
    file = Path(place) / "config.yaml"
    if not file.is_file():
        raise UserError([*problems, f"--resume {place}: no run there (no config.yaml); name the directory of a run"])
    before = load_config(file, [], door.fixed)
    given = {override.path: override for override in overrides}
    more, misfits = settings_of_torchrun(before.algo, before.mode, given)
    overrides += more
    problems += misfits
    given |= {override.path: override for override in more}
    one = "actor" if before.algo == "impala" else "worker"
    dividing = {"env.num_envs", f"parallel.num_envs_per_{one}"}
    if f"parallel.num_{one}s" in given and not dividing & set(given) and before.crew is not None:
        # Other processes, the same environments: divided anew.
        overrides.append(Override("env.num_envs", before.num_envs, "--num-envs"))
    try:
        config = load_config(file, overrides, door.fixed)
    except UserError as error:
        raise UserError(problems + error.problems) from error
    for override in overrides:
        if override.path not in RESUMABLE and _value(config, override.path) != _value(before, override.path):
            problems.append(
                f"{override.spelling} {override.value}: the run has {_value(before, override.path)}, and a resumed run "
                "stays the same experiment; leave it out, or start a new run"
            )
    if config.num_envs != before.num_envs and "env.num_envs" not in given:
        problems.append(
            f"{config.num_envs} environments in all: the run has {before.num_envs}, and a resumed run stays the same "
            f"experiment; leave out --num-envs-per-{one}, and --num-{one}s divides them"
        )
    if problems:
        raise UserError(problems)
    return moved(config, place)


def _value(config: Config, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = getattr(value, part)
    return value
