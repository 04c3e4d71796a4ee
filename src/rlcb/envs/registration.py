"""Makes the games known to Gymnasium (on `import rlcb`) and to old Gym (an entry point of the package)."""

from __future__ import annotations

from rlcb.games import GAMES, game_id


def register_with_gymnasium() -> None:
    """After this, `gymnasium.make_vec("procgen-coinrun-v0", num_envs=8)` works."""
    import gymnasium

    for game in GAMES:
        if game_id(game) not in gymnasium.registry:
            gymnasium.register(
                id=game_id(game),
                vector_entry_point="rlcb.envs.procgen:ProcgenVectorEnv",
                kwargs={"game": game},
            )


def register_with_gym() -> None:
    """After this, the guides' `gym.make("procgen-coinrun-v0")` works without importing procgen first."""
    silence_gym()
    import procgen  # noqa: F401, registers itself


def silence_gym() -> None:
    """Procgen imports gym, which would print a notice about its own age to our users."""
    import gym_notices.notices

    gym_notices.notices.notices.clear()
