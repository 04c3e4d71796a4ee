"""Where a run is written: what flags, files of settings and a directory that was moved say about it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rlcb.cluster.torchrun import under_torchrun
from rlcb.config import Config
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
    """Files of settings share a log_dir, in which only algorithm and mode have names: `logs/PPO_Sequential`. It belongs
    to the run of that name, `checkpoints/ppo_sequential`; `checkpoints/ppo_sequential_ryzen7` gets a folder in it."""
    places, root = config.logging, RunDir.of(config).root
    if places.output_dir or not places.log_dir or root.name == config.run_name:
        return config
    return _placed(config, log_dir=f"{places.log_dir}/{root.name}")


def moved(config: Config, place: str) -> Config:
    """A run whose directory was renamed or copied, or that is named from another directory, is resumed where it is."""
    here, before = Path(place).resolve(), RunDir.of(config).root
    if before.resolve() == here:
        return config
    if config.logging.output_dir is not None:
        return _placed(config, output_dir=str(place))
    log_dir = config.logging.log_dir
    if log_dir and here.parts[-len(before.parts) :] == before.parts:  # its relative paths began here
        log_dir = str(Path(*here.parts[: -len(before.parts)]) / log_dir)
    return _placed(config, checkpoint_dir=str(here), log_dir=log_dir)


def _placed(config: Config, **places: str | None) -> Config:
    return config.model_copy(update={"logging": config.logging.model_copy(update=places)})
