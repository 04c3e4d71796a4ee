"""Problems between settings that are each fine by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from rlcb.config.tree import ALGORITHM_LABELS, Config
from rlcb.games import missing_difficulty


def settings_that_do_not_fit(config: Config) -> list[str]:
    """One line for each problem, with key, value and remedy."""
    return [*_batch(config), *_budget(config), *_levels(config), *_algorithm(config)]


def _batch(config: Config) -> Iterator[str]:
    envs, steps, batch = config.num_envs, config.training.n_steps, config.batch_size
    if batch > config.rollout_size:
        yield (
            f"training.batch_size: {batch} is more than one rollout, {envs} environments × {steps} steps = "
            f"{config.rollout_size}; use at most that"
        )
    elif batch % envs or steps % (batch // envs):
        fitting = [envs * k for k in _divisors(steps)]
        near = sorted(sorted(fitting, key=lambda size: abs(size - batch))[:3])
        yield (
            f"training.batch_size: {batch} does not divide {envs} environments × {steps} steps evenly (every minibatch "
            f"takes the same number of steps from every environment); use {_one_of(near)}"
        )


def _budget(config: Config) -> Iterator[str]:
    if config.training.total_timesteps is None and config.training.duration is None:
        yield "training.total_timesteps: null, and no training.duration either; give the run an end with one of them"


def _levels(config: Config) -> Iterator[str]:
    start, levels = config.env.start_level, config.env.num_levels
    if levels and start + levels >= 2**31:
        yield f"env.start_level: {start} + {levels} levels go past Procgen's last level ({2**31 - 1}); use less"
    if missing := missing_difficulty(config.env.name, config.env.distribution_mode):
        yield f"env.distribution_mode: {missing}"


def _algorithm(config: Config) -> Iterator[str]:
    training = config.training
    if config.cuts_stragglers and (config.algo in ("impala", "a3c") or config.sync == "average"):
        whose = "average" if config.sync == "average" else ALGORITHM_LABELS[config.algo]
        yield f"cluster.straggler_cut: true, but with {whose} nobody waits for others to collect; leave it out"
    if config.algo == "impala" and training.normalize_advantage:
        yield "training.normalize_advantage: true, but IMPALA's advantages keep their scale; leave it out"
    if config.algo == "impala" and config.crew is not None and config.crew.number % config.num_ranks:
        yield (
            f"parallel.num_learners: {config.num_ranks} learners cannot share {config.crew.number} actors evenly; "
            f"use {_one_of(_divisors(config.crew.number))}"
        )
    whole = (None, config.rollout_size)
    if config.algo == "a3c" and config.mode != "sequential" and training.batch_size not in whole:
        size = training.batch_size
        yield f"training.batch_size: {size}, but every A3C worker learns from its whole rollout; leave it out"


def _divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]


def _one_of(values: list[int]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}" if most else last
