"""What several rooms of tests share."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch

from rlcb.config import Config, Override, load_config

ROOT = Path(__file__).parent.parent

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, runs that tests start would inherit that it is ignored

# Small enough for a test, large enough for several minibatches.
TINY = {"env.num_envs": 8, "training.n_steps": 16, "training.batch_size": 64}


def tiny_config(algo: str = "ppo", settings: dict[str, Any] | None = None) -> Config:
    everything = {"algo": algo, **TINY, **(settings or {})}
    return load_config(None, [Override(path, value, path) for path, value in everything.items()])


def assert_equal(found: Any, expected: Any, where: str = "state") -> None:
    """Bit for bit, through all levels."""
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_equal(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for index, item in enumerate(expected):
            assert_equal(found[index], item, f"{where}[{index}]")
    else:
        assert found == expected, where


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The work of tests is small; threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the configuration files and nothing else; tests that ask for it are in it."""
    (tmp_path / "config").symlink_to(ROOT / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command_line(*words: str) -> int:
    """`rlcb` in this process: the exit code. What workers of a parallel run print goes where the first ones wrote;
    the run's log has it too."""
    from rlcb.cli import main

    with pytest.raises(SystemExit) as end:
        main(argv=words)
    assert isinstance(end.value.code, int)
    return end.value.code


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A very short run of PPO."""
    from rlcb.training.train import train

    folder = tmp_path_factory.mktemp("trained")
    settings = {"training.total_timesteps": 128, "hardware.num_threads": 1, "logging.output_dir": str(folder)}
    assert train(tiny_config("ppo", settings)) == 0
    return folder


@pytest.fixture
def checkpoint(trained: Path, tmp_path: Path) -> Path:
    """Its checkpoint, alone in an empty directory."""
    return Path(shutil.copy(trained / "checkpoints/ppo_sequential_final.pt", tmp_path))


@pytest.fixture
def rlcb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in an empty directory. In this process: importing torch takes longer than most tests."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        output, errors = io.StringIO(), io.StringIO()
        with monkeypatch.context() as here, redirect_stdout(output), redirect_stderr(errors):
            here.chdir(tmp_path)
            for name, value in environment.items():
                here.setenv(name, value)
            code = command_line(*words)
        return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())

    return run
