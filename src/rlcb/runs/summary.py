"""The end of a run in numbers: training_summary.json, benchmark_metrics.json and the printed block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcb.config import Config
from rlcb.config.tree import ALGORITHM_LABELS
from rlcb.cpu.machine import machine

RULE = "=" * 70


@dataclass(frozen=True)
class Summary:
    config: Config
    status: str  # finished or interrupted
    started: str
    ended: str
    seconds: float
    timesteps: int
    updates: int
    skipped_updates: int
    final_fps: float
    episodes: int
    initial_reward: tuple[float, float] | None  # mean, std
    final_reward: tuple[float, float] | None
    best_reward: float | None
    mean_episode_length: float | None
    peak_memory: int  # bytes
    mean_memory: float
    cpu_percent: float  # of one core
    threads: int
    kernels: str
    phase_seconds: dict[str, float]  # mean over all processes
    process_seconds: dict[str, dict[str, float]]  # of each
    output: str

    @property
    def average_fps(self) -> float:
        return self.timesteps / self.seconds if self.seconds else 0.0

    def training_summary(self) -> dict[str, Any]:
        initial, final, crew = self.initial_reward, self.final_reward, self.config.crew
        return {
            "algorithm": ALGORITHM_LABELS[self.config.algo],
            "mode": self.config.mode,
            "status": self.status,
            "environment": self.config.env.name,
            "seed": self.config.env.seed,
            "num_envs": self.config.num_envs,
            **({f"num_{crew.name.lower()}s": crew.number} if crew else {}),
            "duration_hours": self.seconds / 3600,
            "total_timesteps": self.timesteps,
            "total_updates": self.updates,
            "skipped_updates": self.skipped_updates,
            "avg_fps": self.average_fps,
            "final_fps": self.final_fps,
            "peak_memory_gb": self.peak_memory / 2**30,
            "average_memory_gb": self.mean_memory / 2**30,
            "cpu_percent": self.cpu_percent,
            "initial_reward": initial[0] if initial else None,
            "initial_reward_std": initial[1] if initial else None,
            "final_reward": final[0] if final else None,
            "final_reward_std": final[1] if final else None,
            "best_reward": self.best_reward,
            "mean_episode_length": self.mean_episode_length,
            "num_episodes": self.episodes,
            "phase_seconds": self.phase_seconds,
            "process_seconds": self.process_seconds,
            "threads": self.threads,
            "kernels": self.kernels,
            "hardware": machine()._asdict(),
        }

    def benchmark_metrics(self) -> dict[str, Any]:
        initial, final = self.initial_reward, self.final_reward
        return {
            "training_mode": self.config.mode,
            "algorithm": ALGORITHM_LABELS[self.config.algo],
            "status": self.status,
            "start_time": self.started,
            "end_time": self.ended,
            "duration_hours": self.seconds / 3600,
            "total_timesteps": self.timesteps,
            "total_updates": self.updates,
            "average_fps": self.average_fps,
            "final_fps": self.final_fps,
            "timesteps_per_hour": self.average_fps * 3600,
            "performance": {
                "initial_reward": initial[0] if initial else None,
                "final_reward": final[0] if final else None,
                "final_reward_std": final[1] if final else None,
                "best_reward": self.best_reward,
                "average_reward_last_100_episodes": final[0] if final else None,
            },
            "resource_usage": {
                "peak_memory_gb": self.peak_memory / 2**30,
                "average_memory_gb": self.mean_memory / 2**30,
                "cpu_percent": self.cpu_percent,
            },
            "phase_seconds": self.phase_seconds,
            "hardware": machine()._asdict(),
            "config": self.config.model_dump(),
        }

    def block(self) -> str:
        """As the guides print it."""
        lines = [RULE, "TRAINING SUMMARY", RULE]
        if self.status != "finished":
            lines.append(f"Status: {self.status}")
        lines.append(f"Duration: {_duration(self.seconds)}")
        if self.config.crew:
            lines += [
                f"{self.config.crew.name}s: {self.config.crew.number}",
                f"Total Environments: {self.config.num_envs}",
            ]
        lines += [
            f"Total Timesteps: {self.timesteps:,}",
            f"Total Updates: {self.updates:,}",
            f"Average FPS: {self.average_fps:,.0f}",
            f"Final FPS: {self.final_fps:,.0f}",
        ]
        if self.config.algo == "a3c" and self.config.mode == "sequential":
            lines.append("Note: A3C with one worker has nobody to be asynchronous with; this equals A2C")
        if self.skipped_updates:
            lines.append(f"Skipped Updates (not finite): {self.skipped_updates:,}")
        lines += ["", "Performance:"]
        if self.initial_reward and self.final_reward and self.best_reward is not None:
            lines += [
                f"  Initial Reward: {self.initial_reward[0]:.2f} ± {self.initial_reward[1]:.2f}",
                f"  Final Reward: {self.final_reward[0]:.2f} ± {self.final_reward[1]:.2f}",
                f"  Best Reward: {self.best_reward:.2f}",
            ]
        else:
            lines.append("  No episode has ended yet")
        lines += [
            "",
            "Resource Usage:",
            f"  Peak Memory: {self.peak_memory / 2**30:.2f} GB",
            "",
            f"Results saved to: {self.output}",
            RULE,
        ]
        return "\n".join(lines)


def _duration(seconds: float) -> str:
    hours = f"{seconds / 3600:.2f} hours"
    return hours if seconds >= 1800 else f"{hours} ({seconds / 60:.1f} minutes)"
