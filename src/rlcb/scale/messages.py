"""What the ranks of a run say to each other during one update. The tests count what they really say."""

from __future__ import annotations

from typing import NamedTuple

from rlcb.config import Config

METRICS = {"ppo": 12, "a2c": 10, "impala": 12}  # numbers that a pass over a rollout ends with
EXTRA = 3  # numbers that travel with a gradient
MOST_SHARING = 16  # ranks of a single machine that add up in memory


class Message(NamedTuple):
    """An all-reduce."""

    elements: int
    element_bytes: int
    per_update: float

    @property
    def size_in_memory(self) -> int:
        """Bytes. What is compressed is so on its way to other machines."""
        return self.elements * max(4, self.element_bytes)

    def shares_memory(self, config: Config) -> bool:
        """Among the ranks of a node. Or does all of it go through gloo? On one machine, what is compressed does."""
        if config.num_nodes > 1:
            return config.num_ranks > config.num_nodes
        return self.element_bytes >= 4 and 1 < config.num_ranks <= MOST_SHARING


MOMENTS = 3  # count, sum, sum of squares


def all_reduces(config: Config, parameters: int, optimizer_tensors: int) -> list[Message]:
    """None where there is one rank."""
    if config.num_ranks == 1:
        return []
    return MESSAGES[config.algo](config, parameters, optimizer_tensors)


def _lockstep(config: Config, parameters: int, optimizer_tensors: int) -> list[Message]:
    training = config.training
    minibatches = config.rollout_size // config.batch_size
    parts, ranks = config.gradient_parts, config.num_ranks
    rows = parts if parts % ranks == 0 else ranks  # everybody's, each with its own place
    said = [Message(rows * MOMENTS, 8, 1)] if training.reward_scaling else []
    if config.sync == "average":
        return [*said, _averages(config, parameters, 1 + optimizer_tensors)]
    if training.normalize_advantage:
        said.append(Message(rows * MOMENTS * minibatches, 8, training.n_epochs))
    said.append(_gradients(config, parameters, training.n_epochs * minibatches))
    return [*said, Message(METRICS[config.algo], 4, 1)]


def _learners(config: Config, parameters: int, optimizer_tensors: int) -> list[Message]:
    training = config.training
    batches = config.rollout_size // config.batch_size
    said = [Message(MOMENTS, 8, 1)] if training.reward_scaling else []
    said.append(_gradients(config, parameters, batches * training.n_epochs))
    return [*said, Message(METRICS[config.algo], 4, 1)]


def _coordinators(config: Config, parameters: int, optimizer_tensors: int) -> list[Message]:
    return [_averages(config, parameters, 1 + optimizer_tensors)]


def _gradients(config: Config, parameters: int, times: int) -> Message:
    return Message(parameters + EXTRA, _width(config), times)


def _averages(config: Config, parameters: int, tensors: int) -> Message:
    """Weights, and what the optimizer remembers of each."""
    return Message(parameters, _width(config), tensors / config.cluster.average_every)


def _width(config: Config) -> int:
    return 2 if config.compresses else 4


MESSAGES = {"ppo": _lockstep, "a2c": _lockstep, "impala": _learners, "a3c": _coordinators}
