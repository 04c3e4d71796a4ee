"""Evaluate a trained agent of any algorithm."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(Door(command="evaluate", titled=False))
