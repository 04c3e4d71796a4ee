"""Train PPO in one process for a fixed time. Settings: config/ppo_sequential.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "ppo", "mode": "sequential"},
            config="config/ppo_sequential.yaml",
            duration=1.0,
            runs_in="benchmarks",
        )
    )
