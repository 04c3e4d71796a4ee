"""Each algorithm learns one level of a real game for certain.

The level of Maze can be solved in 5 steps and takes a random agent about 130. Rollouts are 2 steps long, so the first
moves of a short solution get credit only through the bootstrapped value. CONTRIBUTING.md says how far agents get with
a loss, a sign or the bootstrap broken.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from rlcb.config import flag_name
from rlcb.training.lockstep import Lockstep
from rlcb.training.ranks import Alone
from tests.conftest import command_line, tiny_config

ONE_LEVEL = {
    "env.name": "maze",
    "env.num_levels": 1,
    "env.start_level": 11,
    "env.num_envs": 32,
    "training.n_steps": 2,
    "training.gamma": 0.95,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {
        "training.learning_rate": 5e-4,
        "training.batch_size": 64,
        "training.n_epochs": 2,
        "training.normalize_advantage": False,
    },
    "a2c": {"training.learning_rate": 7e-4, "training.batch_size": None},
    "impala": {"training.learning_rate": 7e-4, "training.max_grad_norm": 0.5, "training.batch_size": None},
}
STEPS = 30_000
SOLVED = 8.0  # steps


def mean_length(algo: str, seed: int) -> float:
    """Of the last 100 episodes of a short training."""
    config = tiny_config(algo, {**ONE_LEVEL, **SETTINGS[algo], "env.seed": seed})
    run = Lockstep(config, Alone())
    lengths: list[int] = []
    for _ in range(STEPS // config.rollout_size):
        lengths += [episode.length for episode in run.update(config.training.learning_rate).episodes]
    run.close()
    return statistics.fmean(lengths[-100:])


@pytest.mark.parametrize("algo", SETTINGS)
def test_it_learns(algo: str) -> None:
    assert mean_length(algo, seed=0) < SOLVED


LATE = {"impala", "a3c"}  # who learn from what an older policy did, and get twice as long
PARALLEL = {
    "ppo": ["--num-workers", "2"],
    "a2c": ["--num-workers", "2"],
    "impala": ["--num-actors", "2", "--num-learners", "1"],
    "a3c": ["--num-workers", "2"],
}


@pytest.mark.parametrize("algo", PARALLEL)
def test_it_learns_in_parallel(algo: str, tmp_path: Path) -> None:
    settings = {**ONE_LEVEL, **SETTINGS["a2c" if algo == "a3c" else algo], "env.seed": 0}
    settings.pop("training.normalize_advantage", None)
    words = [
        str(word) for path, value in settings.items() for word in (flag_name(path), "null" if value is None else value)
    ]
    if algo == "ppo":
        words.append("--no-normalize-advantage")
    words += ["--total-timesteps", str(STEPS * (1 + (algo in LATE))), "--log-interval", "30"]
    words += ["--output-dir", str(tmp_path / "run")]
    assert command_line("train", "--algo", algo, "--mode", "parallel", *PARALLEL[algo], *words) == 0
    (file,) = tmp_path.glob("run/logs/*/metrics.jsonl")
    assert json.loads(file.read_text().splitlines()[-1])["rollout/ep_length_mean"] < SOLVED
