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

from rlcb.envs.procgen import N_ACTIONS, OBS_SHAPE, ProcgenVectorEnv
from rlcb.evaluation import Levels, Result, play
from rlcb.policy import Policy
from rlcb.video import Recorder

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a very short run."""
    from rlcb.config import Override, load_config
    from rlcb.training.train import train

    folder = tmp_path_factory.mktemp("trained")
    settings = {"env.num_envs": 8, "training.n_steps": 16, "training.batch_size": 64, "training.total_timesteps": 128}
    overrides = [Override(path, value, path) for path, value in settings.items()]
    assert train(load_config(None, [*overrides, Override("logging.output_dir", str(folder), "")])) == 0
    return folder / "checkpoints/ppo_sequential_final.pt"


@pytest.fixture
def checkpoint(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(trained, tmp_path / "ppo_sequential_final.pt"))


def result(episodes: int, envs: int, seed: int = 0, deterministic: bool = False) -> Result:
    policy = Policy("nature", OBS_SHAPE, N_ACTIONS, seed=1)
    levels = Levels("train", 0, 200)
    with closing(ProcgenVectorEnv("bigfish", envs, seed=seed)) as vector, Recorder(None) as recorder:
        return play(vector, policy, levels, episodes, deterministic, seed, recorder)


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


def test_rendering_writes_a_video(rlcb: Run, checkpoint: Path) -> None:
    done = rlcb("evaluate", "--checkpoint", checkpoint.name, "--num-episodes", "1", "--env", "leaper", "--render")
    assert done.returncode == 0, done.stderr
    import imageio.v2 as imageio

    frames = imageio.get_reader(checkpoint.parent / "ppo_sequential_final_train.gif")
    assert frames.get_data(0).shape[:2] == (256, 256)
    assert len(frames) > 1
    assert frames.get_data(0).std() > 10
