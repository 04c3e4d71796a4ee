"""`python -m rlcb`."""

from rlcb.cli import main

main()
