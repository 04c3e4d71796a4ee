"""RL Cluster Benchmark: the same experiment, sequential, parallel or on a cluster of CPUs.

Importing this package is cheap on purpose: no torch, no Procgen. The 16 games are known to Gymnasium through the
`gymnasium.envs` entry point of the installed package.
"""

__version__ = "0.1.0"
