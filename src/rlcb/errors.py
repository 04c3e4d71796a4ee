"""What the user can put right, as opposed to what is a bug of ours."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """Bad input: one line per problem, each naming the key, its value and the remedy. The command exits with 2."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class TrainingFailed(Exception):
    """A run that cannot go on (diverged, say). The command prints the line and exits with 1; no traceback."""


class PeerLost(Exception):
    """Another process of the run has died or does not answer. The launcher starts all of them again."""
