"""Predictions as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rlcb.config import Config
from rlcb.config.tree import ALGORITHM_LABELS
from rlcb.games import game_name
from rlcb.scale.costs import Costs
from rlcb.scale.model import Prediction

STEPS = 25_000_000  # where the training has no number of its own


def efficiency(prediction: Prediction, one_core: Prediction) -> float:
    """Speed for every core that is there, against one that works alone."""
    return prediction.fps / (one_core.fps * cores_of(prediction))


def cores_of(prediction: Prediction) -> int:
    """Of all nodes, whether there is something for them to do or not."""
    return prediction.config.num_nodes * prediction.machines.cores


def hours(prediction: Prediction) -> float:
    return steps_of(prediction.config) / prediction.fps / 3600


def steps_of(config: Config) -> int:
    return config.training.total_timesteps or STEPS


def strategy(config: Config) -> str:
    return config.sync + (", fp16" if config.compresses else "")


def table(one_core: Prediction, predictions: Sequence[Prediction]) -> str:
    steps = _millions(steps_of(one_core.config))
    heads = ("nodes", "cores", "workers", "environments", "FPS", "efficiency", f"time to {steps}", "exchange")
    width = max(len(strategy(one.config)) for one in predictions) + 2
    lines = [f"{'':<{width}}" + "".join(f"{head:>14}" for head in heads)]
    lines.append(_row("one core", width, one_core, one_core, ("1", "1", "1")))
    for one in predictions:
        crew = one.config.crew
        assert crew is not None
        counts = (str(one.config.num_nodes), str(cores_of(one)), str(crew.number))
        lines.append(_row(strategy(one.config), width, one, one_core, counts))
    return "\n".join(line.rstrip() for line in lines)


def _row(name: str, width: int, one: Prediction, one_core: Prediction, counts: Sequence[str]) -> str:
    alone = one is one_core
    cells = [
        *counts,
        f"{one.config.num_envs:,}",
        f"{one.fps:,.0f}",
        "100%" if alone else f"{efficiency(one, one_core):.0%}",
        _duration(hours(one)),
        f"{one.exchange_share:.0%}",
    ]
    return f"{name:<{width}}" + "".join(f"{cell:>14}" for cell in cells)


def _duration(hours: float) -> str:
    minutes = round(60 * hours)
    if minutes < 1:
        return f"{3600 * hours:.0f} s"
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def _millions(steps: int) -> str:
    return f"{steps / 1e6:g}M" if steps >= 1_000_000 else f"{steps:,}"


def title(config: Config) -> str:
    training = config.training
    return (
        f"{ALGORITHM_LABELS[config.algo]} on {game_name(config.env.name)}, {config.model.arch}, rollouts of "
        f"{training.n_steps} steps, {training.n_steps * config.num_envs // config.batch_size} minibatches, "
        f"{training.n_epochs} epoch{'s' if training.n_epochs > 1 else ''}"
    )


def described(costs: Costs) -> str:
    """What was measured, in a few lines."""
    envs, seconds = costs.environment.points[-1]
    samples, gradient = costs.learn.points[-1]
    here = costs.machine
    return "\n".join(
        [
            f"Costs on {here['cpu']}, {here['cores']} cores, one process on each, per sample:",
            f"  environment {1e6 * seconds / envs:,.0f} µs, act {1e6 * costs.act.at(envs) / envs:,.0f} µs "
            f"({envs:.0f} environments), learn {1e6 * gradient / samples:,.0f} µs ({samples:.0f} samples)",
            f"  a gradient is {costs.parameters * 4 / 1e6:.1f} MB; exchanged between two processes here in "
            f"{1e3 * costs.shared_exchange:.1f} ms by shared memory, {1e3 * costs.exchange['none']:.1f} ms by gloo "
            f"(fp16: {1e3 * costs.exchange['fp16']:.1f} ms), a few numbers in {1e3 * costs.meeting:.2f} and "
            f"{1e3 * costs.smallest_exchange:.2f} ms",
            f"  the slower of two takes {100 * (costs.slowest_of(2) - 1):.1f}% longer than the mean, the slowest of 16 "
            f"{100 * (costs.slowest_of(16) - 1):.1f}%",
        ]
    )


def as_tree(costs: Costs, one_core: Prediction, predictions: Sequence[Prediction]) -> dict[str, Any]:
    return {
        "network": {"latency_ms": one_core.machines.latency_ms, "bandwidth_mbits": one_core.machines.mbits},
        "one_core_fps": one_core.fps,
        "predictions": [
            {
                "nodes": one.config.num_nodes,
                "cores_per_node": one.machines.cores,
                "workers": one.config.crew.number if one.config.crew else 1,
                "num_envs": one.config.num_envs,
                "batch_size": one.config.batch_size,
                "sync": one.config.sync,
                "compression": one.config.cluster.compression,
                "fps": one.fps,
                "efficiency": efficiency(one, one_core),
                "steps": steps_of(one.config),
                "hours": hours(one),
                "exchange_share": one.exchange_share,
                "seconds_per_update": asdict(one.seconds),
            }
            for one in predictions
        ],
        "costs": costs.model_dump(),
    }
