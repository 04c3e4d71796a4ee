"""Train A2C, in one process or (--mode parallel) in several."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "a2c"},
            config="config/a2c_sequential.yaml",
        )
    )
