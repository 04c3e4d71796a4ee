"""One picture of several games side by side, each with its level and its reward written on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

SIZE = 256  # pixels of a tile's side
_CAPTION = 22  # of them, height of the line of text


@dataclass
class Tile:
    """One game: what is seen of it, and what is said about it."""

    picture: Image.Image  # SIZE × SIZE
    level: int
    known: bool  # whether the agent was trained on the level
    reward: float = 0.0  # of the episode, so far
    steps: int = 0
    done: bool = False

    def drawn(self) -> Image.Image:
        """An episode that has ended is darker, so that the eye goes to those that still play."""
        image = self.picture.point(lambda value: value // 2) if self.done else self.picture.copy()
        draw = ImageDraw.Draw(image, "RGBA")
        draw.rectangle((0, 0, SIZE, _CAPTION), fill=(0, 0, 0, 170))
        draw.text((6, 2), f"level {self.level} ({'train' if self.known else 'unseen'})", fill="white", font=_font(14))
        draw.text((SIZE - 6, 2), f"reward {self.reward:.4g}", fill="white", font=_font(14), anchor="ra")
        if self.done:
            middle = (SIZE / 2, SIZE / 2)
            draw.text(middle, f"done, {self.steps} steps", fill="white", font=_font(22), anchor="mm")
        draw.rectangle((0, 0, SIZE - 1, SIZE - 1), outline="black")
        return image


def draw_grid(tiles: Sequence[Tile]) -> NDArray[np.uint8]:
    """[H, W, 3], row by row."""
    columns = n_columns(len(tiles))
    grid = Image.new("RGB", (SIZE * columns, SIZE * -(-len(tiles) // columns)))
    for index, tile in enumerate(tiles):
        grid.paste(tile.drawn(), (SIZE * (index % columns), SIZE * (index // columns)))
    return np.asarray(grid)


def n_columns(n_tiles: int) -> int:
    """As square as leaves no gap, but at most twice as wide as a square; with gaps where that cannot be."""
    root = math.sqrt(n_tiles)
    full = [columns for columns in range(math.ceil(root), int(2 * root) + 1) if n_tiles % columns == 0]
    return full[0] if full else math.ceil(root)


def shrink(picture: NDArray[np.uint8]) -> Image.Image:
    """A large picture of Procgen's to a tile's size."""
    return Image.fromarray(picture).reduce(len(picture) // SIZE)


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
