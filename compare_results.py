"""Compare a sequential run with a parallel one."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(Door(command="compare"))
