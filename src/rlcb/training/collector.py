"""Fills rollouts: environments and policy, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlcb.algorithms import Rollout
from rlcb.cpu.phases import Phases
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, EnvState, ProcgenVectorEnv
from rlcb.envs.randomness import EnvRandomness
from rlcb.kernels import weights_held
from rlcb.policy import Policy
from rlcb.training.execution import Episode

NOISE_AHEAD = 128  # steps


def empty_rollout(n_steps: int, n_envs: int) -> Rollout:
    return Rollout(
        obs=torch.zeros(n_steps + 1, n_envs, *OBS_SHAPE, dtype=torch.uint8),
        actions=torch.zeros(n_steps, n_envs, dtype=torch.int64),
        rewards=torch.zeros(n_steps, n_envs),
        dones=torch.zeros(n_steps, n_envs, dtype=torch.bool),
        log_probs=torch.zeros(n_steps, n_envs),
        values=torch.zeros(n_steps + 1, n_envs),
    )


class Collector:
    """Owns the environments. `step` counts the steps of each of them, and those that were left out."""

    def __init__(self, envs: ProcgenVectorEnv, policy: Policy, randomness: EnvRandomness, phases: Phases) -> None:
        self._envs = envs
        self._policy = policy
        self._randomness = randomness
        self._phases = phases
        self._obs = torch.from_numpy(envs.observe().copy())
        self.step = 0
        self.taken = 0  # steps in the last rollout
        self._noise, self._noise_from = torch.empty(0), 0  # of actions, and the step that it begins with

    def collect(
        self, rollout: Rollout, bootstrap: bool = True, enough: Callable[[int], bool] | None = None
    ) -> list[Episode]:
        """Fill the rollout, or its beginning where so many steps are `enough`; return the episodes that ended in it.
        `bootstrap`: with the value after the last step."""
        phases = self._phases
        n_steps = len(rollout.actions)
        noise = self._noise_of(n_steps)
        episodes: list[Episode] = []
        rollout.obs[0].copy_(self._obs)
        phases.mark("other")
        with weights_held():
            for t in range(n_steps):
                if enough is not None and enough(t):
                    self.step += n_steps - t  # their noise is left out, so that all environments stay at the same step
                    break
                actions, log_probs, values = self._policy.act(rollout.obs[t], noise[t])
                rollout.actions[t], rollout.log_probs[t], rollout.values[t] = actions, log_probs, values
                phases.mark("act")
                obs, rewards, dones, _, infos = self._envs.step(actions.numpy())
                # Procgen resets by itself: where an episode ended, this observation already belongs to the next one.
                rollout.obs[t + 1].copy_(torch.from_numpy(obs))
                rollout.rewards[t] = torch.from_numpy(rewards)
                rollout.dones[t] = torch.from_numpy(dones)
                self.step += 1
                self.taken = t + 1
                if "episode" in infos:
                    ended = np.flatnonzero(infos["_episode"])
                    returns, lengths = infos["episode"]["r"][ended].tolist(), infos["episode"]["l"][ended].tolist()
                    episodes += (Episode(*one, self.step) for one in zip(returns, lengths, strict=True))
                phases.mark("environment")
        self._obs.copy_(rollout.obs[self.taken])
        if bootstrap:
            rollout.values[self.taken] = self._policy.value(self._obs)
            phases.mark("act")
        return episodes

    def _noise_of(self, n_steps: int) -> Tensor:
        """For the next steps. To start everybody's generator takes as long as a few dozen steps of noise."""
        begin = self.step - self._noise_from
        if not 0 <= begin <= len(self._noise) - n_steps:
            self._noise = self._randomness.gumbel(self.step, max(n_steps, NOISE_AHEAD), N_ACTIONS)
            self._noise_from, begin = self.step, 0
        return self._noise[begin : begin + n_steps]

    def state(self) -> dict[str, Any]:
        """One entry per environment."""
        envs = self._envs.get_state()
        return {
            "games": [torch.frombuffer(bytearray(game), dtype=torch.uint8) for game in envs.games],
            "returns": torch.from_numpy(envs.returns),
            "lengths": torch.from_numpy(envs.lengths),
        }

    def load(self, envs: dict[str, Any], step: int) -> None:
        games = [bytes(game.numpy()) for game in envs["games"]]
        self._envs.set_state(EnvState(games, envs["returns"].numpy(), envs["lengths"].numpy()))
        self._obs.copy_(torch.from_numpy(self._envs.observe()))
        self.step = step

    def close(self) -> None:
        self._envs.close()
