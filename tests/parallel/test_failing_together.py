"""A rank that finds that going on makes no sense takes the others with it: a restart would come to the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rlcb.errors import PeerLost, TrainingFailed
from tests.ranks import run_ranks, together

REASON = "loss was not finite"


def rank(index: int, folder: Path, failure: Exception) -> None:
    """Rank 1 leaves; rank 0 waits for it, and writes down what it hears."""
    try:
        with together(index, 2, folder) as ranks:
            if index == 1:
                raise failure
            ranks.sum(torch.zeros(1))
    except (TrainingFailed, PeerLost, RuntimeError) as error:
        if index == 0:
            (folder / "heard").write_text(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize(
    ("failure", "heard"),
    [
        (TrainingFailed(REASON), f"TrainingFailed: {REASON}"),
        (RuntimeError("a bug"), "PeerLost: "),  # nobody said why: a restart may help
    ],
)
def test_the_others_hear_why(failure: Exception, heard: str, tmp_path: Path) -> None:
    run_ranks(2, rank, tmp_path, failure)
    assert (tmp_path / "heard").read_text().startswith(heard)
