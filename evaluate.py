"""Evaluate a trained agent of any algorithm."""

from rlcb.cli import Door, main

main(Door(command="evaluate", titled=False))
