"""The figures of a comparison, by name: what is measured, how it is written, and which way is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlcb.analysis.groups import Group
from rlcb.analysis.run import Run
from rlcb.analysis.scores import evaluated, generalisation_gap, normalised

Figure = Callable[[Run], float | None]


@dataclass(frozen=True)
class Quantity:
    name: str
    of: Figure
    form: str = ",.0f"
    more_is_better: bool = True
    unit: str = ""

    def text(self, value: float | None) -> str:
        if value == math.inf:
            return "not reached"  # by all runs
        return "-" if value is None else f"{value:{self.form}}{self.unit}"


def summary(name: str) -> Figure:
    return lambda run: run.number(name)


def timesteps_per_hour(run: Run) -> float | None:
    hours, steps = run.number("duration_hours"), run.number("total_timesteps")
    return steps / hours if hours and steps else None


def memory_per_process(run: Run) -> float | None:
    """Of everything, divided by the processes that play."""
    peak = run.number("peak_memory_gb")
    crew = run.number("num_workers") or run.number("num_actors") or 1
    return None if peak is None else peak / crew


FPS = Quantity("Average FPS", summary("avg_fps"))
FINAL_REWARD = Quantity("Final Reward", summary("final_reward"), ".2f")
BEST_REWARD = Quantity("Best Reward", summary("best_reward"), ".2f")
MEMORY = Quantity("Peak Memory", summary("peak_memory_gb"), ".2f", more_is_better=False, unit=" GB")
TIMESTEPS = Quantity("Total Timesteps", summary("total_timesteps"))
LENGTH = Quantity("Episode Length", summary("mean_episode_length"), ".2f", more_is_better=False)
TRAIN_SCORE = Quantity("Evaluation, train levels", lambda run: evaluated(run, "train"), ".2f")
TEST_SCORE = Quantity("Evaluation, unseen levels", lambda run: evaluated(run, "test"), ".2f")
GAP = Quantity("Generalisation gap", generalisation_gap, ".2f", more_is_better=False)
NORMALISED_TEST = Quantity("Normalised score, unseen", lambda run: normalised(run, evaluated(run, "test")), ".3f")
NORMALISED_TRAIN = Quantity("Normalised score, train", lambda run: normalised(run, evaluated(run, "train")), ".3f")
NORMALISED_FINAL = Quantity("Normalised final reward", lambda run: normalised(run, run.number("final_reward")), ".3f")

TESTED = (FPS, FINAL_REWARD, TEST_SCORE, MEMORY)  # what statistics are made of


@dataclass(frozen=True)
class Learning:
    """How runs learn, measured at points that all of them reached."""

    steps: float | None  # the most that all of them took
    target: float | None  # a reward that all of them reached, or one that was asked for

    @classmethod
    def of(cls, groups: Sequence[Group], target: float | None) -> Learning:
        curves = [run.settled_rewards for group in groups for run in group.runs if len(run.settled_rewards.steps)]
        steps = min((float(curve.steps[-1]) for curve in curves), default=None)
        if target is None and curves:
            target = min(float(curve.values.max()) for curve in curves)
        return cls(steps, target)

    def reward_at_equal_steps(self, run: Run) -> float | None:
        return None if self.steps is None else run.settled_rewards.at(self.steps)

    def steps_to_target(self, run: Run) -> float | None:
        return self._reach(run, 0)

    def seconds_to_target(self, run: Run) -> float | None:
        return self._reach(run, 1)

    def _reach(self, run: Run, which: int) -> float | None:
        if self.target is None or not len(run.settled_rewards.steps):
            return None
        reached = run.settled_rewards.first_at_least(self.target)
        return math.inf if reached is None else reached[which]

    def quantities(self) -> list[Quantity]:
        rows = []
        if self.steps is not None:
            rows.append(Quantity(f"Reward at {self.steps:,.0f} steps", self.reward_at_equal_steps, ".2f"))
        if self.target is not None:
            rows += [
                Quantity(f"Steps to reward {self.target:.2f}", self.steps_to_target, more_is_better=False),
                Quantity(f"Seconds to reward {self.target:.2f}", self.seconds_to_target, more_is_better=False),
            ]
        rows.append(Quantity("Reward std (last 100)", summary("final_reward_std"), ".2f", more_is_better=False))
        return rows
