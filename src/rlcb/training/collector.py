"""Fills rollouts: environments and policy, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlcb.algorithms import Rollout
from rlcb.cpu.phases import Phases
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, EnvState, ProcgenVectorEnv
from rlcb.envs.randomness import EnvRandomness
from rlcb.policy import Policy
from rlcb.training.execution import Episode


def empty_rollout(n_steps: int, n_envs: int, obs_shape: tuple[int, ...]) -> Rollout:
    return Rollout(
        obs=torch.zeros(n_steps + 1, n_envs, *obs_shape, dtype=torch.uint8),
        actions=torch.zeros(n_steps, n_envs, dtype=torch.int64),
        rewards=torch.zeros(n_steps, n_envs),
        dones=torch.zeros(n_steps, n_envs, dtype=torch.bool),
        log_probs=torch.zeros(n_steps, n_envs),
        values=torch.zeros(n_steps + 1, n_envs),
    )


class Collector:
    """Owns the environments and the rollout they fill. `step` counts the steps of each environment."""

    def __init__(
        self, envs: ProcgenVectorEnv, policy: Policy, n_steps: int, randomness: EnvRandomness, phases: Phases
    ) -> None:
        self._envs = envs
        self._policy = policy
        self._n_steps = n_steps
        self._randomness = randomness
        self._phases = phases
        self.rollout = empty_rollout(n_steps, envs.num_envs, OBS_SHAPE)
        self.rollout.obs[-1].copy_(torch.from_numpy(envs.observe()))
        self.step = 0

    def collect(self) -> list[Episode]:
        """Fill the rollout; return the episodes that ended in it."""
        rollout, phases = self.rollout, self._phases
        noise = self._randomness.gumbel(self.step, self._n_steps, N_ACTIONS)
        episodes: list[Episode] = []
        rollout.obs[0].copy_(rollout.obs[-1])
        phases.mark("other")
        for t in range(self._n_steps):
            actions, log_probs, values = self._policy.act(rollout.obs[t], noise[t])
            rollout.actions[t], rollout.log_probs[t], rollout.values[t] = actions, log_probs, values
            phases.mark("act")
            obs, rewards, dones, _, infos = self._envs.step(actions.numpy())
            # Procgen resets by itself: where an episode ended, this observation already belongs to the next one.
            rollout.obs[t + 1].copy_(torch.from_numpy(obs))
            rollout.rewards[t] = torch.from_numpy(rewards)
            rollout.dones[t] = torch.from_numpy(dones)
            if "episode" in infos:
                ended = np.flatnonzero(infos["_episode"])
                returns, lengths = infos["episode"]["r"][ended], infos["episode"]["l"][ended]
                episodes += map(Episode, returns.tolist(), lengths.tolist())
            phases.mark("environment")
        rollout.values[-1] = self._policy.value(rollout.obs[-1])
        phases.mark("act")
        self.step += self._n_steps
        return episodes

    def state(self) -> dict[str, Any]:
        envs = self._envs.get_state()
        return {
            "step": self.step,
            "games": [torch.frombuffer(bytearray(game), dtype=torch.uint8) for game in envs.games],
            "returns": torch.from_numpy(envs.returns),
            "lengths": torch.from_numpy(envs.lengths),
        }

    def load(self, state: dict[str, Any], part: slice) -> None:
        games = [bytes(game.numpy()) for game in state["games"]]
        self._envs.set_state(EnvState(games, state["returns"].numpy(), state["lengths"].numpy())[part])
        self.rollout.obs[-1].copy_(torch.from_numpy(self._envs.observe()))
        self.step = state["step"]
