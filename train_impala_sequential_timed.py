"""Train IMPALA in one process for a fixed time. Settings: config/impala_sequential.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "impala", "mode": "sequential"},
            config="config/impala_sequential.yaml",
            duration=0.5,
            runs_in="benchmarks",
        )
    )
