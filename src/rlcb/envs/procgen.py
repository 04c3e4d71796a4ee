"""Procgen as a Gymnasium vector environment, over Procgen's own: no Python loop over environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from rlcb.envs.registration import silence_gym
from rlcb.games import game_name, missing_difficulty

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

OBS_SHAPE = (64, 64, 3)
N_ACTIONS = 15


@dataclass(frozen=True)
class EnvState:
    """Everything needed to continue some environments exactly, or elsewhere: one entry per environment."""

    games: list[bytes]
    returns: Floats  # [B] reward of the episode under way
    lengths: Ints  # [B] steps of the episode under way

    def __getitem__(self, part: slice) -> EnvState:
        return EnvState(self.games[part], self.returns[part], self.lengths[part])


class ProcgenVectorEnv(VectorEnv[NDArray[np.uint8], NDArray[np.integer[Any]], Any]):
    """`num_envs` copies of a game. Environment i's levels depend on the seed and on i alone.

    Procgen resets by itself and never shows the last observation of an episode, so autoreset is SAME_STEP without
    `final_obs`. A finished episode is reported as Gymnasium's RecordEpisodeStatistics does: `infos["episode"]` with
    `r`, `l` and the mask `_episode`. Procgen's time limit counts as an end: it cannot be told from one.
    """

    def __init__(
        self,
        game: str,
        num_envs: int = 1,
        *,
        seed: int = 0,
        distribution_mode: str = "easy",
        num_levels: int = 200,
        start_level: int = 0,
        num_threads: int = 0,
        render_mode: str | None = None,
    ) -> None:
        if missing := missing_difficulty(game, distribution_mode):
            raise ValueError(f"distribution_mode: {missing}")
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"], "render_fps": 15}
        self.single_observation_space = Box(0, 255, OBS_SHAPE, np.uint8)
        self.observation_space = Box(0, 255, (num_envs, *OBS_SHAPE), np.uint8)
        self.single_action_space = Discrete(N_ACTIONS)
        self.action_space = MultiDiscrete([N_ACTIONS] * num_envs)
        self._options = {
            "num": num_envs,
            "env_name": game_name(game),
            "distribution_mode": distribution_mode,
            "num_levels": num_levels,
            "start_level": start_level,
            "num_threads": num_threads,
            "render_mode": render_mode,
        }
        self._returns: Floats = np.zeros(num_envs, np.float32)
        self._lengths: Ints = np.zeros(num_envs, np.int64)
        self._start(seed)

    def _start(self, seed: int) -> None:
        self._seed = seed
        self._procgen = _procgen_class()(**self._options, rand_seed=seed)
        self._returns[:] = 0
        self._lengths[:] = 0
        self._started = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Procgen cannot begin an episode on command: with a seed, or after steps, the games are made anew."""
        if isinstance(seed, list):
            raise ValueError("Procgen takes one seed for all environments, not a list")
        if seed is not None or self._started:
            self._start(self._seed if seed is None else seed)
        return self.observe(), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.uint8], Floats, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        self._started = True
        self._procgen.act(np.asarray(actions))
        rewards, observation, done = self._procgen.observe()
        self._returns += rewards
        self._lengths += 1
        infos: dict[str, Any] = {}
        if done.any():
            infos = {"episode": {"r": self._returns.copy(), "l": self._lengths.copy()}, "_episode": done}
            self._returns[done] = 0
            self._lengths[done] = 0
        return observation["rgb"], rewards, done, np.zeros_like(done), infos

    def observe(self) -> NDArray[np.uint8]:
        """The current observation, again."""
        observation: NDArray[np.uint8] = self._procgen.observe()[1]["rgb"]
        return observation

    def get_state(self) -> EnvState:
        return EnvState(self._procgen.callmethod("get_state"), self._returns.copy(), self._lengths.copy())

    def set_state(self, state: EnvState) -> None:
        self._started = True
        self._procgen.callmethod("set_state", state.games)
        self._returns[:] = state.returns
        self._lengths[:] = state.lengths

    def render(self) -> Any:
        """Large pictures [B, 512, 512, 3] with `render_mode="rgb_array"`."""
        if self.render_mode is None:
            return None
        return np.stack([info["rgb"] for info in self._procgen.get_info()])

    def scenes(self) -> list[tuple[NDArray[np.uint8], int]]:
        """Large picture [512, 512, 3] and number of the level, of every environment."""
        return [(info["rgb"], int(info["level_seed"])) for info in self._procgen.get_info()]

    def close_extras(self, **kwargs: Any) -> None:
        self._procgen.close()


def make_envs(
    game: str,
    num_envs: int,
    *,
    seed: int,
    part: slice | None = None,
    **options: Any,
) -> ProcgenVectorEnv:
    """The environments `part` of `num_envs`, exactly as they would be if all were in this process."""
    everything = ProcgenVectorEnv(game, num_envs, seed=seed, **options)
    if part is None or part == slice(0, num_envs):
        return everything
    states = everything.get_state()[part]
    everything.close()
    envs = ProcgenVectorEnv(game, len(states.games), seed=seed, **options)
    envs.set_state(states)
    return envs


def _procgen_class() -> Any:
    silence_gym()
    from procgen import ProcgenGym3Env

    return ProcgenGym3Env
