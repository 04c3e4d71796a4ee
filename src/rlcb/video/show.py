"""Environments that are watched while they play."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rlcb.envs.levels import Levels
from rlcb.envs.procgen import ProcgenVectorEnv
from rlcb.video.grid import Tile, draw_grid, shrink


class Screen(Protocol):
    """A file or a window."""

    def show(self, picture: NDArray[np.uint8]) -> None: ...


class Show:
    """Every environment is a tile. `envs` render; `known` are the levels that the agent was trained on."""

    def __init__(self, envs: ProcgenVectorEnv, known: Levels, screen: Screen) -> None:
        self._envs, self._known, self._screen = envs, known, screen
        self.tiles = self._new_tiles()
        self._next = self.tiles
        self.draw()

    def draw(self) -> None:
        self._screen.show(draw_grid(self.tiles))

    def step(
        self, actions: NDArray[np.int64], playing: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Observations and ends. Tiles of environments that play no more stay as they are."""
        obs, rewards, dones, _, _ = self._envs.step(actions)
        seen = self._new_tiles()
        for index in np.flatnonzero(playing):
            if self.tiles[index].done:
                self.tiles[index] = self._next[index]
            tile = self.tiles[index]
            tile.reward += float(rewards[index])
            tile.steps += 1
            tile.done = bool(dones[index])
            if not tile.done:  # else it is a picture of the next episode already, and the one before it stays
                tile.picture = seen[index].picture
        self._next = seen
        self.draw()
        return obs, dones

    def follow(self, actions: NDArray[np.int64], playing: NDArray[np.bool_]) -> None:
        """The same step as in the first of many environments, for as long as one of those shown plays."""
        shown = len(self.tiles)
        if playing[:shown].any():
            self.step(actions[:shown], playing[:shown])

    def _new_tiles(self) -> list[Tile]:
        return [Tile(shrink(picture), level, level in self._known) for picture, level in self._envs.scenes()]
