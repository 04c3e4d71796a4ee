from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

import rlcb  # noqa: F401, registers the games
from rlcb.envs.procgen import Ints, ProcgenVectorEnv, make_envs
from rlcb.games import GAMES, game_id, game_name


@pytest.mark.parametrize("game", GAMES)
def test_every_game_plays(game: str) -> None:
    with closing(ProcgenVectorEnv(game, 3)) as envs:
        obs, _ = envs.reset()
        after, rewards, dones, truncated, _ = envs.step(np.array([4, 7, 7]))
    assert obs.shape == after.shape == (3, 64, 64, 3)
    assert obs.dtype == np.uint8
    assert rewards.shape == dones.shape == truncated.shape == (3,)
    assert not np.array_equal(obs, after)


@pytest.mark.parametrize("name", ["coinrun", "procgen-coinrun-v0", "procgen:procgen-coinrun-v0", "CoinRun"])
def test_spellings_of_a_game(name: str) -> None:
    assert game_name(name) == "coinrun"
    assert game_id(name) == "procgen-coinrun-v0"


def test_gymnasium_makes_it() -> None:
    envs = gymnasium.make_vec("procgen-coinrun-v0", num_envs=8, seed=3)
    with closing(envs):
        assert isinstance(envs, VectorEnv)
        assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
        obs, _ = envs.reset()
        assert envs.observation_space.contains(obs)
        envs.step(envs.action_space.sample())


def play(envs: ProcgenVectorEnv, actions: Ints) -> list[tuple[NDArray[Any], ...]]:
    return [envs.step(row)[:3] for row in actions]


def actions_for(steps: int, n_envs: int) -> Ints:
    return np.random.default_rng(0).integers(0, 15, (steps, n_envs))


def test_a_split_over_processes_is_the_same_environments() -> None:
    actions = actions_for(300, 8)
    whole = make_envs("coinrun", 8, seed=5)
    halves = [make_envs("coinrun", 8, seed=5, part=slice(start, start + 4)) for start in (0, 4)]
    expected = play(whole, actions)
    found = [play(half, actions[:, start : start + 4]) for half, start in zip(halves, (0, 4), strict=True)]
    for step, everything in enumerate(expected):
        for column, values in enumerate(everything):
            parts = np.concatenate([found[half][step][column] for half in (0, 1)])
            assert np.array_equal(values, parts), f"step {step}"
    assert any(dones.any() for _, _, dones in expected), "no episode ended: the test shows little"


def test_a_state_continues_exactly_and_can_be_sliced() -> None:
    actions = actions_for(400, 4)
    envs = make_envs("bigfish", 4, seed=1)
    play(envs, actions[:200])
    state = envs.get_state()
    expected = [(envs.step(row)[4], envs.observe()) for row in actions[200:]]
    other = make_envs("bigfish", 2, seed=99)
    other.set_state(state[1:3])
    found = [(other.step(row[1:3])[4], other.observe()) for row in actions[200:]]
    for (info, obs), (part_info, part_obs) in zip(expected, found, strict=True):
        assert np.array_equal(obs[1:3], part_obs)
        if "episode" in part_info:
            ended = part_info["_episode"]
            for key in "rl":
                assert np.array_equal(info["episode"][key][1:3][ended], part_info["episode"][key][ended])
    assert any("episode" in info for info, _ in found)


def test_episode_statistics_equal_a_plain_count() -> None:
    envs = make_envs("bossfight", 6, seed=2)
    rewards, lengths, finished = [0.0] * 6, [0] * 6, 0
    for row in actions_for(600, 6):
        _, reward, dones, _, infos = envs.step(row)
        for env in range(6):
            rewards[env] += float(reward[env])
            lengths[env] += 1
            if dones[env]:
                assert infos["_episode"][env]
                assert infos["episode"]["r"][env] == pytest.approx(rewards[env])
                assert infos["episode"]["l"][env] == lengths[env]
                rewards[env], lengths[env], finished = 0.0, 0, finished + 1
    assert finished > 3


def test_the_seed_decides_the_levels() -> None:
    first, same, other = (make_envs("coinrun", 4, seed=seed).reset()[0] for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


def test_reset_begins_anew() -> None:
    envs = make_envs("coinrun", 2, seed=1)
    start, _ = envs.reset()
    play(envs, actions_for(20, 2))
    assert np.array_equal(envs.reset()[0], start)


def test_levels_are_those_asked_for() -> None:
    """One level: all environments show the same first picture. Another level: another picture."""
    one = make_envs("coinrun", 4, seed=1, num_levels=1, start_level=3).reset()[0]
    other = make_envs("coinrun", 4, seed=1, num_levels=1, start_level=4).reset()[0]
    assert all(np.array_equal(one[0], picture) for picture in one)
    assert not np.array_equal(one[0], other[0])


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import rlcb; from rlcb.envs.procgen import make_envs; make_envs('coinrun', 1, seed=0).reset()", ""),
        ("import procgen; print('Procgen OK')", "Procgen OK\n"),
        ("import gym; env = gym.make('procgen-coinrun-v0'); print('Env OK')", "Env OK\n"),
    ],
)
def test_nothing_is_printed_about_gym(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == printed
    assert "unmaintained" not in done.stderr
