from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import ROOT

DOORS = sorted(path.name for path in ROOT.glob("*.py"))


@pytest.mark.parametrize("door", DOORS)
def test_help_of_every_door_needs_no_torch(door: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{str(ROOT / door)!r}, '--help']\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "assert 'torch' not in sys.modules and 'procgen' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--help" in done.stdout


def test_doors_fix_what_they_are_named_for(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    door = str(ROOT / "train_impala_sequential.py")
    done = subprocess.run([sys.executable, door, "--algo", "ppo"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--algo: unknown flag" in done.stderr


def test_a_flag_of_another_command_is_not_its_own_remedy(
    rlcb: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = rlcb("evaluate", "--num-workers", "2")
    assert done.returncode == 2
    assert done.stderr == "error: --num-workers: unknown flag; another command has it; see --help\n"


def test_a_remedy_is_a_flag_of_the_same_command(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = rlcb("train", "--env-name", "coinrun", "--jobname", "x")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: --env-name: unknown flag; did you mean --env?",
        "error: --jobname: unknown flag; see --help",
    ]


def test_words_for_another_command_are_not_lost(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = rlcb("train", "--", "--duration", "1")
    assert done.returncode == 2
    assert done.stderr == "error: -- --duration 1: no other command gets this; leave out the --\n"


def test_commands_are_listed(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = rlcb("--help")
    assert done.returncode == 0
    for command in ("train", "evaluate", "compare", "plot", "report", "suite", "video", "check"):
        assert command in done.stdout
    assert rlcb("--version").stdout.startswith("rlcb ")
    unknown = rlcb("trian")
    assert unknown.returncode == 2
    assert "Traceback" not in unknown.stderr


def test_check_says_one_line_per_part(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = rlcb("check", "--seconds", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("✓")]
    assert [line.split(":")[0][2:] for line in lines] == [
        "Python",
        "PyTorch",
        "Kernels",
        "Procgen",
        "Vector step",
        "Threads",
        "Write to disk",
        "Training (0 s)",
    ]


def test_check_says_what_to_do_where_a_part_is_missing(rlcb: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    code = "import sys; sys.modules['procgen'] = None\nfrom rlcb.cli import main\nmain()"
    words = [sys.executable, "-c", code, "check", "--seconds", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert [line.split(":")[0][2:] for line in failed] == ["Procgen", "Vector step", "Training (0 s)"]
    assert all("setup.sh" in line or "docs/" in line for line in failed)
