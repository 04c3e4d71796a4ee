"""What the agent sees."""

from rlcb.envs.procgen import EnvState, ProcgenVectorEnv, make_envs

__all__ = ["EnvState", "ProcgenVectorEnv", "make_envs"]
