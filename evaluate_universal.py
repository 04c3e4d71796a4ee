"""Evaluate a trained agent of any algorithm, and name the algorithm in the output."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(Door(command="evaluate"))
