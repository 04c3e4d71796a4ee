"""Train A3C: workers that share their weights without locks (or one, --mode sequential)."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(
        Door(
            command="train",
            fixed={"algo": "a3c"},
            config="config/a3c_parallel.yaml",
        )
    )
