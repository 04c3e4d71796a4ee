"""Plays whole episodes with a trained agent, on levels it knows and on levels it never saw."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from errno import EACCES, EPERM, EROFS
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from rlcb.agent import Player, find_checkpoint, load_agent, newest_file
from rlcb.config.tree import ALGORITHM_LABELS, EnvSettings
from rlcb.envs.levels import Levels, training_levels, unseen_levels
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, ProcgenVectorEnv, make_envs
from rlcb.errors import UserError
from rlcb.games import game_id, missing_difficulty
from rlcb.runs.evaluations import log_evaluation, log_folder
from rlcb.runs.files import write_json
from rlcb.video.show import Show
from rlcb.video.window import Window
from rlcb.video.writers import VideoFile

MAX_ENVS = 100
TILES = 4  # environments that are shown
VIDEO_FPS, WINDOW_FPS = 15, 30
RULE = "=" * 60


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
    agent = load_agent(newest_file(algorithm) if checkpoint is None else find_checkpoint(checkpoint))
    file, config = agent.file, agent.config
    label = ALGORITHM_LABELS[config.algo]
    if algorithm is not None and algorithm.lower() != config.algo:
        raise UserError(f"--algorithm {algorithm}: {file.name} was trained with {label}; leave the flag out")
    env = config.env if game is None else config.env.model_copy(update={"name": game_id(game)})
    if missing := missing_difficulty(env.name, env.distribution_mode):
        raise UserError(f"--env {game}: the agent was trained on {env.distribution_mode} levels; {missing}")
    chosen = _levels(env, levels)
    _print_header(label if titled else None, env.name, file)
    if env.name != config.env.name:
        print(f"Warning: trained on {config.env.name}, evaluated on {env.name}\n")
    results = []
    n_envs = environments_for(num_episodes)
    for part in chosen:
        player = Player(agent.policy, n_envs, deterministic, seed)
        with closing(ProcgenVectorEnv(env.name, n_envs, **_options(env, part, seed))) as envs:
            if render:
                with _show(env, part, seed, n_envs, file) as show:
                    result = play(envs, player, part, num_episodes, show)
            else:
                result = play(envs, player, part, num_episodes)
        print("\n" + result.block(f"{label} Evaluation Results" if titled else "Evaluation Results"))
        results.append(result)
    if len(results) == 2:
        print(f"Generalisation gap (train - test): {_gap(results):.2f}")
    how = {"timesteps": agent.timesteps, "deterministic": deterministic, "seed": seed}
    try:
        written = _write(file, env.name, how, results)
        print(f"Results saved to: {written}")
        logs = log_folder(file, config)
        if logs is not None and env.name == config.env.name:  # another game would be another curve
            log_evaluation(logs, agent.timesteps, _scalars(results))
    except OSError as error:
        if error.errno not in (EACCES, EPERM, EROFS):
            raise
        print(f"Warning: not saved beside the checkpoint ({error.strerror})", file=sys.stderr)
    return results


def environments_for(num_episodes: int) -> int:
    """So many that all of them play as many episodes, where that is possible."""
    episodes_each = -(-num_episodes // MAX_ENVS)
    return -(-num_episodes // episodes_each)


def play(envs: ProcgenVectorEnv, player: Player, levels: Levels, num_episodes: int, show: Show | None = None) -> Result:
    """Every environment plays a share of the episodes that is fixed beforehand: as many from each (or one more, where
    they do not divide). Taking the first to finish instead would favour short episodes."""
    n_envs = envs.num_envs
    left = np.full(n_envs, num_episodes // n_envs)
    left[: num_episodes % n_envs] += 1
    rewards: list[list[float]] = [[] for _ in range(n_envs)]
    lengths: list[list[int]] = [[] for _ in range(n_envs)]
    obs, _ = envs.reset()
    with tqdm(total=num_episodes, desc="Evaluating", file=sys.stdout, mininterval=0.5, disable=None) as bar:
        while left.any():
            playing = left > 0
            actions = player.actions(obs, playing)
            obs, _, dones, _, infos = envs.step(actions)
            if show is not None:
                show.follow(actions, playing)
            for env in np.flatnonzero(dones & playing):
                rewards[env].append(float(infos["episode"]["r"][env]))
                lengths[env].append(int(infos["episode"]["l"][env]))
                left[env] -= 1
                bar.update()
    return Result(levels, np.concatenate(rewards), np.concatenate(lengths).astype(np.float64))


@contextmanager
def _show(env: EnvSettings, levels: Levels, seed: int, n_envs: int, file: Path) -> Iterator[Show]:
    """The first environments once more, in a window or a video. Large pictures cost more than playing does, so those
    that nobody sees are not drawn."""
    shown = slice(0, min(TILES, n_envs))
    envs = make_envs(env.name, n_envs, part=shown, render_mode="rgb_array", **_options(env, levels, seed))
    window = Window.open(f"{file.name}, {env.name}, {levels}", WINDOW_FPS)
    with closing(envs), window or VideoFile(file.with_name(f"{file.stem}_{levels.name}.mp4"), VIDEO_FPS) as screen:
        yield Show(envs, training_levels(env), screen)
    if isinstance(screen, VideoFile):
        print(f"Video: {screen.path}")


def _options(env: EnvSettings, levels: Levels, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "distribution_mode": env.distribution_mode,
        "num_levels": levels.count,
        "start_level": levels.start,
    }


def _levels(env: EnvSettings, wanted: str) -> list[Levels]:
    if wanted == "train":
        return [training_levels(env)]
    unseen = unseen_levels(env, wanted)
    return [training_levels(env), unseen] if wanted == "both" else [unseen]


def _gap(results: list[Result]) -> float:
    train, test = results
    return float(train.rewards.mean() - test.rewards.mean())


def _scalars(results: list[Result]) -> dict[str, float]:
    """As TensorBoard shows them."""
    scalars = {}
    for result in results:
        scalars[f"evaluation/{result.levels.name}_reward_mean"] = float(result.rewards.mean())
        scalars[f"evaluation/{result.levels.name}_reward_std"] = float(result.rewards.std())
    if len(results) == 2:
        scalars["evaluation/generalisation_gap"] = _gap(results)
    return scalars


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


def _block(found: Any) -> dict[str, Any]:
    """What is no block was not written by us."""
    return found if isinstance(found, dict) else {}


def _write(file: Path, env: str, how: dict[str, Any], results: list[Result]) -> Path:
    """One entry per checkpoint and game; an evaluation of the same levels replaces the earlier one."""
    path = file.with_name("evaluation.json")
    try:
        everything = json.loads(path.read_text())
    except (OSError, ValueError):
        everything = {}
    everything = _block(everything)
    everything[file.name] = games = _block(everything.get(file.name))
    games[env] = _block(games.get(env)) | {result.levels.name: {**how, **result.numbers()} for result in results}
    write_json(path, everything)
    return path
