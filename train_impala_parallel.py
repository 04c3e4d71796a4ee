"""Train IMPALA with actor processes and learners. Settings: config/impala_parallel.yaml."""

from rlcb.cli import Door, main

main(
    Door(
        command="train",
        fixed={"algo": "impala", "mode": "parallel"},
        config="config/impala_parallel.yaml",
    )
)
