"""Plays whole episodes with a trained agent, on levels it knows and on levels it never saw."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from rlcb.config import Config
from rlcb.config.tree import ALGORITHM_LABELS
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, ProcgenVectorEnv
from rlcb.envs.randomness import EVALUATION, EnvRandomness
from rlcb.errors import UserError
from rlcb.games import game_id
from rlcb.policy import Policy
from rlcb.runs.checkpoint import DamagedCheckpoint, load_checkpoint
from rlcb.runs.files import write_json
from rlcb.video import Recorder

MAX_ENVS = 100
RUN_FOLDERS = ("runs", "benchmarks", "checkpoints")
RULE = "=" * 60
_NOISE_STEPS = 64  # steps of noise drawn at a time


@dataclass(frozen=True)
class Levels:
    """A set of levels: `count` from `start` on, or all of them."""

    name: str
    start: int
    count: int  # 0 for all

    def __str__(self) -> str:
        return f"{self.name} ({'all levels' if self.count == 0 else self._range()})"

    def _range(self) -> str:
        last = self.start + self.count - 1
        return f"levels from {self.start} on" if last >= 2**31 - 2 else f"levels {self.start} to {last}"


@dataclass(frozen=True)
class Result:
    levels: Levels
    rewards: NDArray[np.float64]
    lengths: NDArray[np.float64]

    def numbers(self) -> dict[str, Any]:
        return {
            "levels": str(self.levels),
            "episodes": len(self.rewards),
            "mean_reward": float(self.rewards.mean()),
            "std_reward": float(self.rewards.std()),
            "min_reward": float(self.rewards.min()),
            "max_reward": float(self.rewards.max()),
            "mean_length": float(self.lengths.mean()),
            "std_length": float(self.lengths.std()),
            "rewards": self.rewards.tolist(),
            "lengths": self.lengths.tolist(),
        }

    def block(self, title: str) -> str:
        rewards, lengths = self.rewards, self.lengths
        return "\n".join(
            [
                RULE,
                title,
                RULE,
                f"Levels: {self.levels}",
                f"Episodes: {len(rewards)}",
                f"Mean Reward: {rewards.mean():.2f} ± {rewards.std():.2f}",
                f"Min/Max Reward: {rewards.min():.2f} / {rewards.max():.2f}",
                f"Mean Episode Length: {lengths.mean():.2f} ± {lengths.std():.2f}",
                RULE,
            ]
        )


def evaluate(
    checkpoint: Path | None,
    *,
    algorithm: str | None,
    game: str | None,
    num_episodes: int,
    levels: str,
    deterministic: bool,
    seed: int,
    render: bool = False,
    titled: bool = True,
) -> list[Result]:
    """Play, print, and write evaluation.json beside the checkpoint. Network and levels come from the checkpoint.

    Without a checkpoint it is the newest (of the algorithm) in the folders where runs are.
    """
    file = _newest(algorithm) if checkpoint is None else _find(checkpoint)
    content = _load(file)
    config = Config.model_validate(content["config"])
    label = ALGORITHM_LABELS[config.algo]
    if algorithm is not None and algorithm.lower() != config.algo:
        raise UserError(f"--algorithm {algorithm}: {file.name} was trained with {label}; leave the flag out")
    env = config.env if game is None else config.env.model_copy(update={"name": game_id(game)})
    chosen = _levels(config, levels)
    policy = Policy(config.model.arch, OBS_SHAPE, N_ACTIONS)
    policy.load_state_dict(content["execution"]["model"])
    _print_header(label if titled else None, env.name, file)
    if env.name != config.env.name:
        print(f"Warning: trained on {config.env.name}, evaluated on {env.name}\n")
    results = []
    for part in chosen:
        video = file.with_name(f"{file.stem}_{part.name}.gif") if render else None
        envs = ProcgenVectorEnv(
            env.name,
            min(num_episodes, MAX_ENVS),
            seed=seed,
            distribution_mode=env.distribution_mode,
            num_levels=part.count,
            start_level=part.start,
            render_mode="rgb_array" if render else None,
        )
        with closing(envs), Recorder(video) as recorder:
            result = play(envs, policy, part, num_episodes, deterministic, seed, recorder)
        print("\n" + result.block(f"{label} Evaluation Results" if titled else "Evaluation Results"))
        if video is not None:
            print(f"Video: {video}")
        results.append(result)
    if len(results) == 2:
        gap = results[0].rewards.mean() - results[1].rewards.mean()
        print(f"Generalisation gap (train - test): {gap:.2f}")
    written = _write(file, env.name, deterministic, seed, results)
    print(f"Results saved to: {written}")
    return results


def play(
    envs: ProcgenVectorEnv,
    policy: Policy,
    levels: Levels,
    num_episodes: int,
    deterministic: bool,
    seed: int,
    recorder: Recorder,
) -> Result:
    """Every environment plays a share of the episodes that is fixed beforehand: as many from each (or one more, where
    they do not divide). Taking the first to finish instead would favour short episodes."""
    n_envs = envs.num_envs
    left = np.full(n_envs, num_episodes // n_envs)
    left[: num_episodes % n_envs] += 1
    randomness = EnvRandomness(seed, range(n_envs), EVALUATION)
    noise = torch.zeros(_NOISE_STEPS, n_envs, N_ACTIONS)
    rewards: list[list[float]] = [[] for _ in range(n_envs)]
    lengths: list[list[int]] = [[] for _ in range(n_envs)]
    obs, _ = envs.reset()
    step = 0
    with tqdm(total=num_episodes, desc="Evaluating", file=sys.stdout, mininterval=0.5) as bar:
        while left.any():
            if not deterministic and step % _NOISE_STEPS == 0:
                noise = randomness.gumbel(step, _NOISE_STEPS, N_ACTIONS)
            playing = np.flatnonzero(left)  # the network rests for environments that are through
            actions = np.zeros(n_envs, np.int64)
            chosen = policy.act(torch.from_numpy(obs[playing]), noise[step % _NOISE_STEPS, playing])[0]
            actions[playing] = chosen.numpy()
            obs, _, dones, _, infos = envs.step(actions)
            recorder.add(envs, playing)
            for env in np.flatnonzero(dones & (left > 0)):
                rewards[env].append(float(infos["episode"]["r"][env]))
                lengths[env].append(int(infos["episode"]["l"][env]))
                left[env] -= 1
                bar.update()
            step += 1
    return Result(levels, np.concatenate(rewards), np.concatenate(lengths).astype(np.float64))


def _levels(config: Config, wanted: str) -> list[Levels]:
    env = config.env
    train = Levels("train", env.start_level, env.num_levels)
    if wanted == "train":
        return [train]
    if env.num_levels == 0:
        raise UserError(f"--levels {wanted}: the agent was trained on all levels, none is unseen; use --levels train")
    first = env.start_level + env.num_levels
    test = Levels("test", first, 2**31 - 1 - first)
    return [train, test] if wanted == "both" else [test]


def _newest(algorithm: str | None) -> Path:
    name = f"{algorithm.lower()}_*.pt" if algorithm else "*.pt"
    files = [file for folder in RUN_FOLDERS for file in Path(folder).rglob(name)]
    if not files:
        raise UserError(f"--checkpoint: no {name} in {', '.join(RUN_FOLDERS)}; train first, or name a checkpoint")
    return max(files, key=lambda file: file.stat().st_mtime)


def _find(path: Path) -> Path:
    """The checkpoint file; for the directory of a run, its newest."""
    if path.is_file():
        return path
    if path.is_dir():
        files = sorted(path.rglob("*.pt"), key=lambda file: file.stat().st_mtime)
        if files:
            return files[-1]
        raise UserError(f"--checkpoint {path}: no checkpoint in this directory; train first, or name another")
    near = path.parent
    while not near.is_dir() and near != near.parent:
        near = near.parent
    too_wide = near.resolve() in (Path("/"), Path.home())  # looking through all of it would take minutes
    found = [] if too_wide else sorted(near.rglob("*.pt"))[:8]
    listing = f"there are {', '.join(map(str, found))}" if found else f"none in {near}/ either; train first"
    raise UserError(f"--checkpoint {path}: no such file; {listing}")


def _load(file: Path) -> dict[str, Any]:
    try:
        return load_checkpoint(file)
    except DamagedCheckpoint as damage:
        raise UserError(f"--checkpoint {damage}; use another checkpoint") from damage


def _print_header(label: str | None, env: str, file: Path) -> None:
    height, width, channels = OBS_SHAPE
    if label is not None:
        print("\n".join([RULE, f"Evaluating {label} Agent", RULE]))
    print(f"Environment: {env}\nObservation shape: {(channels, height, width)}\nNumber of actions: {N_ACTIONS}")
    print(f"Device: cpu\nCheckpoint: {file}")
    if label is not None:
        print(f"Algorithm: {label}\n{'-' * 60}\n✓ Loaded checkpoint from: {file}\n")
    else:
        print(f"\nLoaded checkpoint from: {file}\n")


def _write(file: Path, env: str, deterministic: bool, seed: int, results: list[Result]) -> Path:
    """One entry per checkpoint and game; an evaluation of the same levels replaces the earlier one."""
    path = file.with_name("evaluation.json")
    try:
        everything = json.loads(path.read_text())
    except (OSError, ValueError):
        everything = {}
    games = everything.setdefault(file.name, {}).setdefault(env, {})
    for result in results:
        games[result.levels.name] = {"deterministic": deterministic, "seed": seed, **result.numbers()}
    write_json(path, everything)
    return path
