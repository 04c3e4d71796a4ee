"""What is measured. Standard library only: Stable-Baselines3's environment reads this too."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Workload:
    """PPO on CoinRun, easy, 200 levels."""

    arch: str
    n_envs: int
    n_steps: int
    batch_size: int
    n_epochs: int
    learning_rate: float
    updates: int  # measured
    warm_up: int  # updates before them: a virtual machine may have to ask its host for memory, which takes time
    quick: bool = False  # tiny sizes
    game: str = "coinrun"
    seed: int = 42
    num_levels: int = 200
    gamma: float = 0.999
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5

    @property
    def rollout_size(self) -> int:
        return self.n_envs * self.n_steps

    @property
    def total_timesteps(self) -> int:
        return self.rollout_size * (self.warm_up + self.updates)

    def one_pass(self, n_steps: int) -> Workload:
        """The same games and network, learnt in one pass over unrolls of 16 steps, for about as long."""
        n_steps, unroll = min(n_steps, self.n_steps), min(16, self.n_steps)
        per_update = self.n_envs * n_steps
        updates = 2 if self.quick else max(2, ONE_PASS_SAMPLES[self.arch] // per_update)
        return replace(
            self,
            n_steps=n_steps,
            batch_size=self.n_envs * unroll,
            n_epochs=1,
            updates=updates,
            warm_up=updates // 6 + 1,
        )

    def __str__(self) -> str:
        return (
            f"{self.arch}, {self.n_envs} environments × {self.n_steps} steps, "
            f"batch {self.batch_size}, {self.n_epochs} epochs"
        )


ONE_PASS_SAMPLES = {"nature": 61_440, "impala": 20_480}

WORKLOADS = {
    "nature": Workload("nature", 32, 128, 1024, 4, 3e-4, updates=6, warm_up=1),
    "impala": Workload("impala", 64, 256, 2048, 3, 5e-4, updates=1, warm_up=1),
}


def choose(name: str, updates: int | None, quick: bool) -> Workload:
    workload = WORKLOADS[name]
    if quick:
        workload = replace(workload, n_envs=4, n_steps=8, batch_size=16, n_epochs=2, updates=2, quick=True)
    return replace(workload, updates=updates) if updates else workload


def measurement_flags(description: str | None) -> argparse.ArgumentParser:
    """The command line of one measurement, whichever side it measures."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--updates", type=int, help="measured updates")
    parser.add_argument("--threads", type=int, required=True, help="threads of torch")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it work at all?")
    return parser
