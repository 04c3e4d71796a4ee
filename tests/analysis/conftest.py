"""Directories of runs, as training leaves them, with figures that a test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import tiny_config

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(
        name: str,
        algo: str = "ppo",
        mode: str = "sequential",
        rewards: Sequence[float] = (1.0, 2.0, 4.0),
        settings: dict[str, Any] | None = None,
        evaluation: dict[str, float] | None = None,
        **summary: Any,
    ) -> Path:
        """`rewards` are means after every 1,000 steps, of which 100 take a second."""
        root = tmp_path / name
        crew = {"parallel.num_workers": 2} if mode == "parallel" and algo != "impala" else {}
        config = tiny_config(algo, {"mode": mode, **crew, **(settings or {})})
        logs = root / "logs" / config.log_name
        logs.mkdir(parents=True)
        (root / "config.yaml").write_text(yaml.safe_dump(config.model_dump()))
        lines = [_record(number, reward) for number, reward in enumerate(rewards, 1)]
        (logs / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (root / "training_summary.json").write_text(json.dumps(_summary(config, rewards) | summary))
        if evaluation:
            (root / "checkpoints").mkdir()
            scores = {levels: _score(mean) for levels, mean in evaluation.items()}
            content = {f"{config.run_name}_final.pt": {config.env.name: scores}}
            (root / "checkpoints" / "evaluation.json").write_text(json.dumps(content))
        return root

    return make


def _record(number: int, reward: float) -> dict[str, Any]:
    return {
        "updates": number,
        "timesteps": 1000 * number,
        "time/elapsed_seconds": 10.0 * number,
        "time/fps": 100.0,
        "time/fps_average": 100.0,
        "rollout/ep_reward_mean": reward,
        "rollout/ep_reward_std": 0.5,
        "train/policy_loss": -0.1,
        "system/memory_gb": 1.0,
        "system/peak_memory_gb": 1.5,
        "phase/environment_seconds": 1.0,
        "phase/learn_seconds": 9.0,
    }


def _summary(config: Any, rewards: Sequence[float]) -> dict[str, Any]:
    return {
        "algorithm": config.algo.upper(),
        "mode": config.mode,
        "status": "finished",
        "environment": config.env.name,
        "seed": config.env.seed,
        "num_envs": config.num_envs,
        "duration_hours": len(rewards) / 360,
        "total_timesteps": 1000 * len(rewards),
        "total_updates": len(rewards),
        "avg_fps": 100.0,
        "final_fps": 100.0,
        "initial_reward": rewards[0],
        "final_reward": rewards[-1],
        "final_reward_std": 0.5,
        "best_reward": max(rewards),
        "mean_episode_length": 200.0,
        "peak_memory_gb": 1.5,
        "phase_seconds": {"environment": 1.0, "learn": 9.0 * len(rewards)},
        "hardware": {"cpu": "a CPU", "cores": 2, "threads": 2, "memory_gb": 16.0, "system": "Linux", "python": "3.11"},
    }


def _score(mean: float) -> dict[str, Any]:
    numbers = {"episodes": 10, "mean_reward": mean, "std_reward": 1.0, "min_reward": 0.0, "max_reward": 10.0}
    return {**numbers, "mean_length": 99.0, "std_length": 9.0, "deterministic": True, "seed": 0}
