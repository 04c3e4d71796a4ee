"""A trained agent: found by its checkpoint, loaded, and asked for actions."""

from __future__ import annotations

import fnmatch
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlcb.config import Config
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE
from rlcb.envs.randomness import EVALUATION, EnvRandomness
from rlcb.errors import UserError
from rlcb.policy import Policy
from rlcb.runs.checkpoint import DamagedCheckpoint, load_checkpoint, most_trained, run_name

RUN_FOLDERS = ("runs", "benchmarks", "checkpoints")
_NOISE_STEPS = 64  # steps of noise drawn at a time


class Agent(NamedTuple):
    """What a checkpoint says about itself, and its network."""

    file: Path
    config: Config
    policy: Policy
    timesteps: int  # that it was trained for


class Player:
    """Chooses actions in several environments. What is sampled depends on seed, environment and step alone."""

    def __init__(self, policy: Policy, n_envs: int, deterministic: bool, seed: int) -> None:
        self._policy, self._n_envs, self._deterministic = policy, n_envs, deterministic
        self._randomness = EnvRandomness(seed, range(n_envs), EVALUATION)
        self._noise = torch.zeros(_NOISE_STEPS, n_envs, N_ACTIONS)
        self._step = 0

    def actions(self, obs: NDArray[np.uint8], playing: NDArray[np.bool_]) -> NDArray[np.int64]:
        """[B]; the network rests for environments that are through."""
        if not self._deterministic and self._step % _NOISE_STEPS == 0:
            self._noise = self._randomness.gumbel(self._step, _NOISE_STEPS, N_ACTIONS)
        actions = np.zeros(self._n_envs, np.int64)
        noise = self._noise[self._step % _NOISE_STEPS, playing]
        actions[playing] = self._policy.act(torch.from_numpy(obs[playing]), noise)[0].numpy()
        self._step += 1
        return actions


def load_agent(file: Path) -> Agent:
    try:
        content = load_checkpoint(file)
    except DamagedCheckpoint as damage:
        raise UserError(f"checkpoint {damage}; use another checkpoint") from damage
    config = Config.model_validate(content["config"])
    policy = Policy(config.model.arch, OBS_SHAPE, N_ACTIONS)
    policy.load_state_dict(content["execution"]["model"])
    return Agent(file, config, policy, content["progress"]["timesteps"])


def newest_file(algorithm: str | None) -> Path:
    """Of the algorithm, or of any, in the folders where runs are."""
    name = f"{algorithm.lower()}_*.pt" if algorithm else "*.pt"
    files = checkpoints_below(*map(Path, RUN_FOLDERS), name=name)
    if not files:
        raise UserError(f"--checkpoint: no {name} in {', '.join(RUN_FOLDERS)}; train first, or name a checkpoint")
    return _most_trained(files)


def checkpoints_below(*places: Path, name: str = "*.pt") -> list[Path]:
    """Newest first. Hidden folders and Python's environments, which hold other files of this name, are left out."""
    found: list[tuple[float, Path]] = []
    for place in places:
        for folder, below, files in os.walk(place):
            below[:] = [one for one in below if one[0] != "." and not Path(folder, one, "pyvenv.cfg").exists()]
            for file in (Path(folder, one) for one in fnmatch.filter(files, name)):
                with suppress(FileNotFoundError):  # gone by now, or a link to nowhere
                    found.append((file.stat().st_mtime, file))
    return [file for _, file in sorted(found, reverse=True)]


def _most_trained(files: list[Path]) -> Path:
    """Of the run that was written to last."""
    newest = files[0]
    of_this_run = [file for file in files if file.parent == newest.parent and run_name(file) == run_name(newest)]
    found = most_trained(of_this_run, lambda damage: print(f"Warning: checkpoint {damage}", file=sys.stderr))
    return found[0] if found else newest


def find_checkpoint(path: Path) -> Path:
    """The checkpoint file; for the directory of a run, the one that was trained longest."""
    if path.is_file():
        return path
    if path.is_dir():
        files = checkpoints_below(path)
        if files:
            return _most_trained(files)
        raise UserError(f"checkpoint {path}: no checkpoint in this directory; train first, or name another")
    near = path.parent
    while not near.is_dir() and near != near.parent:
        near = near.parent
    too_wide = near.resolve() in (Path("/"), Path.home())  # looking through all of it would take minutes
    found = [] if too_wide else checkpoints_below(near)[:8]
    listing = f"there are {', '.join(map(str, found))}" if found else f"none in {near}/ either; train first"
    raise UserError(f"checkpoint {path}: no such file; {listing}")
