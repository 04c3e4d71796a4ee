from __future__ import annotations

from pathlib import Path

import pytest

from rlcb.runs.files import write_atomically
from rlcb.training.costs import Costs, learners_for, measured
from rlcb.training.train import config_text
from tests.conftest import tiny_config


@pytest.mark.parametrize(
    ("play", "learn", "actors", "cores", "expected"),
    [
        (4, 6, 2, 2, 2),  # learning needs 1.2 of 2 cores
        (1, 1, 2, 2, 1),
        (1, 9, 4, 8, 4),  # 7.2 would be needed; at most one per actor
        (3, 1, 12, 8, 2),
        (1, 1, 4, 6, 4),  # 3 would do, but 4 actors cannot be shared by 3
        (1, 9, 3, 1, 1),
    ],
)
def test_learners_keep_up_where_they_can(play: float, learn: float, actors: int, cores: int, expected: int) -> None:
    assert learners_for(Costs(play, learn), actors, cores) == expected


def test_costs_are_measured(tmp_path: Path) -> None:
    """In seconds per sample, of both, from a process that reads a configuration and prints."""
    config = tiny_config("impala", {"mode": "parallel", "parallel.num_actors": 2, "training.batch_size": None})
    write_atomically(tmp_path / "config.yaml", config_text(config).encode())
    costs = measured(tmp_path / "config.yaml")
    assert 0 < costs.play < 0.1
    assert costs.play / 3 < costs.learn < 0.1
