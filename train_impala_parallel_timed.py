"""Train IMPALA with actor processes and learners for a fixed time. Settings: config/impala_parallel.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "impala", "mode": "parallel"},
            config="config/impala_parallel.yaml",
            duration=0.5,
            runs_in="benchmarks",
        )
    )
