from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlcb.agent import checkpoints_below, find_checkpoint
from rlcb.errors import UserError


def _file(path: Path, seconds: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (seconds, seconds))
    return path


def test_files_of_environments_are_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = _file(Path("runs/b/checkpoints/ppo_sequential_final.pt"), 1)
    new = _file(Path("runs/a/checkpoints/ppo_sequential_final.pt"), 2)
    _file(Path(".venv/lib/torch/test.pt"), 3)
    _file(Path("env/lib/torch/test.pt"), 3)
    _file(Path("env/pyvenv.cfg"), 3)
    Path("runs/latest.pt").symlink_to("/nowhere/ppo.pt")
    assert checkpoints_below(Path()) == [new, old]
    assert find_checkpoint(Path()) == new
    with pytest.raises(UserError, match=f"^checkpoint absent.pt: no such file; there are {new}, {old}$"):
        find_checkpoint(Path("absent.pt"))
