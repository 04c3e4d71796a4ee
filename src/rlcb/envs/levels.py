"""Sets of levels: those that an agent was trained on, and those it never saw."""

from __future__ import annotations

from dataclasses import dataclass

from rlcb.config.tree import EnvSettings
from rlcb.errors import UserError

END = 2**31 - 1  # Procgen's levels are the whole numbers below


@dataclass(frozen=True)
class Levels:
    """A set of levels: `count` from `start` on, or all of them."""

    name: str
    start: int
    count: int  # 0 for all

    def __str__(self) -> str:
        return f"{self.name} ({'all levels' if self.count == 0 else self._range()})"

    def __contains__(self, level: int) -> bool:
        return self.count == 0 or self.start <= level < self.start + self.count

    def first(self, number: int) -> list[int]:
        """So many of them, in order; fewer where there are fewer."""
        return list(range(self.start, min(self.start + number, self.start + self.count if self.count else END)))

    def _range(self) -> str:
        last = self.start + self.count - 1
        return f"levels from {self.start} on" if last >= END - 1 else f"levels {self.start} to {last}"


def training_levels(env: EnvSettings) -> Levels:
    return Levels("train", env.start_level, env.num_levels)


def unseen_levels(env: EnvSettings, asked: str) -> Levels:
    """`asked` is how the user spelled the wish, for the complaint where there are none."""
    if env.num_levels == 0:
        raise UserError(f"--levels {asked}: the agent was trained on all levels, none is unseen; use --levels train")
    first = env.start_level + env.num_levels
    if first >= END:
        raise UserError(f"--levels {asked}: no level comes after those that were trained on; use --levels train")
    return Levels("test", first, END - first)
