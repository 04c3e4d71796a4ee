"""Where a run is written: what flags, files of settings and a directory that was moved say about it."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from rlcb.cluster.torchrun import under_torchrun
from rlcb.config import Config, load_config
from rlcb.errors import UserError
from rlcb.games import game_name
from rlcb.runs.rundir import RunDir


def describes_its_own_run(file: str | None, config: Config) -> bool:
    """Is this the config.yaml of a run, in the directory of that run?"""
    return file is not None and RunDir.of(config).config_file.resolve() == Path(file).resolve()


def with_place(config: Config, given: set[str], runs_in: str | None, repeats: bool) -> Config:
    """`--output-dir` takes checkpoints and logs along. Timed doors, runs without a place, and a run that `repeats` the
    one its configuration comes from, get a new folder."""
    places = config.logging
    placed_by_file = (places.output_dir or places.checkpoint_dir) and not repeats
    if "logging.output_dir" in given:
        output = places.output_dir
    elif "logging.checkpoint_dir" in given:
        return config
    elif placed_by_file and not runs_in:
        return config if "logging.log_dir" in given else _with_logs_of_its_own(config)
    else:
        name = f"{config.run_name}_{game_name(config.env.name)}_seed{config.env.seed}"
        if config.num_nodes == 1 and not under_torchrun():  # several processes must come to the same name
            name += f"_{datetime.now():%Y%m%d-%H%M%S}"
        output = f"./{runs_in or 'runs'}/{name}"
    elsewhere = {name: None for name in ("checkpoint_dir", "log_dir") if f"logging.{name}" not in given}
    return _placed(config, output_dir=output, **elsewhere)


def _with_logs_of_its_own(config: Config) -> Config:
    """Files of settings share a log_dir, in which only algorithm and mode have names: `logs/PPO_Sequential`. A run that
    finds another's there gets a folder: `logs/ppo_sequential_ryzen7/PPO_Sequential`."""
    places, run = config.logging, RunDir.of(config)
    several = config.num_nodes > 1 or under_torchrun()  # they must come to the same place
    if places.output_dir or not places.log_dir or several:
        return config
    if run.config_file.is_file():  # to be replaced, if at all, with its logs
        with suppress(UserError):
            return _placed(config, log_dir=load_config(run.config_file, []).logging.log_dir)
        return config
    if not run.metrics_file.exists():
        return config
    own = f"{places.log_dir}/{run.root.name}"
    print(f"Note: {run.logs} holds the logs of another run; those of this one are in {own}", file=sys.stderr)
    return _placed(config, log_dir=own)


def moved(config: Config, place: str) -> Config:
    """A run whose directory was renamed or copied, or that is named from another directory, is resumed where it is."""
    here, before = Path(place).resolve(), RunDir.of(config).root
    if before.resolve() == here:
        return config
    log_dir = config.logging.log_dir
    if config.logging.output_dir is not None:
        return _placed(config, output_dir=str(place))
    if log_dir and here.parts[-len(before.parts) :] == before.parts:  # its relative paths began here
        log_dir = str(Path(*here.parts[: -len(before.parts)]) / log_dir)
    elif log_dir and (before / "config.yaml").is_file():
        raise UserError(
            f"--resume {place}: a copy of {before}, whose logs it would write into ({log_dir}); resume that"
        )
    return _placed(config, checkpoint_dir=str(here), log_dir=log_dir)


def _placed(config: Config, **places: str | None) -> Config:
    return config.model_copy(update={"logging": config.logging.model_copy(update=places)})
