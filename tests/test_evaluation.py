from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from rlcb.agent import Player
from rlcb.config.tree import EnvSettings
from rlcb.envs.levels import Levels, unseen_levels
from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, ProcgenVectorEnv
from rlcb.errors import UserError
from rlcb.evaluation import Result, environments_for, play
from rlcb.policy import Policy

Run = Callable[..., subprocess.CompletedProcess[str]]


def result(episodes: int, envs: int, seed: int = 0, deterministic: bool = False) -> Result:
    policy = Policy("nature", OBS_SHAPE, N_ACTIONS, seed=1)
    with closing(ProcgenVectorEnv("bigfish", envs, seed=seed)) as vector:
        return play(vector, Player(policy, envs, deterministic, seed), Levels("train", 0, 200), episodes)


def test_every_environment_plays_its_share() -> None:
    """Episodes of each environment in turn: the same as that environment alone would have played."""
    together = result(9, 4)
    assert len(together.rewards) == 9  # 3, 2, 2, 2
    policy = Policy("nature", OBS_SHAPE, N_ACTIONS, seed=1)
    rewards = []
    with closing(ProcgenVectorEnv("bigfish", 4, seed=0)) as envs:
        obs, _ = envs.reset()
        from rlcb.envs.randomness import EVALUATION, EnvRandomness

        noise = EnvRandomness(0, range(4), EVALUATION).gumbel(0, 3000, N_ACTIONS)
        ended: list[list[float]] = [[] for _ in range(4)]
        for t in range(3000):
            actions, *_ = policy.act(torch.from_numpy(obs), noise[t])
            obs, _, dones, _, infos = envs.step(actions.numpy())
            for env in np.flatnonzero(dones):
                ended[env].append(float(infos["episode"]["r"][env]))
            if all(len(one) >= 3 for one in ended):
                break
        for env, share in enumerate((3, 2, 2, 2)):
            rewards += ended[env][:share]
    assert together.rewards.tolist() == rewards


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second, other = result(6, 3), result(6, 3), result(6, 3, seed=1)
    assert first.rewards.tolist() == second.rewards.tolist()
    assert first.lengths.tolist() == second.lengths.tolist()
    assert first.lengths.tolist() != other.lengths.tolist()


def test_the_command_prints_and_writes(rlcb: Run, checkpoint: Path) -> None:
    words = ["--num-episodes", "4", "--levels", "both", "--env", "procgen:procgen-coinrun-v0"]
    done = rlcb("evaluate", "--checkpoint", checkpoint.name, "--algorithm", "ppo", *words)
    assert done.returncode == 0, done.stderr
    for line in (
        "Evaluating PPO Agent",
        "Observation shape: (3, 64, 64)",
        "Number of actions: 15",
        "✓ Loaded checkpoint",
    ):
        assert line in done.stdout
    assert done.stdout.count("PPO Evaluation Results") == 2
    assert "Levels: train (levels 0 to 199)" in done.stdout
    assert "Levels: test (levels from 200 on)" in done.stdout
    assert "Generalisation gap" in done.stdout
    written = json.loads((checkpoint.parent / "evaluation.json").read_text())
    results = written["ppo_sequential_final.pt"]["procgen-coinrun-v0"]
    assert set(results) == {"train", "test"}
    assert results["test"]["episodes"] == len(results["test"]["rewards"]) == 4
    assert f"Mean Reward: {results['test']['mean_reward']:.2f} ± {results['test']['std_reward']:.2f}" in done.stdout


def test_another_game_is_a_warning_another_algorithm_an_error(rlcb: Run, checkpoint: Path) -> None:
    other = rlcb("evaluate", "--checkpoint", checkpoint.name, "--env", "starpilot", "--num-episodes", "2")
    assert other.returncode == 0, other.stderr
    assert "Warning: trained on procgen-coinrun-v0, evaluated on procgen-starpilot-v0" in other.stdout
    wrong = rlcb("evaluate", "--checkpoint", checkpoint.name, "--algorithm", "impala")
    assert wrong.returncode == 2
    assert "was trained with PPO" in wrong.stderr


def test_a_missing_checkpoint_lists_those_nearby(rlcb: Run, checkpoint: Path) -> None:
    done = rlcb("evaluate", "--checkpoint", "ppo_final.pt")
    assert done.returncode == 2
    assert "ppo_sequential_final.pt" in done.stderr
    deeper = rlcb("evaluate", "--checkpoint", "checkpoints/ppo/final.pt")
    assert "ppo_sequential_final.pt" in deeper.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--num-episodes", "0"], "--num-episodes 0"),
        (["--num-episodes", "two"], "--num-episodes two"),
        (["--levels", "some"], "--levels some"),
        (["--env", "pong"], "--env pong"),
        (["--seeds", "1"], "did you mean --seed"),
    ],
)
def test_bad_input(rlcb: Run, checkpoint: Path, words: list[str], expected: str) -> None:
    done = rlcb("evaluate", "--checkpoint", checkpoint.name, *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkpoint.parent / "evaluation.json").exists()


@pytest.mark.parametrize("found", ["[]", '{"ppo_sequential_final.pt": null}', "no JSON"])
def test_a_file_of_another_shape_is_replaced(rlcb: Run, checkpoint: Path, found: str) -> None:
    written = checkpoint.with_name("evaluation.json")
    written.write_text(found)
    done = rlcb("evaluate", "--checkpoint", str(checkpoint), "--num-episodes", "1", "--levels", "train")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(written.read_text())[checkpoint.name]) == ["procgen-coinrun-v0"]


def test_no_level_is_left_to_test_on() -> None:
    last = EnvSettings(start_level=2**31 - 201, num_levels=200)
    with pytest.raises(UserError, match="no level comes after"):
        unseen_levels(last, "test")
    assert unseen_levels(EnvSettings(start_level=2**31 - 202, num_levels=200), "test").count == 1


def test_a_damaged_checkpoint_is_refused(rlcb: Run, checkpoint: Path) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    done = rlcb("evaluate", "--checkpoint", checkpoint.name)
    assert done.returncode == 2
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_checkpoint_the_newest_is_taken(rlcb: Run, checkpoint: Path) -> None:
    assert rlcb("evaluate").returncode == 2
    run = checkpoint.parent / "benchmarks/one/checkpoints"
    run.mkdir(parents=True)
    shutil.move(checkpoint, run / checkpoint.name)
    done = rlcb("evaluate", "--num-episodes", "1", "--algorithm", "ppo")
    assert done.returncode == 0, done.stderr
    assert "benchmarks/one/checkpoints/ppo_sequential_final.pt" in done.stdout


def test_rendering_without_a_display_writes_a_video(rlcb: Run, checkpoint: Path) -> None:
    words = ["--checkpoint", checkpoint.name, "--num-episodes", "5", "--env", "fruitbot", "--num-threads", "1"]
    done = rlcb("evaluate", *words, "--render", DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 0, done.stderr
    assert "Video: ppo_sequential_final_train.mp4" in done.stdout
    shown = json.loads((checkpoint.parent / "evaluation.json").read_text())
    import av

    with av.open(str(checkpoint.parent / "ppo_sequential_final_train.mp4")) as video:
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    lengths = shown["ppo_sequential_final.pt"]["procgen-fruitbot-v0"]["train"]["lengths"]
    assert len(frames) == 1 + max(lengths[:4])  # four of the five are shown, from before their first step
    assert frames[0].shape == (512, 512, 3)
    rlcb("evaluate", *words)
    assert json.loads((checkpoint.parent / "evaluation.json").read_text()) == shown


def test_a_game_without_the_agents_difficulty_is_refused(rlcb: Run, tmp_path: Path) -> None:
    """Procgen would end the whole process."""
    small = ["--num-envs", "8", "--n-steps", "16", "--batch-size", "64", "--num-threads", "1"]
    words = ["--env", "maze", "--distribution-mode", "memory", "--total-timesteps", "128", "--output-dir", "run"]
    assert rlcb("train", *small, *words).returncode == 0
    done = rlcb("evaluate", "--checkpoint", "run", "--env", "coinrun", "--num-episodes", "2")
    assert done.returncode == 2
    assert "memory does not exist for coinrun" in done.stderr
    with pytest.raises(ValueError, match="memory does not exist for coinrun"):
        ProcgenVectorEnv("coinrun", 1, distribution_mode="memory")


@pytest.mark.parametrize(("episodes", "environments"), [(1, 1), (7, 7), (100, 100), (101, 51), (150, 75), (500, 100)])
def test_environments_play_as_many_episodes_each(episodes: int, environments: int) -> None:
    assert environments_for(episodes) == environments
