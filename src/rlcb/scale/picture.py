"""Speed, efficiency and time over the number of nodes, in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # files only: works where there is no display

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter, Formatter, LogLocator, NullLocator, ScalarFormatter, StrMethodFormatter

from rlcb.analysis.plots import STYLE
from rlcb.analysis.style import look
from rlcb.scale.model import Prediction
from rlcb.scale.table import cores_of, efficiency, hours, steps_of, strategy, title


def draw(one_core: Prediction, predictions: Sequence[Prediction], file: Path) -> None:
    """A line for each way to exchange."""
    network = one_core.machines
    steps = EngFormatter(sep="")(steps_of(one_core.config))
    quantities = {
        "Training speed (FPS)": lambda one: one.fps,
        "Efficiency against one core (%)": lambda one: 100 * efficiency(one, one_core),
        f"Time to {steps} steps (hours)": hours,
    }
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")
        for axis, (label, quantity) in zip(axes, quantities.items(), strict=True):
            for index, way in enumerate(dict.fromkeys(strategy(one.config) for one in predictions)):
                style = look(index)
                points = [(one.config.num_nodes, quantity(one)) for one in predictions if strategy(one.config) == way]
                axis.plot(
                    *zip(*points, strict=True), color=style.colour, linestyle=style.line, marker=style.point, label=way
                )
            axis.set_ylabel(label)
            _by_nodes(axis, sorted({one.config.num_nodes for one in predictions}), network.cores)
        _ideal(axes[0], one_core, predictions)
        _by_doubling(axes[0], EngFormatter(sep=""))
        _by_doubling(axes[2], StrMethodFormatter("{x:g}"))
        axes[1].set_ylim(bottom=0)
        axes[0].legend()
        figure.suptitle(
            f"Predicted: {title(one_core.config)}; {network.mbits:g} Mbit/s, {network.latency_ms:g} ms one way",
            fontsize=10,
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file)
        plt.close(figure)


def _by_nodes(axis: Axes, nodes: list[int], cores: int) -> None:
    axis.set_xscale("log")
    axis.set_xlabel(f"Nodes of {cores} core{'s' if cores > 1 else ''}")
    axis.set_xticks(nodes)
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())


def _by_doubling(axis: Axes, formatter: Formatter) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(formatter)
    axis.yaxis.set_minor_locator(NullLocator())


def _ideal(axis: Axes, one_core: Prediction, predictions: Sequence[Prediction]) -> None:
    cores = {one.config.num_nodes: cores_of(one) for one in predictions}
    axis.plot(
        list(cores), [one_core.fps * each for each in cores.values()], ":", color="0.5", label="every core like one"
    )
