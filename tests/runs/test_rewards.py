from __future__ import annotations

import pytest

from rlcb.runs.rewards import RewardTally


def test_initial_final_and_best_are_means_of_a_hundred() -> None:
    tally = RewardTally()
    rewards = [0.0] * 100 + [10.0] * 100 + [4.0] * 150
    for reward in rewards:
        tally.add(reward, 7)
    assert tally.initial == (0.0, 0.0)
    assert tally.final == (4.0, 0.0)
    assert tally.best == 10.0
    assert tally.episodes == 350
    assert tally.mean_length == 7


def test_one_lucky_episode_is_not_the_best_reward() -> None:
    tally = RewardTally()
    for index in range(300):
        tally.add(100.0 if index == 150 else 0.0, 1)
    assert tally.best == pytest.approx(1.0)


def test_short_runs_take_what_there_is() -> None:
    tally = RewardTally()
    assert (tally.initial, tally.final, tally.best) == (None, None, None)
    tally.add(2.0, 1)
    tally.add(4.0, 1)
    assert tally.initial == tally.final == (3.0, 1.0)
    assert tally.best == 3.0


def test_state_goes_on() -> None:
    first, whole = RewardTally(), RewardTally()
    for index in range(120):
        first.add(index, index)
        whole.add(index, index)
    second = RewardTally()
    second.load(first.state())
    for index in range(80):
        second.add(index, 1)
        whole.add(index, 1)
    assert second.state() == whole.state()
