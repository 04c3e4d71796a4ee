"""RL Cluster Benchmark: the same experiment, sequential, parallel or on a cluster of CPUs.

Importing this package makes the games known to Gymnasium, and is cheap on purpose: no torch, no Procgen.
"""

from rlcb.envs.registration import register_with_gymnasium

__version__ = "0.1.0"

register_with_gymnasium()
