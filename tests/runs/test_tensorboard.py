"""What TensorBoard's own reader sees of a run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata

from rlcb.runs.evaluations import log_evaluation, log_folder
from rlcb.runs.metrics import FINAL_METRICS, MetricsLog, hyperparameters
from rlcb.training.train import train
from tests.conftest import tiny_config

Run = Callable[..., subprocess.CompletedProcess[str]]

# Seven updates; checkpoints after the third, the sixth and the last. Episodes of this game are short.
SETTINGS = {
    "env.name": "fruitbot",
    "training.total_timesteps": 7 * 128,
    "training.save_interval": 3,
    "hardware.num_threads": 1,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for algo in ("ppo", "impala"):
        folders[algo] = tmp_path_factory.mktemp(algo)
        assert train(tiny_config(algo, {**SETTINGS, "logging.output_dir": str(folders[algo])})) == 0
    return folders


def read(folder: Path) -> Any:
    return EventAccumulator(str(folder)).Reload()


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = read(folder)
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_all_algorithms_use_the_same_names(runs: dict[str, Path]) -> None:
    ppo, impala = points(runs["ppo"] / "logs/PPO_Sequential"), points(runs["impala"] / "logs/IMPALA_Sequential")
    assert set(ppo) == set(impala)
    for name in ("rollout/ep_reward_mean", "time/fps", "system/memory_gb", "system/cpu_percent", "train/policy_loss"):
        assert name in ppo
    assert [step for step, _ in ppo["train/loss"]] == [128 * update for update in range(1, 8)]


def test_hyperparameters_are_in_the_folder_of_the_run(runs: dict[str, Path]) -> None:
    """So that TensorBoard shows one run, with one row on its HParams page."""
    for algo, name in (("ppo", "PPO_Sequential"), ("impala", "IMPALA_Sequential")):
        logs = runs[algo] / "logs" / name
        assert not [path for path in logs.iterdir() if path.is_dir()]
        told = read(logs).PluginTagToContent(metadata.PLUGIN_NAME)
        values = metadata.parse_session_start_info_plugin_data(told[metadata.SESSION_START_INFO_TAG]).hparams
        assert values["algo"].string_value == algo
        assert values["env.name"].string_value == "procgen-fruitbot-v0"
        assert values["training.n_steps"].number_value == 16
        assert values["training.reward_scaling"].string_value == "true"
        assert values["ppo.target_kl"].string_value == "null"
        experiment = metadata.parse_experiment_plugin_data(told[metadata.EXPERIMENT_TAG])
        assert {info.name for info in experiment.hparam_infos} == set(values) == set(hyperparameters(tiny_config()))
        assert {info.name.tag for info in experiment.metric_infos} == {f"hparam/{metric}" for metric in FINAL_METRICS}
        assert metadata.SESSION_END_INFO_TAG in told
        summary = json.loads((runs[algo] / "training_summary.json").read_text())
        seen = points(logs)
        for metric in FINAL_METRICS:
            [(step, value)] = seen[f"hparam/{metric}"]
            assert step == 7 * 128
            assert value == pytest.approx(summary[metric])


def test_evaluations_are_points_at_the_step_of_their_checkpoint(
    rlcb: Run, runs: dict[str, Path], tmp_path: Path
) -> None:
    logs = shutil.copytree(runs["impala"], tmp_path / "run") / "logs/IMPALA_Sequential"
    before = points(logs)
    done = rlcb("evaluate", "--checkpoint", "run", "--num-episodes", "3", "--levels", "both", "--num-threads", "1")
    assert done.returncode == 0, done.stderr
    after = points(logs)
    new = {name.removeprefix("evaluation/"): after.pop(name) for name in set(after) - set(before)}
    assert after == before
    assert {name: [step for step, _ in each] for name, each in new.items()} == {
        "train_reward_mean": [896],
        "train_reward_std": [896],
        "test_reward_mean": [896],
        "test_reward_std": [896],
        "generalisation_gap": [896],
    }
    gap = new["train_reward_mean"][0][1] - new["test_reward_mean"][0][1]
    assert new["generalisation_gap"][0][1] == pytest.approx(gap, abs=1e-6)
    mean = f"Mean Reward: {new['train_reward_mean'][0][1]:.2f} ±"
    assert mean in done.stdout


def test_evaluations_in_any_order_make_no_zigzag(tmp_path: Path) -> None:
    with MetricsLog(tmp_path) as log:
        for update in range(1, 4):
            log.write({"updates": update, "timesteps": 10 * update, "train/loss": 1.0})
    age(tmp_path)
    for step, reward in ((10, 1.0), (30, 3.0), (20, 2.0), (30, 3.5)):
        log_evaluation(tmp_path, step, {"evaluation/train_reward_mean": reward, "evaluation/train_reward_std": 0.0})
    seen = points(tmp_path)
    assert seen["evaluation/train_reward_mean"] == [(10, 1.0), (20, 2.0), (30, 3.5)]
    assert [step for step, _ in seen["evaluation/train_reward_std"]] == [10, 20, 30]
    assert [step for step, _ in seen["train/loss"]] == [10, 20, 30]
    age(tmp_path)
    with MetricsLog(tmp_path, updates=3, timesteps=30) as log:  # resumed
        log.write({"updates": 4, "timesteps": 40, "train/loss": 1.0})
    again = points(tmp_path)
    assert again["evaluation/train_reward_mean"] == seen["evaluation/train_reward_mean"]
    assert [step for step, _ in again["train/loss"]] == [10, 20, 30, 40]


def age(folder: Path) -> None:
    """Event files are read in the order of the seconds in their names; a test has several in one."""
    for number, file in enumerate(sorted(folder.glob("events.*"))):
        file.rename(folder / f"events.out.tfevents.{number:010}.here")


def test_the_folder_of_a_checkpoint_is_that_of_its_run(tmp_path: Path) -> None:
    config = tiny_config("ppo", {"logging.output_dir": str(tmp_path / "run")})
    moved, alone = tmp_path / "moved/checkpoints/x.pt", tmp_path / "x.pt"
    assert log_folder(moved, config) is None
    for name in ("moved", "run"):
        (tmp_path / name / "logs/PPO_Sequential").mkdir(parents=True)
    assert log_folder(moved, config) == tmp_path / "moved/logs/PPO_Sequential"
    assert log_folder(alone, config) is None  # a copy: nobody knows what has become of its run
    places = {"logging.checkpoint_dir": str(tmp_path), "logging.log_dir": str(tmp_path / "run/logs")}
    assert log_folder(alone, tiny_config("ppo", places)) == tmp_path / "run/logs/PPO_Sequential"


def test_a_resumed_run_has_no_zigzag(rlcb: Run, runs: dict[str, Path], tmp_path: Path) -> None:
    """As after a crash: the last checkpoint is older than the last records."""
    run = shutil.copytree(runs["ppo"], tmp_path / "run")
    (run / "checkpoints/ppo_sequential_final.pt").unlink()
    done = rlcb("train", "--resume", "run", "--total-timesteps", str(10 * 128))
    assert done.returncode == 0, done.stderr
    logs = run / "logs/PPO_Sequential"
    assert len(list(logs.glob("events.*"))) == 2
    seen = points(logs)
    for name, each in seen.items():
        steps = [step for step, _ in each]
        assert steps == sorted(set(steps)), name
    assert [step for step, _ in seen["train/loss"]] == [128 * update for update in range(1, 11)]
    assert seen["hparam/avg_fps"][-1][0] == 10 * 128
