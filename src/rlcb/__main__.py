"""`python -m rlcb`."""

from rlcb.cli import main

if __name__ == "__main__":
    main()
