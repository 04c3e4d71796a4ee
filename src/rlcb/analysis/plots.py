"""Pictures for papers: PNG or SVG, by matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # files only: works where there is no display

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from rlcb.analysis.bands import Axis, band, time_unit
from rlcb.analysis.groups import Group
from rlcb.analysis.scores import SOURCE, published_beside
from rlcb.analysis.style import look

SMOOTHING = 0.6
METRICS = {
    "rollout/ep_reward_mean": "Episode reward (mean of 100)",
    "rollout/ep_length_mean": "Episode length (steps)",
    "time/fps": "Training speed (FPS)",
    "train/policy_loss": "Policy loss",
    "train/value_loss": "Value loss",
    "train/entropy": "Entropy (nats)",
    "system/memory_gb": "Memory (GB)",
    "timesteps": "Environment steps",
}
STYLE: Any = {
    "figure.dpi": 150,
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "rlcb",
    "text.parse_math": False,  # names may have dollars in them
}


def label_of(metric: str) -> str:
    return METRICS.get(metric, metric)


def four_panels(groups: Sequence[Group], file: Path, remarks: Sequence[str] = ()) -> None:
    """The guides' picture: rewards, speed, policy loss, progress."""
    panels: list[tuple[str, str, Axis, float]] = [
        ("Episode Rewards", "rollout/ep_reward_mean", "steps", SMOOTHING),
        ("Training Speed (FPS)", "time/fps", "time", 0.0),
        ("Policy Loss", "train/policy_loss", "steps", SMOOTHING),
        ("Training Progress", "timesteps", "time", 0.0),
    ]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained")
        for axis, (title, metric, x, smoothing) in zip(axes.flat, panels, strict=True):
            draw(axis, groups, metric, x, smoothing)
            axis.set_title(title)
        _legend(axes.flat)
        _write(figure, file, remarks)


def curves(
    groups: Sequence[Group],
    file: Path,
    metrics: Sequence[str],
    x: Axis,
    smoothing: float,
    published: bool = False,
    remarks: Sequence[str] = (),
) -> None:
    """One panel for each metric."""
    with plt.rc_context(STYLE):
        columns = min(2, len(metrics))
        rows = -(-len(metrics) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(6.5 * columns, 4 * rows), layout="constrained", squeeze=False
        )
        for axis, metric in zip(axes.flat, metrics, strict=False):
            draw(axis, groups, metric, x, smoothing)
            if published and metric == "rollout/ep_reward_mean" and x == "steps":
                draw_published(axis, groups)
        for axis in axes.flat[len(metrics) :]:
            axis.remove()
        _legend(axes.flat[: len(metrics)])
        _write(figure, file, remarks)


def _legend(panels: Iterable[Axes]) -> None:
    """In the first panel, of all: some groups have no line there."""
    axes = list(panels)
    known = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    if known:
        axes[0].legend(known.values(), known.keys())


def draw(axes: Axes, groups: Sequence[Group], metric: str, x: Axis, smoothing: float) -> None:
    """A line for each group; the unsmoothed one behind it, faintly; a band where there are several runs."""
    unit, scale = ("", 1.0) if x == "steps" else time_unit(groups)
    for index, group in enumerate(groups):
        line = band(group, metric, x, smoothing)
        if line is None:
            continue
        style = look(index)
        mark: dict[str, Any] = {"marker": style.point, "markevery": max(1, len(line.x) // 8), "markersize": 4}
        name = group.label if len(group.runs) == 1 else f"{group.label} ({len(group.runs)} runs, ± std)"
        axes.plot(scale * line.x, line.mean, color=style.colour, linestyle=style.line, label=name, **mark)  # type: ignore[arg-type]
        if len(group.runs) > 1:
            axes.fill_between(scale * line.x, line.low, line.high, color=style.colour, alpha=0.2, linewidth=0)
        elif smoothing and (raw := band(group, metric, x)) is not None:
            axes.plot(scale * raw.x, raw.mean, color=style.colour, alpha=0.25, linewidth=0.8)
    axes.set_xlabel("Environment steps" if x == "steps" else f"Wall-clock time ({unit})")
    axes.set_ylabel(label_of(metric))
    if x == "steps":
        axes.xaxis.set_major_formatter(EngFormatter())
    if metric == "timesteps":
        axes.yaxis.set_major_formatter(EngFormatter())


def draw_published(axes: Axes, groups: Sequence[Group]) -> None:
    points = published_beside([run for group in groups for run in group.runs])
    if points:
        axes.plot(*zip(*points, strict=True), "k*:", alpha=0.6, label=SOURCE)


def _write(figure: Figure, file: Path, remarks: Sequence[str]) -> None:
    if remarks:
        text = "\n".join(line if len(line) <= 150 else f"{line[:147]}…" for line in remarks[:8])
        figure.supxlabel(text, fontsize=7, x=0.01, ha="left", color="0.3")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    plt.close(figure)
