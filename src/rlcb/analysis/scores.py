"""Procgen's own yardsticks: normalised scores, and the curves that were published for PPO."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from rlcb.analysis.run import Run
from rlcb.games import game_name

RANGES = "score ranges of the Procgen paper, as in openai/train-procgen (easy jumper 1 to 10, easy leaper 1.5 to 10)"
SOURCE = "published PPO, IMPALA network, mean of 3 seeds (openai/train-procgen)"


class Range(NamedTuple):
    low: float  # of a policy that sees nothing
    high: float  # the best that can be reached


@cache
def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("rlcb").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def score_range(game: str, difficulty: str) -> Range | None:
    """None where no range was published: difficulties other than easy and hard."""
    for row in _rows("score_ranges.csv"):
        if row["game"] == game and f"{difficulty}_min" in row:
            return Range(float(row[f"{difficulty}_min"]), float(row[f"{difficulty}_max"]))
    return None


def normalised(run: Run, reward: float | None) -> float | None:
    """0 for a policy that sees nothing, 1 for the best that can be reached."""
    game, difficulty = run.setting("env.name"), run.setting("env.distribution_mode")
    if reward is None or game is None:
        return None
    bounds = score_range(game_name(game), str(difficulty))
    return None if bounds is None else (reward - bounds.low) / (bounds.high - bounds.low)


def evaluated(run: Run, levels: str) -> float | None:
    """Mean reward of the run's evaluation on `train` or `test` levels."""
    value = run.evaluation.get(levels, {}).get("mean_reward")
    return float(value) if isinstance(value, int | float) else None


def generalisation_gap(run: Run) -> float | None:
    """None where both were not evaluated, or not in the same way: one with the likeliest actions, the other sampled."""
    train, test = evaluated(run, "train"), evaluated(run, "test")
    ways = [[run.evaluation[name].get(key) for key in ("deterministic", "timesteps")] for name in run.evaluation]
    return None if train is None or test is None or ways[0] != ways[-1] else train - test


def published_beside(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Steps and reward of the published curve, as far as the runs go and one point more, unless that is far away."""
    played = {tuple(run.setting(f"env.{name}") for name in ("name", "num_levels", "distribution_mode")) for run in runs}
    reference = published_curve(runs[0]) if len(played) == 1 else None
    ends = [float(run.rewards.steps[-1]) for run in runs if len(run.rewards.steps)]
    if reference is None or not ends:
        return []
    steps = sorted(reference)
    shown = [step for step in steps if step <= max(ends)]
    shown += [step for step in steps if max(ends) < step <= 2 * max(ends)][:1]
    return [(step, reference[step]) for step in shown]


def published_curve(run: Run, levels: str = "train") -> dict[float, float] | None:
    """Reward by steps, for runs that play what the published ones did."""
    protocol = {200: "easy-200", 0: "easy-all"}.get(run.setting("env.num_levels"))
    game = run.setting("env.name")
    if protocol is None or game is None or run.setting("env.distribution_mode") != "easy":
        return None
    for row in _rows("published_ppo_curves.csv"):
        if (row["protocol"], row["game"], row["levels"]) == (protocol, game_name(game), levels):
            steps = {name: value for name, value in row.items() if name.endswith("M") and value}
            return {float(name[:-1]) * 1e6: float(value) for name, value in steps.items()}
    return None
