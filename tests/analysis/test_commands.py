"""`rlcb compare`, `plot` and `report`, and the guides' doors, as a user runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib import image

from tests.analysis.conftest import MakeRun
from tests.conftest import ROOT

Rlcb = Callable[..., subprocess.CompletedProcess[str]]


def door(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / words[0]), *words[1:]]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)


def test_compare_results(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("benchmarks/sequential_1h")
    make_run("benchmarks/parallel_1h", mode="parallel", avg_fps=200.0)
    done = door(
        tmp_path,
        *("compare_results.py", "--sequential", "./benchmarks/sequential_1h"),
        *("--parallel", "./benchmarks/parallel_1h", "--output", "./benchmarks/comparison.png"),
    )
    assert done.returncode == 0, done.stderr
    assert "Speedup (Parallel/Sequential)            -                    2.00x" in done.stdout
    assert image.imread(tmp_path / "benchmarks/comparison.png").shape[:2] == (1200, 1800)
    assert (
        "Sequential Directory: benchmarks/sequential_1h" in (tmp_path / "benchmarks/comparison_report.txt").read_text()
    )


def test_unfair_and_unfinished_runs_are_marked_everywhere(make_run: MakeRun, rlcb: Rlcb, tmp_path: Path) -> None:
    make_run("a")
    shutil.rmtree(make_run("b", mode="parallel", settings={"env.name": "maze"}) / "logs")
    done = rlcb("compare", "a", "b", "--output", "out/picture.svg")
    assert done.returncode == 0, done.stderr
    report = rlcb("report", "a", "b")
    assert report.returncode == 0, report.stderr
    for text in (
        done.stdout,
        rlcb("plot", "a", "b").stdout,
        (tmp_path / "out/comparison_report.txt").read_text(),
        (tmp_path / "report.html").read_text(),
    ):
        assert "ot a fair comparison" in text
        assert "game: PPO Sequential coinrun, PPO Parallel maze" in text
        assert "metrics.jsonl is missing: no curves" in text
    assert (tmp_path / "out/picture.svg").read_text().startswith("<?xml")


def test_bad_input_is_one_line_each(make_run: MakeRun, rlcb: Rlcb, tmp_path: Path) -> None:
    make_run("a")
    done = rlcb("compare", "a", "nowhere", "--group", "x", "--group", "y=gone", "--grup", "z=a")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("error: ") for line in lines)
    assert not (tmp_path / "comparison.png").exists()
    for words in (["compare"], ["compare", "a", "--output", "x.txt"], ["report", "a", "--output", "x.png"]):
        assert rlcb(*words).returncode == 2
    assert rlcb("plot", "a", "--metric", "train/nothing").returncode == 2
    assert rlcb("plot", "--log-file", "none.jsonl").returncode == 2


def test_a_report_of_games_without_scores(make_run: MakeRun, rlcb: Rlcb, tmp_path: Path) -> None:
    roots = [make_run(game, settings={"env.name": game}, final_reward=None) for game in ("coinrun", "maze")]
    (roots[1] / "config.yaml").unlink()
    done = rlcb("report", *map(str, roots))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_names_with_dollars(make_run: MakeRun, rlcb: Rlcb, tmp_path: Path) -> None:
    done = rlcb("compare", str(make_run("$a_$b")), str(make_run("$x^{$")))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "comparison.png").is_file()


def test_compare_needs_no_torch(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("a")
    make_run("b")
    code = (
        "import sys\nfrom rlcb.cli import main\n"
        "try:\n    main(argv=['compare', 'a', 'b'])\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_plot_results(make_run: MakeRun, tmp_path: Path) -> None:
    logs = make_run("run") / "logs"
    shutil.copytree(logs, tmp_path / "logs")
    done = door(tmp_path, "plot_results.py", "--log-file", "logs/PPO_Sequential/metrics.jsonl")
    assert done.returncode == 0, done.stderr
    assert image.imread(tmp_path / "logs/PPO_Sequential/training_curves.png").ndim == 3


@pytest.mark.parametrize("words", [["--x", "time"], ["--metric", "time/fps", "--smooth", "0"], ["--published"]])
def test_plot(make_run: MakeRun, rlcb: Rlcb, tmp_path: Path, words: list[str]) -> None:
    for seed in (1, 2, 3):
        make_run(f"ppo_seed{seed}", settings={"env.seed": seed}, rewards=(seed, seed + 1.0, seed + 2.0))
    done = rlcb("plot", "ppo_seed1", "ppo_seed2", "ppo_seed3", "--output", "curves.svg", *words)
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "curves.svg").read_text()


def test_template(make_run: MakeRun, rlcb: Rlcb) -> None:
    make_run("a", evaluation={"train": 7.0})
    make_run("b", algo="impala")
    done = rlcb("compare", "a", "b", "--template")
    assert done.returncode == 0, done.stderr
    for line in ("PPO SEQUENTIAL", "IMPALA SEQUENTIAL", "COMPARISON", "  Mean Reward: 7.00 ± 1.00", "CPU: a CPU"):
        assert line in done.stdout.splitlines()
