from __future__ import annotations

from typing import Any

import pytest

from rlcb.analysis.fairness import differences
from rlcb.analysis.groups import named_group
from tests.analysis.conftest import MakeRun

HERE = {"cpu": "another CPU", "cores": 2, "threads": 2, "memory_gb": 16.0, "system": "Linux", "python": "3.11"}


@pytest.mark.parametrize(
    ("settings", "summary", "named"),
    [
        ({"env.name": "maze"}, {}, "game: a coinrun, b maze"),
        ({"env.num_levels": 100}, {}, "levels: a 200 from 0, easy, b 100 from 0, easy"),
        ({"env.distribution_mode": "hard"}, {}, "levels: a 200 from 0, easy, b 200 from 0, hard"),
        ({}, {"num_envs": 16}, "total environments: a 8, b 16"),
        ({"model.arch": "impala"}, {}, "network: a nature, b impala"),
        ({}, {"hardware": HERE}, "hardware: a a CPU, 2 cores, 16.0 GB, b another CPU, 2 cores, 16.0 GB"),
        ({"training.learning_rate": 0.1}, {}, "training.learning_rate: a "),
        ({"ppo.clip_range": 0.3}, {}, "ppo.clip_range: a 0.2, b 0.3"),
        ({"ppo.target_kl": 0.01}, {}, "ppo.target_kl: a null, b 0.01"),
        ({"env.seed": 7}, {}, "seeds: a "),
        (
            {"training.duration": 1.0},
            {"duration_hours": 1.0, "total_timesteps": 9000},
            "duration: a 0.01 h, 3,000 steps, b 1.00 h, 9,000",
        ),
    ],
)
def test_a_difference_is_named(
    make_run: MakeRun, settings: dict[str, Any], summary: dict[str, Any], named: str
) -> None:
    groups = [named_group("a", [make_run("a")]), named_group("b", [make_run("b", settings=settings, **summary)])]
    (line,) = differences(groups)
    assert line.startswith(named)


def test_mode_speed_and_reward_may_differ(make_run: MakeRun) -> None:
    groups = [
        named_group("a", [make_run("a")]),
        named_group("b", [make_run("b", mode="parallel", rewards=(5.0, 6.0, 7.0), avg_fps=500.0)]),
    ]
    assert differences(groups) == []


def test_the_same_steps_in_less_time_are_fair(make_run: MakeRun) -> None:
    groups = [named_group("a", [make_run("a")]), named_group("b", [make_run("b", duration_hours=0.001)])]
    assert differences(groups) == []


def test_algorithms_have_hyperparameters_of_their_own(make_run: MakeRun) -> None:
    groups = [named_group("a", [make_run("a")]), named_group("b", [make_run("b", algo="impala")])]
    assert differences(groups) == []


def test_evaluations_in_other_ways_are_named(make_run: MakeRun) -> None:
    roots = [make_run(name, evaluation={"train": 5.0}) for name in ("a", "b")]
    file = roots[1] / "checkpoints/evaluation.json"
    file.write_text(file.read_text().replace('"deterministic": true', '"deterministic": false'))
    (line,) = differences([named_group(root.name, [root]) for root in roots])
    assert line == "evaluation: a 10 episodes, deterministic, b 10 episodes, sampled"
