"""What Stable-Baselines3 needs for this comparison: Procgen as its VecEnv, the IMPALA network, a clock."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray
from procgen import ProcgenGym3Env
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

Infos = list[dict[str, Any]]


class ProcgenVecEnv(VecEnv):  # type: ignore[misc]
    """Over Procgen's own vector environment; Python only touches the environments whose episode ended."""

    def __init__(self, game: str, n_envs: int, num_levels: int, seed: int) -> None:
        self._procgen = ProcgenGym3Env(
            num=n_envs, env_name=game, distribution_mode="easy", num_levels=num_levels, rand_seed=seed, num_threads=0
        )
        self._returns = np.zeros(n_envs, np.float32)
        self._lengths = np.zeros(n_envs, np.int64)
        self._begin = perf_counter()
        super().__init__(n_envs, Box(0, 255, (64, 64, 3), np.uint8), Discrete(15))

    def reset(self) -> NDArray[np.uint8]:
        observation: NDArray[np.uint8] = self._procgen.observe()[1]["rgb"]
        return observation

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._procgen.act(actions)

    def step_wait(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], Infos]:
        rewards, observation, done = self._procgen.observe()
        self._returns += rewards
        self._lengths += 1
        infos: Infos = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(done):
            seconds = round(perf_counter() - self._begin, 6)
            infos[env]["episode"] = {"r": float(self._returns[env]), "l": int(self._lengths[env]), "t": seconds}
        self._returns[done] = 0
        self._lengths[done] = 0
        return observation["rgb"], rewards, done, infos

    def close(self) -> None:
        self._procgen.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        assert attr_name == "render_mode"
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.path(x)
        return out


class ImpalaFeatures(BaseFeaturesExtractor):  # type: ignore[misc]
    """The residual network of Espeholt et al. (2018), channels first, as Stable-Baselines3 passes pictures."""

    def __init__(self, observation_space: Box, features_dim: int = 256) -> None:
        super().__init__(observation_space, features_dim)
        layers: list[nn.Module] = []
        channels, height, width = observation_space.shape
        for stage in (16, 32, 32):
            layers += [nn.Conv2d(channels, stage, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            layers += [_Block(stage), _Block(stage)]
            channels, height, width = stage, -(-height // 2), -(-width // 2)
        layers += [nn.ReLU(), nn.Flatten(), nn.Linear(channels * height * width, features_dim), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, pictures: Tensor) -> Tensor:
        features: Tensor = self.layers(pictures)
        return features


class UpdateTimes(BaseCallback):  # type: ignore[misc]
    """`ends` [N+1]: when training began, and when each of its N updates ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def _on_rollout_start(self) -> None:
        # The first rollout begins when training does, every other when the update before it has ended.
        self.ends.append(perf_counter())

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.ends.append(perf_counter())
