"""Members of a crew that die before they are ready."""

from __future__ import annotations

import os
from typing import Any

import psutil
import torch

from rlcb.cpu.phases import Phases
from rlcb.training.crew import Crew, receive, send
from rlcb.training.hogwild import Hogwild
from rlcb.training.ranks import Alone
from tests.conftest import tiny_config


def work(pipe: Any, stillborn: bool) -> None:
    if stillborn:
        os._exit(1)
    send(pipe, "ready")
    while receive(pipe) is not None:
        send(pipe, "done")


def test_who_comes_and_goes_is_replaced_once() -> None:
    crew = Crew(2, work, lambda index, life: (index == 0 and life < 2,), lambda index: f"test-{index}", 30.0)
    crew.wait_until_ready()
    assert crew.replaced == 2
    assert crew.receive(wait=False) == ([], [0])
    crew.close()


def test_a3c_goes_on_when_a_worker_dies_before_it_is_ready() -> None:
    config = tiny_config("a3c", {"mode": "parallel", "parallel.num_workers": 2, "training.batch_size": None})
    run = Hogwild(config, Alone(), Phases())
    psutil.Process(run._workers().members[0].process.pid).kill()
    run.started()
    steps = 0
    for _ in range(3):
        steps += run.update(1e-4).timesteps
    rest = run.settle()
    steps += rest.timesteps if rest else 0
    state = run.state()
    run.close()
    assert run._crew is not None
    assert run._crew.replaced == 1
    assert steps == state["begun"] * config.rollout_size // 2
    assert len(state["envs"]["games"]) == config.num_envs
    assert torch.isfinite(state["model"]["actor.weight"]).all()
