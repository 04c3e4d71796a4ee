"""The agent: a network and what it does with an observation."""

from rlcb.policy.networks import MICRO_BATCH_SIZES
from rlcb.policy.policy import Policy

__all__ = ["MICRO_BATCH_SIZES", "Policy"]
