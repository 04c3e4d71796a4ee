"""Train PPO in several processes for a fixed time. Settings: config/ppo_parallel.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "ppo", "mode": "parallel"},
            config="config/ppo_parallel.yaml",
            duration=1.0,
            runs_in="benchmarks",
            num_envs_per_worker=True,
        )
    )
