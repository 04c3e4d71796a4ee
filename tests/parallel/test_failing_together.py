"""A rank that finds that going on makes no sense takes the others with it: a restart would come to the same."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.multiprocessing as multiprocessing

from rlcb.cpu.phases import Phases
from rlcb.errors import PeerLost, TrainingFailed
from rlcb.training.ranks import STORE_FILE, Together

REASON = "loss was not finite"


def rank(index: int, folder: str) -> None:
    """Rank 1 leaves, with a reason or without one; rank 0 waits for it, and writes down what it hears."""
    os.environ |= {"RANK": str(index), "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0", "GLOO_SOCKET_IFNAME": "lo"}
    for reason in (TrainingFailed(REASON), RuntimeError("a bug")):
        name = type(reason).__name__
        os.environ[STORE_FILE] = f"{folder}/store_{name}"
        try:
            with Together(Phases(), timeout=60.0) as ranks:
                if index == 1:
                    raise reason
                ranks.sum(torch.zeros(1))
        except (TrainingFailed, PeerLost, RuntimeError) as error:
            if index == 0:
                Path(folder, name).write_text(f"{type(error).__name__}: {error}")


def test_the_others_hear_why(tmp_path: Path) -> None:
    multiprocessing.spawn(rank, args=(str(tmp_path),), nprocs=2)  # type: ignore[attr-defined, no-untyped-call]
    assert (tmp_path / "TrainingFailed").read_text() == f"TrainingFailed: {REASON}"
    assert (tmp_path / "RuntimeError").read_text().startswith("PeerLost: "), "nobody said why: it may be worth a restart"
