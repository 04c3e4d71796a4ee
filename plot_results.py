"""Draw the training curves of a run."""

from rlcb.cli import Door, main

if __name__ == "__main__":
    main(Door(command="plot"))
