"""After a restart, all nodes go on from the same checkpoint, or none does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlcb.errors import TrainingFailed
from rlcb.runs.checkpoint import save_checkpoint
from rlcb.runs.rundir import RunDir
from rlcb.training import rank
from tests.conftest import tiny_config


class Two:
    """Ourselves, and one that finds `theirs`, once for every look."""

    index = 0

    def __init__(self, *theirs: int) -> None:
        self._theirs = list(theirs)

    def share(self, mine: Any) -> list[Any]:
        return [mine, (self._theirs.pop(0), True)]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir.of(tiny_config("ppo", {"logging.output_dir": str(tmp_path)}))
    save_checkpoint(run.checkpoint("step_256"), {"progress": {"timesteps": 256}})
    return run


def test_one_that_sees_it_later_is_waited_for(run: RunDir) -> None:
    found = rank._same_checkpoint(run, Two(128, 256))  # type: ignore[arg-type]
    assert found is not None
    assert found["progress"]["timesteps"] == 256


def test_one_that_never_sees_it_ends_the_run(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "FIND_SECONDS", -1.0)
    with pytest.raises(TrainingFailed, match="of steps 0 and 256; the directory of a run has to be on storage"):
        rank._same_checkpoint(run, Two(0))  # type: ignore[arg-type]
