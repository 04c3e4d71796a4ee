"""Training as a user does it: commands, files, signals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rlcb.runs.checkpoint import load_checkpoint
from rlcb.runs.files import read_json_lines
from tests.conftest import assert_equal

Run = Callable[..., subprocess.CompletedProcess[str]]
SMALL = ["--num-envs", "8", "--n-steps", "16", "--batch-size", "64", "--num-threads", "1"]
UPDATE = 128  # steps

LABELS = {"ppo": "PPO", "a2c": "A2C", "impala": "IMPALA"}


def parameters(file: Path) -> torch.Tensor:
    return torch.cat([p.flatten() for p in load_checkpoint(file)["execution"]["model"].values()])


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("algo", LABELS)
def test_a_run_leaves_what_the_guides_list(rlcb: Run, tmp_path: Path, algo: str) -> None:
    words = ["--total-timesteps", str(4 * UPDATE), "--save-interval", "2", "--output-dir", "out"]
    done = rlcb("train", "--algo", algo, *SMALL, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    logs = f"logs/{LABELS[algo]}_Sequential"
    found = files(tmp_path / "out")
    events = {name for name in found if name.startswith(f"{logs}/events.out.tfevents.")}
    assert len(events) == 1
    assert found - events == {
        ".lock",
        "config.yaml",
        "training_summary.json",
        "benchmark_metrics.json",
        "metrics.json",
        f"checkpoints/{algo}_sequential_step_256.pt",
        f"checkpoints/{algo}_sequential_step_512.pt",
        f"checkpoints/{algo}_sequential_final.pt",
        f"{logs}/metrics.jsonl",
        f"{logs}/training.log",
    }
    assert f"{LABELS[algo]} Sequential Training" in done.stdout
    for line in ("CPU: ", "Threads: ", "TRAINING SUMMARY", "Total Timesteps: 512", "Total Updates: 4", "Peak Memory: "):
        assert line in done.stdout
    _check_summary(json.loads((tmp_path / "out/training_summary.json").read_text()), LABELS[algo])
    _check_benchmark(json.loads((tmp_path / "out/benchmark_metrics.json").read_text()))
    records = read_json_lines(tmp_path / "out" / logs / "metrics.jsonl")
    _check_records(records, algo)
    assert json.loads((tmp_path / "out/metrics.json").read_text())["updates"] == [1, 2, 3, 4]


def _check_summary(summary: dict[str, Any], label: str) -> None:
    assert summary["algorithm"] == label
    assert summary["mode"] == "sequential"
    assert summary["status"] == "finished"
    assert (summary["total_timesteps"], summary["total_updates"]) == (512, 4)
    assert summary["avg_fps"] == pytest.approx(512 / 3600 / summary["duration_hours"])
    assert summary["peak_memory_gb"] > 0.1
    assert {"initial_reward", "final_reward", "best_reward", "num_episodes", "final_fps"} <= summary.keys()


def _check_benchmark(metrics: dict[str, Any]) -> None:
    assert metrics["training_mode"] == "sequential"
    assert metrics["start_time"] <= metrics["end_time"]
    assert {"initial_reward", "final_reward", "best_reward", "average_reward_last_100_episodes"} <= metrics[
        "performance"
    ].keys()
    assert metrics["resource_usage"]["peak_memory_gb"] > 0.1
    assert metrics["config"]["env"]["num_envs"] == 8


def _check_records(records: list[dict[str, Any]], algo: str) -> None:
    assert [record["timesteps"] for record in records] == [128, 256, 384, 512]
    wanted = ["loss", "policy_loss", "value_loss", "entropy", "grad_norm", "learning_rate", "explained_variance"]
    wanted += [] if algo == "a2c" else ["approx_kl", "clip_fraction"]
    last = records[-1]
    assert {f"train/{name}" for name in wanted} <= last.keys()
    assert {"time/fps", "time/elapsed_seconds", "system/memory_gb", "system/cpu_percent"} <= last.keys()
    phases = [last[f"phase/{name}_seconds"] for name in ("environment", "act", "learn", "other")]
    between = last["time/elapsed_seconds"] - records[-2]["time/elapsed_seconds"]
    assert 0.5 * between < sum(phases) <= 1.05 * between
    if last["rollout/episodes"]:
        assert {"rollout/ep_reward_mean", "rollout/ep_reward_std", "rollout/ep_length_mean"} <= last.keys()


def test_a_written_configuration_reproduces_the_run(rlcb: Run, tmp_path: Path) -> None:
    rlcb("train", *SMALL, "--seed", "5", "--total-timesteps", "256", "--output-dir", "one")
    again = rlcb("train", "--config", "one/config.yaml")  # beside it, not in its place
    assert again.returncode == 0, again.stderr
    name = "checkpoints/ppo_sequential_final.pt"
    (repeated,) = (tmp_path / "runs").glob(f"ppo_sequential_coinrun_seed5_*/{name}")
    assert torch.equal(parameters(tmp_path / "one" / name), parameters(repeated))


@pytest.mark.parametrize("algo", LABELS)
def test_a_resumed_run_is_the_uninterrupted_run(rlcb: Run, tmp_path: Path, algo: str) -> None:
    def train(*words: str) -> None:
        done = rlcb("train", "--algo", algo, *words)
        assert done.returncode == 0, done.stderr

    train(*SMALL, "--total-timesteps", str(10 * UPDATE), "--output-dir", "whole")
    train(*SMALL, "--total-timesteps", str(5 * UPDATE), "--output-dir", "parts")
    train("--resume", "parts", "--total-timesteps", str(10 * UPDATE))
    name = f"checkpoints/{algo}_sequential_final.pt"
    whole, parts = load_checkpoint(tmp_path / "whole" / name), load_checkpoint(tmp_path / "parts" / name)
    assert_equal(parts["execution"], whole["execution"])
    assert parts["rewards"] == whole["rewards"]
    log = f"logs/{LABELS[algo]}_Sequential/metrics.jsonl"
    records = [list(map(without_time, read_json_lines(tmp_path / run / log))) for run in ("whole", "parts")]
    assert records[0] == records[1]
    assert len(records[0]) == 10


def without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if not key.startswith(("time/", "phase/", "system/"))}


def test_after_a_kill_metrics_have_no_gap_and_no_double(rlcb: Run, tmp_path: Path) -> None:
    """Killed after more updates than its last checkpoint: the resumed run repeats those, and logs them once."""
    words = [*SMALL, "--total-timesteps", str(1000 * UPDATE), "--save-interval", "3", "--output-dir", "out"]
    process = start(tmp_path, *words)
    log = tmp_path / "out/logs/PPO_Sequential/metrics.jsonl"
    wait_for(lambda: log.exists() and len(read_json_lines(log)) >= 5)
    process.kill()
    process.wait(timeout=20)
    with log.open("a") as file:
        file.write('{"updates": 99')  # a torn line, as a kill may leave it
    before = read_json_lines(log)[-1]["updates"]
    done = rlcb("train", "--resume", "out", "--total-timesteps", str((before + 4) * UPDATE))
    assert done.returncode == 0, done.stderr
    assert [record["updates"] for record in read_json_lines(log)] == list(range(1, before + 5))


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlcb", "train", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, id="terminal")]
)
def test_a_signal_saves_and_sums_up(tmp_path: Path, number: int, code: int) -> None:
    process = start(tmp_path, *SMALL, "--total-timesteps", "100000000", "--output-dir", "out")
    log = tmp_path / "out/logs/PPO_Sequential/metrics.jsonl"
    wait_for(lambda: log.exists() and len(read_json_lines(log)) >= 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == ""
    assert "TRAINING SUMMARY" in out
    summary = json.loads((tmp_path / "out/training_summary.json").read_text())
    assert summary["status"] == "interrupted"
    [checkpoint] = (tmp_path / "out/checkpoints").glob("*.pt")
    assert checkpoint.name == f"ppo_sequential_step_{summary['total_timesteps']}.pt"
    assert load_checkpoint(checkpoint)["progress"]["timesteps"] == summary["total_timesteps"]


def test_a_second_signal_exits_at_once(tmp_path: Path) -> None:
    words = ["--num-envs", "64", "--n-steps", "256", "--batch-size", "2048", "--arch", "impala"]  # updates of a minute
    process = start(tmp_path, *words, "--total-timesteps", "100000000", "--output-dir", "out")
    log = tmp_path / "out/logs/PPO_Sequential/training.log"
    wait_for(lambda: log.exists() and "Output:" in log.read_text())
    time.sleep(3)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # as from a scheduler and from a parent: the same
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 143


def test_time_ends_a_run(rlcb: Run, tmp_path: Path) -> None:
    hours = 3 / 3600
    done = rlcb("train", *SMALL, "--duration", str(hours), "--output-dir", "out")
    assert done.returncode == 0, done.stderr
    records = read_json_lines(tmp_path / "out/logs/PPO_Sequential/metrics.jsonl")
    seconds = [record["time/elapsed_seconds"] for record in records]
    summary = json.loads((tmp_path / "out/training_summary.json").read_text())
    assert summary["duration_hours"] >= hours
    # Time is looked at after a record is written, so the last one may be from a moment before the end.
    assert seconds[-2] < 3.0, "more than one update after the end"
    assert "[0.00h/0.00h] Step: 128 | Updates: 1 | FPS:" in done.stdout
    assert "Mean Reward (last 100):" in done.stdout


def test_a_terminal_shows_a_live_bar(tmp_path: Path) -> None:
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "rlcb", "train", *SMALL, "--total-timesteps", "512", "--output-dir", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=child, stderr=subprocess.PIPE)
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    assert process.wait(timeout=60) == 0
    text = shown.decode()
    assert re.search(r"Training: +50%\|.*\| \[00:\d\d<00:\d\d\] Update 2 \| Step 256 \| FPS: [\d,]+ \| Reward: ", text)
    assert "Training: 100%" in text
    assert "TRAINING SUMMARY" in text
    assert "Mean Reward" not in text  # plain lines are for log files
    assert "Step: 256 | Update: 2 | FPS: " in (tmp_path / "out/logs/PPO_Sequential/training.log").read_text()


def test_the_learning_rate_falls_over_the_budget(rlcb: Run, tmp_path: Path) -> None:
    words = ["--total-timesteps", "512", "--anneal-lr", "--learning-rate", "0.001", "--output-dir", "out"]
    assert rlcb("train", *SMALL, *words).returncode == 0
    records = read_json_lines(tmp_path / "out/logs/PPO_Sequential/metrics.jsonl")
    rates = [record["train/learning_rate"] for record in records]
    assert rates == pytest.approx([0.001, 0.00075, 0.0005, 0.00025])


def test_a_diverging_run_stops_and_keeps_its_last_checkpoint(rlcb: Run, tmp_path: Path) -> None:
    rlcb("train", *SMALL, "--total-timesteps", "256", "--output-dir", "out")
    file = tmp_path / "out/checkpoints/ppo_sequential_final.pt"
    before = file.read_bytes()
    code = (
        "import torch, rlcb.policy.policy as p\n"
        "original = p.Policy.evaluate_actions\n"
        "def broken(self, obs, actions):\n"
        "    log_probs, entropies, values = original(self, obs, actions)\n"
        "    return log_probs * float('nan'), entropies, values\n"
        "p.Policy.evaluate_actions = broken\n"
        "from rlcb.cli import main; main()\n"
    )
    words = ["train", "--resume", "out", "--total-timesteps", "100000"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "not finite 10 times in a row" in done.stderr
    assert "ppo_sequential_final.pt" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == before


def test_the_last_update_is_recorded_whatever_the_interval(rlcb: Run, tmp_path: Path) -> None:
    words = ["--log-interval", "4", "--total-timesteps", str(6 * UPDATE), "--output-dir", "out"]
    assert rlcb("train", *SMALL, *words).returncode == 0
    assert json.loads((tmp_path / "out/metrics.json").read_text())["updates"] == [4, 6]
