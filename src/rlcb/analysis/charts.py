"""The report's charts, as plotly draws them: plain data, so that the page needs nothing but plotly's script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rlcb.analysis import quantities as q
from rlcb.analysis.bands import Axis, Band, band, time_unit
from rlcb.analysis.groups import Group
from rlcb.analysis.quantities import Quantity
from rlcb.analysis.run import Floats
from rlcb.analysis.scores import SOURCE, published_beside
from rlcb.analysis.style import Look, look
from rlcb.cpu.phases import PHASES

POINTS = 400  # of a line; more cannot be seen


class Chart(NamedTuple):
    name: str  # of its element on the page
    title: str
    says: str  # what one sees, for those who do not see it
    data: list[dict[str, Any]]
    layout: dict[str, Any]


def curves(groups: Sequence[Group], metric: str, axis: Axis, title: str, y: str, published: bool = False) -> Chart:
    unit, scale = ("steps", 1.0) if axis == "steps" else time_unit(groups)
    data = []
    for index, group in enumerate(groups):
        line = band(group, metric, axis, smoothing=0.6 if metric.startswith("rollout") else 0.0)
        if line is not None:
            data += _line(group, _thin(line, scale), look(index), unit)
    if published:
        data += _published(groups)
    layout = {
        "xaxis": {"title": {"text": "Environment steps" if axis == "steps" else f"Wall-clock time ({unit})"}},
        "yaxis": {"title": {"text": y}},
    }
    name = f"{metric.replace('/', '-')}-{axis}"
    return Chart(name, title, f"Lines: {y} over {unit} for {', '.join(group.label for group in groups)}", data, layout)


def _thin(line: Band, scale: float) -> Band:
    every = max(1, -(-len(line.x) // POINTS))
    return Band(line.x[::every] * scale, line.mean[::every], line.low[::every], line.high[::every])


def _line(group: Group, line: Band, style: Look, unit: str) -> list[dict[str, Any]]:
    marks = [style.marker if index % max(1, len(line.x) // 10) == 0 else "circle" for index in range(len(line.x))]
    sizes = [8 if index % max(1, len(line.x) // 10) == 0 else 0 for index in range(len(line.x))]
    x = _list(line.x)
    drawn = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": group.label,
        "legendgroup": group.label,
        "x": x,
        "y": _list(line.mean),
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"symbol": marks, "size": sizes, "color": style.colour},
        "hovertemplate": f"{group.label}<br>%{{y:.4g}} at %{{x:,.4g}} {unit}<extra></extra>",
    }
    if len(group.runs) == 1:
        return [drawn]
    edges = {
        "type": "scatter",
        "mode": "lines",
        "name": f"{group.label} ± std",
        "legendgroup": group.label,
        "showlegend": False,
        "hoverinfo": "skip",
        "x": x + x[::-1],
        "y": _list(line.high) + _list(line.low)[::-1],
        "fill": "toself",
        "fillcolor": _translucent(style.colour),
        "line": {"width": 0},
    }
    return [edges, drawn]


def _list(values: Floats) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def _translucent(colour: str) -> str:
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def _published(groups: Sequence[Group]) -> list[dict[str, Any]]:
    points = published_beside([run for group in groups for run in group.runs])
    if not points:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": SOURCE,
            "x": [steps for steps, _ in points],
            "y": [reward for _, reward in points],
            "line": {"color": "#888888", "dash": "dot", "width": 1.5},
            "marker": {"symbol": "star", "size": 9, "color": "#888888"},
            "hovertemplate": "published<br>%{y:.2f} at %{x:,.0f} steps<extra></extra>",
        }
    ]


def _bar(
    name: str, x: list[str], y: Sequence[float | None], index: int, hover: str, texts: list[str] | None = None
) -> dict[str, Any]:
    """`index` chooses the look; `texts` stand above the bars."""
    style = look(index)
    drawn = {
        "type": "bar",
        "name": name,
        "x": x,
        "y": y,
        "marker": {"color": style.colour, "pattern": {"shape": style.pattern, "solidity": 0.3}},
        "hovertemplate": f"{hover}<extra></extra>",
    }
    return drawn if texts is None else {**drawn, "text": texts, "textposition": "outside", "cliponaxis": False}


def bars(groups: Sequence[Group], quantity: Quantity, name: str, title: str, y: str) -> Chart:
    """One bar for each group, with a dot for each of its runs where there are several."""
    data: list[dict[str, Any]] = []
    for index, group in enumerate(groups):
        value = group.mean(quantity.of)
        if value is None:
            continue
        text = quantity.text(value)
        data.append(_bar(group.label, [group.label], [value], index, f"{group.label}<br>{text}", [text]))
        if len(group.runs) > 1:
            values = group.values(quantity.of).tolist()
            dots = {"symbol": "circle-open", "size": 8, "color": "#666666"}
            hover = f"{group.label}, one run<br>%{{y:,.4g}}<extra></extra>"
            data.append(
                {"type": "scatter", "mode": "markers", "x": [group.label] * len(values), "y": values, "marker": dots}
                | {"hovertemplate": hover, "showlegend": False}
            )
    says = f"Bars: {y}: " + ", ".join(f"{group.label} {quantity.text(group.mean(quantity.of))}" for group in groups)
    return Chart(name, title, says, data, {"yaxis": {"title": {"text": y}}, "showlegend": False})


def phases(groups: Sequence[Group]) -> Chart:
    """What a step of the environment costs, and for what: the bars' heights are 1 / FPS."""
    data: list[dict[str, Any]] = []
    labels = [group.label for group in groups]
    for index, phase in enumerate(PHASES):
        values = [_microseconds(group, phase) for group in groups]
        data.append(_bar(phase, labels, values, index, f"%{{x}}<br>{phase}: %{{y:.0f}} µs per step"))
    layout = {"barmode": "stack", "yaxis": {"title": {"text": "µs per environment step"}}}
    return Chart("phases", "Where the time goes", "Stacked bars: microseconds per step by phase", data, layout)


def _microseconds(group: Group, phase: str) -> float | None:
    def one(run: Any) -> float | None:
        steps, seconds = run.number("total_timesteps"), (run.summary.get("phase_seconds") or {}).get(phase)
        return 1e6 * seconds / steps if steps and seconds is not None else None

    return group.mean(one)


def generalisation(groups: Sequence[Group]) -> Chart | None:
    """Train and unseen levels side by side."""
    known = [
        group for group in groups if group.mean(q.TRAIN_SCORE.of) is not None or group.mean(q.TEST_SCORE.of) is not None
    ]
    if not known:
        return None
    data = []
    for index, (name, quantity) in enumerate((("training levels", q.TRAIN_SCORE), ("unseen levels", q.TEST_SCORE))):
        values = [group.mean(quantity.of) for group in known]
        texts = [quantity.text(value) for value in values]
        data.append(_bar(name, [group.label for group in known], values, index, f"%{{x}}<br>{name}: %{{y:.2f}}", texts))
    says = "Bars: mean reward of the evaluation on training and on unseen levels"
    layout = {"barmode": "group", "yaxis": {"title": {"text": "Mean reward of whole episodes"}}}
    return Chart("generalisation", "Known levels and unseen ones", says, data, layout)


def performance_profiles(scores: dict[str, dict[str, Floats]]) -> Chart:
    from rlcb.analysis.statistics import profile

    everything = np.concatenate([values for by_game in scores.values() for values in by_game.values()])
    thresholds = np.linspace(min(0.0, float(everything.min())), max(1.0, float(everything.max())), 101)
    data = []
    for index, (label, by_game) in enumerate(scores.items()):
        style = look(index)
        shares = profile(np.concatenate(list(by_game.values())), thresholds)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": label,
                "x": _list(thresholds),
                "y": _list(shares),
                "line": {"color": style.colour, "dash": style.dash, "width": 2, "shape": "hv"},
                "hovertemplate": f"{label}<br>%{{y:.0%}} of runs score more than %{{x:.2f}}<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"title": {"text": "Normalised score"}},
        "yaxis": {"title": {"text": "Share of runs above"}, "tickformat": ".0%"},
    }
    return Chart("profiles", "Performance profiles", "Lines: share of runs above each score", data, layout)
