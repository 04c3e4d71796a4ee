"""A video of a trained agent that plays chosen levels, one episode of each."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rlcb.agent import Player, find_checkpoint, load_agent
from rlcb.config.tree import EnvSettings
from rlcb.envs.levels import training_levels, unseen_levels
from rlcb.envs.procgen import EnvState, ProcgenVectorEnv
from rlcb.video.grid import Tile
from rlcb.video.show import Show
from rlcb.video.writers import VideoFile


def film(
    checkpoint: Path,
    *,
    levels: list[int] | str | None,
    tiles: int,
    output: Path | None,
    deterministic: bool,
    seed: int,
    fps: int,
    max_steps: int,
) -> list[Tile]:
    """Play, write, and print. `levels` are numbers, `train` or `test`; without, half of the tiles are of either."""
    agent = load_agent(find_checkpoint(checkpoint))
    env = agent.config.env
    chosen = levels if isinstance(levels, list) else choose_levels(env, levels, tiles)
    print(f"Checkpoint: {agent.file} ({agent.timesteps:,} steps of training on {env.name})")
    with VideoFile(output or agent.file.with_suffix(".mp4"), fps) as video:
        with closing(on_levels(env, chosen, seed)) as envs:
            show = Show(envs, training_levels(env), video)
            _play(envs, show, Player(agent.policy, len(chosen), deterministic, seed), max_steps)
        for _ in range(fps):  # the end stays for a second
            show.draw()
    for tile in show.tiles:
        cut = "" if tile.done else ", not at its end"
        kind = "train" if tile.known else "unseen"
        print(f"Level {tile.level} ({kind}): reward {tile.reward:.2f} after {tile.steps} steps{cut}")
    print(f"Video: {video.path}")
    return show.tiles


def choose_levels(env: EnvSettings, asked: str | None, number: int) -> list[int]:
    if asked == "test":
        return unseen_levels(env, asked).first(number)
    if asked == "train" or env.num_levels == 0:  # of all levels none is unseen
        return training_levels(env).first(number)
    known = training_levels(env).first((number + 1) // 2)
    return known + unseen_levels(env, "test").first(number // 2)


def on_levels(env: EnvSettings, levels: list[int], seed: int) -> ProcgenVectorEnv:
    """One environment per level. Each begins alone, where its level is the only one; then all move in together, so that
    one step serves them all. What comes after their first episode is not meant to be seen."""
    options: dict[str, Any] = {"seed": seed, "distribution_mode": env.distribution_mode}
    states: list[EnvState] = []
    for level in levels:
        with closing(ProcgenVectorEnv(env.name, 1, **options, num_levels=1, start_level=level)) as alone:
            states.append(alone.get_state())
    together = ProcgenVectorEnv(env.name, len(levels), **options, render_mode="rgb_array")
    games = [state.games[0] for state in states]
    together.set_state(EnvState(games, np.zeros(len(levels), np.float32), np.zeros(len(levels), np.int64)))
    return together


def _play(envs: ProcgenVectorEnv, show: Show, player: Player, max_steps: int) -> None:
    obs = envs.observe()
    playing = np.ones(envs.num_envs, np.bool_)
    steps = tqdm(range(max_steps), desc="Playing", unit=" steps", file=sys.stdout, mininterval=0.5, delay=2)
    for _ in steps:
        obs, dones = show.step(player.actions(obs, playing), playing)
        playing &= ~dones
        if not playing.any():
            break
    steps.close()
