"""What must not happen in training: a command that creates or overwrites what it should not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import command_line
from tests.test_train_command import SMALL, Run, files, start, wait_for


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--num-env", "8"], "did you mean --num-envs"),
        (["--env", "pong"], "--env pong"),
        (["--algo", "foo"], "--algo foo is not a choice; use ppo"),
        (["--n-epochs", "2.5"], "--n-epochs 2.5"),
        (["--batch-size", "1000"], "1000"),
        (["--config", "absent.yaml"], "absent.yaml: no such file"),
        (["--config", "date.yaml"], "date.yaml: not valid YAML"),
        (["--output-dir", "/proc/nowhere"], "/proc"),
        (["--output-dir", "file/run"], "is a file"),
        (["--resume", "nothing"], "no run there"),
        (["--resume"], "which run"),
        (["--resume", "x", "--overwrite"], "one replaces"),
        (["stray"], "stray"),
    ],
)
def test_bad_input_is_refused_before_anything_is_made(
    rlcb: Run, tmp_path: Path, words: list[str], expected: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "date.yaml").write_text("logging: {output_dir: 2026-11-31}")
    done = rlcb("train", *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())
    assert files(tmp_path) == {"file", "date.yaml"}


def test_several_mistakes_are_told_together(rlcb: Run, tmp_path: Path) -> None:
    done = rlcb("train", "--num-env", "8", "--env", "pong", "--gamma", "2", "--config", "absent.yaml")
    assert len(done.stderr.splitlines()) == 4
    assert files(tmp_path) == set()


def test_a_run_is_not_overwritten_unless_asked(rlcb: Run, tmp_path: Path) -> None:
    words = [*SMALL, "--total-timesteps", "128", "--output-dir", "out"]
    assert rlcb("train", *words).returncode == 0
    before = {name: (tmp_path / "out" / name).read_bytes() for name in files(tmp_path / "out")}
    refused = rlcb("train", *words, "--seed", "1")
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files(tmp_path / "out")} == before
    (tmp_path / "out/notes.txt").write_text("mine")
    assert rlcb("train", *words, "--seed", "1", "--overwrite").returncode == 0
    assert yaml.safe_load((tmp_path / "out/config.yaml").read_text())["env"]["seed"] == 1
    assert (tmp_path / "out/notes.txt").read_text() == "mine"
    events = [name for name in files(tmp_path / "out") if "tfevents" in name]
    assert len(events) == 1


def test_a_resumed_run_stays_the_same_experiment(rlcb: Run) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "128", "--output-dir", "out")
    changed = rlcb("train", "--resume", "out", "--num-envs", "16", "--total-timesteps", "256")
    assert changed.returncode == 2
    assert "--num-envs 16: the run has 8" in changed.stderr
    spent = rlcb("train", "--resume", "out")
    assert spent.returncode == 2
    assert "spent its budget" in spent.stderr


def test_other_processes_have_the_same_environments(rlcb: Run) -> None:
    crew = ["--algo", "impala", "--mode", "parallel", "--num-actors", "2", "--num-learners", "1"]
    assert rlcb("train", *SMALL, *crew, "--total-timesteps", "128", "--output-dir", "out").returncode == 0
    done = rlcb("train", "--resume", "out", "--num-actors", "4", "--num-envs", "16", "--total-timesteps", "256")
    assert done.returncode == 2
    assert "--num-envs 16: the run has 8" in done.stderr


def test_a_run_that_was_killed_before_its_summary_gets_one(rlcb: Run, tmp_path: Path) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "128", "--output-dir", "out")
    file = tmp_path / "out/training_summary.json"
    before = json.loads(file.read_text())
    file.unlink()
    done = rlcb("train", "--resume", "out")
    assert done.returncode == 0, done.stderr
    after = json.loads(file.read_text())
    assert [after[name] for name in ("status", "total_timesteps", "total_updates")] == [
        before[name] for name in ("status", "total_timesteps", "total_updates")
    ]


def test_two_processes_do_not_train_in_one_place(rlcb: Run, tmp_path: Path) -> None:
    process = start(tmp_path, *SMALL, "--total-timesteps", "100000000", "--save-interval", "1", "--output-dir", "out")
    try:
        wait_for(lambda: any((tmp_path / "out/checkpoints").glob("*.pt")))
        second = rlcb("train", "--resume", "out")
        assert second.returncode == 2
        assert "another process is training here" in second.stderr
    finally:
        process.kill()
        process.wait(timeout=20)


def test_a_damaged_checkpoint_is_passed_over(rlcb: Run, tmp_path: Path) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "384", "--save-interval", "1", "--output-dir", "out")
    for name in ("final", "step_384"):
        file = tmp_path / f"out/checkpoints/ppo_sequential_{name}.pt"
        stamp = file.stat().st_mtime_ns
        file.write_bytes(file.read_bytes()[:-2000])
        os.utime(file, ns=(stamp, stamp))
    done = rlcb("train", "--resume", "out", "--total-timesteps", "512")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("damaged") == 2
    assert "Resumed at step: 256" in done.stdout


def test_a_run_without_a_place_gets_one_of_its_own(rlcb: Run, tmp_path: Path) -> None:
    assert rlcb("train", *SMALL, "--total-timesteps", "128", "--env", "bigfish").returncode == 0
    [run] = (tmp_path / "runs").iterdir()
    assert run.name.startswith("ppo_sequential_bigfish_seed42_")


def test_a_run_whose_checkpoints_are_all_damaged_keeps_its_history(rlcb: Run, tmp_path: Path) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "256", "--output-dir", "out")
    log = tmp_path / "out/logs/PPO_Sequential/metrics.jsonl"
    before = log.read_bytes()
    for file in (tmp_path / "out/checkpoints").glob("*.pt"):
        file.write_bytes(file.read_bytes()[:1000])
    done = rlcb("train", "--resume", "out", "--total-timesteps", "512")
    assert done.returncode == 2
    assert "no checkpoint in out/checkpoints can be read" in done.stderr
    assert log.read_bytes() == before


def test_a_copied_run_goes_on_where_it_was(rlcb: Run, tmp_path: Path) -> None:
    """Copying gives the oldest file the newest time."""
    rlcb("train", *SMALL, "--total-timesteps", "384", "--save-interval", "1", "--output-dir", "out")
    (tmp_path / "out/checkpoints/ppo_sequential_step_128.pt").touch()
    done = rlcb("train", "--resume", "out", "--total-timesteps", "512")
    assert "Resumed at step: 384" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--config", "c.yaml"], "of its own"),
        (["--output-dir", "b"], "where it is, out"),
        (["--log-dir", "b"], "--log-dir b: a run is resumed where it is; leave it out"),
    ],
)
def test_what_a_resumed_run_does_not_use_is_an_error(rlcb: Run, words: list[str], expected: str) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "128", "--output-dir", "out")
    done = rlcb("train", "--resume", "out", "--total-timesteps", "256", *words)
    assert done.returncode == 2
    assert expected in done.stderr


def test_runs_that_share_a_folder_of_logs(rlcb: Run, tmp_path: Path) -> None:
    """As those of the files in config/ do: nobody overwrites another's."""

    def train(algo: str, name: str, *words: str) -> None:
        (tmp_path / "c.yaml").write_text(f"logging: {{checkpoint_dir: ./checkpoints/{name}, log_dir: ./logs}}")
        done = rlcb("train", "--algo", algo, "--config", "c.yaml", *SMALL, "--total-timesteps", "128", *words)
        assert done.returncode == 0, done.stderr

    train("ppo", "ppo_sequential")
    train("ppo", "ppo_sequential_large")
    train("impala", "impala_sequential")
    train("ppo", "ppo_sequential_large", "--overwrite")
    again = rlcb("train", "--config", "checkpoints/ppo_sequential_large/config.yaml", "--overwrite")
    assert again.returncode == 0, again.stderr
    logs = sorted(str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("logs/**/metrics.jsonl"))
    assert logs == ["logs/IMPALA_Sequential", "logs/PPO_Sequential", "logs/ppo_sequential_large/PPO_Sequential"]


def test_a_run_beside_its_logs_is_resumed_from_anywhere(
    rlcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.yaml").write_text("logging: {checkpoint_dir: ./checkpoints/ppo_sequential, log_dir: ./logs}")
    assert rlcb("train", "--config", "c.yaml", *SMALL, "--total-timesteps", "128").returncode == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert command_line("train", "--resume", "../checkpoints/ppo_sequential", "--total-timesteps", "256") == 0
    assert files(tmp_path / "elsewhere") == set()
    lines = (tmp_path / "logs/PPO_Sequential/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["timesteps"] for line in lines] == [128, 256]


def test_a_copy_does_not_write_into_the_logs_of_the_original(rlcb: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("logging: {checkpoint_dir: ./checkpoints/ppo_sequential, log_dir: ./logs}")
    assert rlcb("train", "--config", "c.yaml", *SMALL, "--total-timesteps", "128").returncode == 0
    shutil.copytree(tmp_path / "checkpoints/ppo_sequential", tmp_path / "checkpoints/copy")
    done = rlcb("train", "--resume", "checkpoints/copy", "--total-timesteps", "256")
    assert done.returncode == 2
    assert "a copy of checkpoints/ppo_sequential" in done.stderr
