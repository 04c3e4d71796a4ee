"""From a configuration to the pieces that every execution is made of."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.optim import Optimizer

from rlcb.algorithms import RECIPES
from rlcb.config import Config
from rlcb.cpu.phases import Phases
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, make_envs
from rlcb.envs.randomness import EnvRandomness
from rlcb.policy import MICRO_BATCH_SIZES, Policy
from rlcb.training.collector import Collector
from rlcb.training.learner import Learner
from rlcb.training.ranks import Ranks

OptimizerOf = Callable[[nn.Parameter], Optimizer]


def part_of(total: int, index: int, size: int) -> slice:
    """The share of one of `size` processes; where they do not divide, as after the loss of a node, the first ones get
    one more."""
    each, more = divmod(total, size)
    start = index * each + min(index, more)
    return slice(start, start + each + (index < more))


def make_policy(config: Config) -> Policy:
    return Policy(config.model.arch, OBS_SHAPE, N_ACTIONS, seed=config.env.seed)


def make_optimizer(config: Config, parameters: Tensor) -> Optimizer:
    return RECIPES[config.algo].optimizer(parameters, config.training.learning_rate)


def make_learner(
    config: Config,
    policy: Policy,
    ranks: Ranks,
    optimizer: OptimizerOf | None = None,
    batch_share: float | None = None,
) -> Learner:
    return Learner(
        policy,
        RECIPES[config.algo].algorithm(config),
        optimizer or (lambda parameters: make_optimizer(config, parameters)),
        max_grad_norm=config.training.max_grad_norm,
        micro_batch_size=config.hardware.micro_batch_size or MICRO_BATCH_SIZES[config.model.arch],
        ranks=ranks,
        batch_share=batch_share,
    )


def make_collector(
    config: Config, part: slice, policy: Policy, phases: Phases, life: int = 0
) -> tuple[Collector, EnvRandomness]:
    """`life` counts how often these environments had to be replaced: each time they see other levels."""
    env = config.env
    seed = (env.seed + life * 1_000_003) % 2**31
    envs = make_envs(
        env.name,
        config.num_envs,
        seed=seed,
        part=part,
        distribution_mode=env.distribution_mode,
        num_levels=env.num_levels,
        start_level=env.start_level,
    )
    randomness = EnvRandomness(seed, range(config.num_envs)[part])
    return Collector(envs, policy, randomness, phases), randomness
