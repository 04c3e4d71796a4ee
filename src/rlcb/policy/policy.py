"""The policy: features to action preferences and a value."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rlcb.kernels import Linear
from rlcb.policy.networks import NETWORKS


class Policy(nn.Module):
    """Samples by the Gumbel-max trick with noise from outside: randomness belongs to environments, not to processes."""

    def __init__(self, arch: str, obs_shape: tuple[int, int, int], n_actions: int, seed: int = 0) -> None:
        super().__init__()
        self.trunk, features = NETWORKS[arch](*obs_shape)
        self.actor = Linear(features, n_actions)
        self.critic = Linear(features, 1)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # with more, other bits come out
        try:
            self._initialise(torch.Generator().manual_seed(seed))
        finally:
            torch.set_num_threads(threads)

    def _initialise(self, generator: torch.Generator) -> None:
        gains: dict[nn.Module, float] = {self.actor: 0.01, self.critic: 1.0}
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(module.weight, gains.get(module, math.sqrt(2)), generator=generator)
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """[N, H, W, C] uint8 to log-probabilities [N, A] and values [N]."""
        features = self.trunk(obs)
        return self.actor(features).log_softmax(dim=1), self.critic(features).squeeze(1)

    @torch.inference_mode()
    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Actions, their log-probabilities, values: [N] each. `noise` [N, A] is Gumbel; zeros make it deterministic."""
        log_probs, values = self(obs)
        actions = (log_probs + noise).argmax(dim=1)
        return actions, log_probs.gather(1, actions.unsqueeze(1)).squeeze(1), values

    @torch.inference_mode()
    def value(self, obs: Tensor) -> Tensor:
        values: Tensor = self(obs)[1]
        return values

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of `actions`, entropies, values: [N] each, with gradients."""
        log_probs, values = self(obs)
        entropies = -(log_probs.exp() * log_probs).sum(dim=1)
        return log_probs.gather(1, actions.unsqueeze(1)).squeeze(1), entropies, values
