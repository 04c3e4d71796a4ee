"""A rank that finds that going on makes no sense takes the others with it: a restart would come to the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as multiprocessing

from rlcb.cpu.phases import Phases
from rlcb.errors import PeerLost, TrainingFailed
from rlcb.training.ranks import STORE_FILE, Together

REASON = "loss was not finite"


def rank(index: int, folder: str, failure: Exception) -> None:
    """Rank 1 leaves; rank 0 waits for it, and writes down what it hears."""
    os.environ |= {"RANK": str(index), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    os.environ[STORE_FILE] = f"{folder}/store"
    try:
        with Together(Phases(), timeout=60.0) as ranks:
            if index == 1:
                raise failure
            ranks.sum(torch.zeros(1))
    except (TrainingFailed, PeerLost, RuntimeError) as error:
        if index == 0:
            Path(folder, "heard").write_text(f"{type(error).__name__}: {error}")


@pytest.mark.parametrize(
    ("failure", "heard"),
    [
        (TrainingFailed(REASON), f"TrainingFailed: {REASON}"),
        (RuntimeError("a bug"), "PeerLost: "),  # nobody said why: a restart may help
    ],
)
def test_the_others_hear_why(failure: Exception, heard: str, tmp_path: Path) -> None:
    multiprocessing.spawn(rank, args=(str(tmp_path), failure), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]
    assert (tmp_path / "heard").read_text().startswith(heard)
