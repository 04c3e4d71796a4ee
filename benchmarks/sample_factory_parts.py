"""What Sample Factory needs for this comparison: Procgen as a vector environment, a repair, a clock that stops it."""

# mypy: disable-error-code="import-not-found"
# (Sample Factory is installed in an environment of its own.)

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from procgen import ProcgenGym3Env
from sample_factory.algo.learning.learner import Learner
from sample_factory.algo.runners.runner import AlgoObserver, Runner

from benchmarks.workloads import Workload

Pictures = NDArray[np.uint8]


class ProcgenVector(Env[Pictures, Any]):
    """To Sample Factory, a vector environment is one whose several agents act at once. Procgen resets by itself."""

    observation_space = Box(0, 255, (3, 64, 64), np.uint8)
    action_space = Discrete(15)
    is_multiagent = True

    def __init__(self, game: str, n_envs: int, num_levels: int, seed: int) -> None:
        self.num_agents = n_envs
        self._never = np.zeros(n_envs, np.bool_)  # cut off: Procgen's own time limit counts as an end
        self._procgen = ProcgenGym3Env(
            num=n_envs, env_name=game, distribution_mode="easy", num_levels=num_levels, rand_seed=seed, num_threads=0
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pictures, dict[str, Any]]:
        return self._observe()[1], {}

    def step(self, actions: NDArray[np.int32]) -> Any:
        self._procgen.act(actions)
        rewards, pictures, first = self._observe()
        return pictures, rewards, first, self._never, {}

    def close(self) -> None:
        self._procgen.close()

    def _observe(self) -> tuple[NDArray[np.float32], Pictures, NDArray[np.bool_]]:
        rewards, observation, first = self._procgen.observe()
        # Channels first by strides alone: Sample Factory's own copy into shared memory puts the bytes in order.
        return rewards, observation["rgb"].transpose(0, 3, 1, 2), first


def make_procgen(
    workload: Workload, n_envs: int, name: str, config: Any, place: Any, render_mode: str | None = None
) -> ProcgenVector:
    """For `register_env`. `place` says which worker asks; a first one, for the shapes alone, has none."""
    seed = workload.seed + (place.env_id if place else 0)
    return ProcgenVector(workload.game, n_envs, workload.num_levels, seed)


class VtraceLearner(Learner):  # type: ignore[misc]
    """Version 2.1.1 fails with V-trace when it writes its first summary: it looks for the advantages where only GAE
    leaves them (its pull request 278). The learning itself is untouched."""

    def _record_summaries(self, train_loop_vars: Any) -> Any:
        train_loop_vars.mb.advantages = train_loop_vars.adv
        return super()._record_summaries(train_loop_vars)


class Moment(NamedTuple):
    seconds: float
    frames: int  # learnt from, by Sample Factory's own count


class UpdateTimes(AlgoObserver):  # type: ignore[misc]
    """`ends`: when each update ended. After the last that is wanted, training ends."""

    def __init__(self, updates: int) -> None:
        self.ends: list[Moment] = []
        self._updates = updates

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        # The count comes after the news of the update, so it is one update behind: always, and the same for all.
        self.ends.append(Moment(perf_counter(), runner.env_steps[0]))
        if len(self.ends) == self._updates:
            runner.cfg.train_for_env_steps = 0
