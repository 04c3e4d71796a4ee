"""Train PPO in several processes. Settings: config/ppo_parallel.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "ppo", "mode": "parallel"},
            config="config/ppo_parallel.yaml",
        )
    )
