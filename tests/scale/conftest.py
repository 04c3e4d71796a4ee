from __future__ import annotations

from typing import Any

import pytest

from rlcb.scale.costs import Costs, Curve

PARAMETERS = 600_000


def costs(**changed: Any) -> Costs:
    """In proportion to samples, the same in a crowd as alone, and without any exchange but what a network takes."""
    proportional = Curve(points=((1, 1e-4), (64, 64e-4)))
    usual: dict[str, Any] = {
        "machine": {"cpu": "made up", "cores": 2},
        "algo": "ppo",
        "arch": "nature",
        "game": "procgen-coinrun-v0",
        "parameters": PARAMETERS,
        "optimizer_tensors": 2,
        "environment": proportional,
        "act": proportional,
        "other": Curve(points=((1, 0.0),)),
        "learn": Curve(points=((32, 32e-4), (1024, 1024e-4))),
        "crowd_play": Curve(points=((0.5, 1.0), (1, 1.0), (2, 2.0))),
        "crowd_learn": Curve(points=((0.5, 1.0), (1, 1.0), (2, 2.0))),
        "spread": (1.0,),
        "crowded_spread": (),
        "smallest_exchange": 0.0,
        "meeting": 0.0,
        "exchange": {"none": 0.0, "fp16": 0.0},
        "shared_exchange": 0.0,
        "report_bytes": 0,
        "record_number": 0.0,
        "look_at_processes": 0.0,
    }
    return Costs(**{**usual, **changed})


@pytest.fixture
def real_costs() -> Costs:
    """Of the size that is measured on real machines."""
    return costs(
        spread=(0.95, 0.97, 1.0, 1.0, 1.02, 1.06),
        smallest_exchange=2e-4,
        meeting=3e-5,
        exchange={"none": 5e-3, "fp16": 7e-3},
        shared_exchange=1e-3,
        report_bytes=2000,
        record_number=3e-5,
        look_at_processes=5e-3,
    )
