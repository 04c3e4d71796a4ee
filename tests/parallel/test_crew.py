"""Members of a crew that die or are too slow, and what actors and workers make of it."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil
import pytest
import torch

from rlcb.cpu.phases import Phases
from rlcb.errors import TrainingFailed
from rlcb.training.actor_learner import ActorLearner, Filled
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
    assert steps == state["begun"]
    assert len(state["envs"]["games"]) == config.num_envs
    assert torch.isfinite(state["model"]["actor.weight"]).all()


def brittle(pipe: Any) -> None:
    send(pipe, "ready")
    receive(pipe)
    os._exit(1)


def test_who_dies_of_every_task_ends_the_run() -> None:
    crew = Crew(1, brittle, lambda index, life: (), lambda index: f"test-{index}", 30.0)
    with pytest.raises(TrainingFailed, match=r"test-0 ended before it had done anything, 4 times in a row"):
        _ask_again_and_again(crew)
    crew.close()


def slow(pipe: Any, seconds: float) -> None:
    send(pipe, "ready")
    while receive(pipe) is not None:
        time.sleep(seconds)
        send(pipe, "done")


def test_who_is_too_slow_again_and_again_ends_the_run() -> None:
    crew = Crew(1, slow, lambda index, life: (60.0,), lambda index: f"test-{index}", 0.3)
    with pytest.raises(TrainingFailed, match=r"test-0 did not answer within 0 seconds, 4 times in a row; use a larger"):
        _ask_again_and_again(crew)
    crew.close()
    assert crew.replaced == 4


def _ask_again_and_again(crew: Crew) -> None:
    while True:
        crew.send(0, "do")
        crew.receive(wait=True)


def test_a_slot_is_never_given_away_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors die while the learner has part of a batch and waits for the rest."""
    config = tiny_config("impala", {"mode": "parallel", "parallel.num_actors": 2, "parallel.num_learners": 1})
    run = ActorLearner(config, Alone(), Phases())
    held: list[set[int]] = [set(), set()]
    real_send, real_receive, real_copy = Crew.send, Crew.receive, ActorLearner._copy

    def sending(crew: Crew, actor: int, slot: int | None) -> None:
        if slot is not None:
            assert slot not in held[actor], "it has this one already"
            assert (actor, slot) not in [(owner, filled.slot) for owner, filled in run._ready], (
                "still to be learnt from"
            )
            held[actor].add(slot)
        real_send(crew, actor, slot)

    def receiving(crew: Crew, wait: bool) -> tuple[list[tuple[int, Any]], list[int]]:
        messages, replaced = real_receive(crew, wait)
        for actor, filled in messages:
            held[actor].remove(filled.slot)
        for actor in replaced:
            held[actor].clear()
        return messages, replaced

    def copying(learner: ActorLearner, actor: int, filled: Filled, place: int) -> None:
        real_copy(learner, actor, filled, place)
        if place == 0 and learner._crew is not None:
            learner._crew.members[actor].process.kill()

    monkeypatch.setattr(Crew, "send", sending)
    monkeypatch.setattr(Crew, "receive", receiving)
    run.started()
    monkeypatch.setattr(ActorLearner, "_copy", copying)
    for _ in range(4):
        run.update(1e-4)
    run.close()
    assert run._crew is not None
    assert run._crew.replaced >= 3


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_a3c_spends_its_budget_with_other_workers(before: int, after: int) -> None:
    """A rollout of another number of workers has another size."""
    settings = {"mode": "parallel", "env.num_envs": 8, "training.n_steps": 4, "training.batch_size": None}
    settings["training.total_timesteps"] = 640
    first = Hogwild(tiny_config("a3c", {**settings, "parallel.num_workers": before}), Alone(), Phases())
    steps = sum(first.update(1e-4).timesteps for _ in range(3))
    rest = first.settle()
    steps += rest.timesteps if rest else 0
    state = first.state()
    first.close()
    assert state["begun"] == steps < 640

    second = Hogwild(tiny_config("a3c", {**settings, "parallel.num_workers": after}), Alone(), Phases())
    second.load(state)
    second.started()
    for _ in range(640):
        if steps >= 640:
            break
        steps += second.update(1e-4).timesteps
    rest = second.settle()
    second.close()
    assert rest is None
    assert 640 <= steps < 640 + 8 * 4 // after, "spent, and not by more than a rollout"


def test_a3c_begins_nothing_more_when_it_is_to_save() -> None:
    config = tiny_config("a3c", {"mode": "parallel", "parallel.num_workers": 2, "training.batch_size": None})
    run = Hogwild(config, Alone(), Phases())
    run.started()
    run.update(1e-4)
    rest = run.settle()
    run.close()
    one_each = config.rollout_size
    assert rest is None or rest.timesteps <= one_each, "each worker ends what it is at, at most"
