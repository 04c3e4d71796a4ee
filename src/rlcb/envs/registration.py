"""Makes the games known to Gymnasium and to old Gym; both find these functions as entry points of the package."""

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
    from gym.envs.registration import register, registry

    for game in GAMES:
        if game_id(game) not in registry:
            register(
                id=game_id(game),
                entry_point="procgen.gym_registration:make_env",
                kwargs={"env_name": game},
                # Procgen speaks Gym's interface of before 0.26.
                apply_api_compatibility=True,
                disable_env_checker=True,
            )
