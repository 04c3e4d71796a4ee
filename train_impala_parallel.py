"""Train IMPALA with actor processes and learners. Settings: config/impala_parallel.yaml."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "impala", "mode": "parallel"},
            config="config/impala_parallel.yaml",
        )
    )
