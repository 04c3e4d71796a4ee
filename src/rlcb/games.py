"""The 16 Procgen games: names and difficulties."""

from __future__ import annotations

import difflib
import re

GAMES = (
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
)

# Procgen aborts the whole process when asked for a difficulty that a game does not have.
RARE_DIFFICULTIES = {
    "extreme": {"chaser", "dodgeball", "leaper", "starpilot"},
    "memory": {"caveflyer", "dodgeball", "heist", "jumper", "maze", "miner"},
}

_SPELLING = re.compile(r"(?:procgen:)?(?:procgen-)?([a-z]+?)(?:-v0)?")


def game_name(name: str) -> str:
    """`coinrun`, for any of the spellings `coinrun`, `procgen-coinrun-v0`, `procgen:procgen-coinrun-v0`."""
    match = _SPELLING.fullmatch(name.strip().lower())
    game = match.group(1) if match else name
    if game not in GAMES:
        close = difflib.get_close_matches(game, GAMES, n=1, cutoff=0.5)
        remedy = f"did you mean {close[0]}?" if close else f"use one of {', '.join(GAMES)}"
        raise ValueError(f"is not a Procgen game; {remedy}")
    return game


def missing_difficulty(game: str, difficulty: str) -> str | None:
    """What is wrong with asking for this difficulty of this game."""
    having, name = RARE_DIFFICULTIES.get(difficulty), game_name(game)
    if having is None or name in having:
        return None
    return f"{difficulty} does not exist for {name}, only for {', '.join(sorted(having))}; use easy or hard"


def game_id(name: str) -> str:
    """`procgen-coinrun-v0`, for any spelling."""
    return f"procgen-{game_name(name)}-v0"
