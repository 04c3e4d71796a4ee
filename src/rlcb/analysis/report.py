"""`rlcb report`: everything that can be said of some runs, on one page that opens from disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime
from importlib import metadata, resources
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from rlcb.analysis import charts
from rlcb.analysis import quantities as q
from rlcb.analysis.charts import Chart
from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import Group, several_games
from rlcb.analysis.run import Run
from rlcb.analysis.scores import RANGES
from rlcb.analysis.tables import ratios
from rlcb.runs.files import write_atomically

VIDEOS = {".mp4": "video/mp4", ".gif": "image/gif"}
PACKAGES = ("torch", "numpy", "procgen-mirror", "gymnasium", "scipy")


class Table(NamedTuple):
    head: list[str]
    rows: list[list[str]]


class Video(NamedTuple):
    title: str
    kind: str
    source: Markup  # a data: address


def write_report(comparison: Comparison, file: Path) -> None:
    write_atomically(file, render(comparison).encode())


def render(comparison: Comparison) -> str:
    groups = comparison.groups
    environment = Environment(loader=FunctionLoader(_page), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    drawn = _charts(comparison)
    return environment.get_template("report.html").render(
        title=" / ".join(group.label for group in groups),
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        version=_version("rl-cluster-benchmark"),
        answers=_answers(groups),
        headline=_headline(comparison),
        unfair=comparison.unfair,
        gaps=comparison.gaps,
        charts={chart.name: chart for chart in drawn},
        statistics=_statistics(comparison),
        over_games=_over_games(comparison),
        ranges=RANGES,
        videos=_videos(groups),
        hardware=_hardware(groups),
        settings=_settings(groups),
        css=Markup(_page("report.css")),
        script=Markup(_page("report.js")),
        plotly=Markup(_plotly()),
        figures=Markup(_as_script({chart.name: {"data": chart.data, "layout": chart.layout} for chart in drawn})),
    )


def _page(name: str) -> str:
    return resources.files("rlcb.analysis").joinpath("page", name).read_text(encoding="utf-8")


def _plotly() -> str:
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def _as_script(value: Any) -> str:
    """JSON that cannot end the script element it is in."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False).replace("</", "<\\/")


def _charts(comparison: Comparison) -> list[Chart]:
    groups = comparison.groups
    reward, speed, memory = "rollout/ep_reward_mean", "time/fps", "system/memory_gb"
    found: list[Chart | None] = [
        charts.curves(groups, reward, "steps", "Learning by steps", "Episode reward (mean of 100)", published=True),
        charts.curves(groups, reward, "time", "Learning by time", "Episode reward (mean of 100)"),
        charts.bars(groups, q.FPS, "speed", "Speed", "Environment steps per second"),
        charts.curves(groups, speed, "time", "Speed over the run", "Environment steps per second"),
        charts.phases(groups),
        charts.bars(groups, q.MEMORY, "memory", "Peak memory", "GB (PSS of all processes)"),
        charts.curves(groups, memory, "time", "Memory over the run", "GB (PSS of all processes)"),
        charts.generalisation(groups),
    ]
    if several_games(groups):
        from rlcb.analysis.significance import over_games

        if scores := over_games(groups):
            found.append(charts.performance_profiles(scores))
    return [chart for chart in found if chart is not None and chart.data]


def _answers(groups: Sequence[Group]) -> list[str]:
    """How much faster, at what cost, and does it learn as well: against the first group."""
    first, lines = groups[0].label, []
    speeds, memories = ratios(groups, q.FPS), ratios(groups, q.MEMORY)
    for group, speed, memory in zip(groups[1:], speeds[1:], memories[1:], strict=True):
        parts = []
        if speed is not None:
            parts.append(f"runs at {speed:.2f} times the speed of {first}")
        if memory is not None:
            parts.append(f"takes {memory:.2f} times its memory")
        ours, theirs = group.mean(q.FINAL_REWARD.of), groups[0].mean(q.FINAL_REWARD.of)
        if ours is not None and theirs is not None:
            parts.append(f"ends at a reward of {ours:.2f} (against {theirs:.2f})")
        if parts:
            lines.append(f"{group.label} {', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]}.")
    return lines


def _headline(comparison: Comparison) -> Table:
    groups = comparison.groups
    rows = [
        q.Quantity("Runs", lambda run: 1.0, ".0f"),
        q.Quantity("Duration (hours)", q.summary("duration_hours"), ".2f"),
        *(q.TIMESTEPS, q.FPS, q.FINAL_REWARD, q.BEST_REWARD),
        *comparison.learning.quantities(),
        *(q.TRAIN_SCORE, q.TEST_SCORE, q.GAP, q.NORMALISED_TEST, q.MEMORY),
        q.Quantity("CPU use (%)", q.summary("cpu_percent"), ".0f"),
    ]
    table = [[row.name, *(row.text(group.mean(row.of)) for group in groups)] for row in rows]
    table[0][1:] = [str(len(group.runs)) for group in groups]
    speeds = ["-", *("-" if ratio is None else f"{ratio:.2f}x" for ratio in ratios(groups, q.FPS)[1:])]
    table.insert(4, [f"Speedup against {groups[0].label}", *speeds])
    kept = [cells for cells in table if any(cell != "-" for cell in cells[1:])]
    return Table(["", *(group.label for group in groups)], kept)


def _statistics(comparison: Comparison) -> Table | None:
    if not comparison.several_seeds:
        return None
    from rlcb.analysis.significance import findings

    rows = []
    for finding in findings(comparison.groups):
        tests = {test.label: test for test in finding.tests}
        for label, one in finding.estimates.items():
            text, test = finding.quantity.text, tests.get(label)
            rows.append(
                [
                    finding.quantity.name,
                    label,
                    str(one.runs),
                    f"{text(one.mean)} {_interval(one.of_mean, text)}",
                    f"{text(one.iqm)} {_interval(one.of_iqm, text)}",
                    "" if test is None else "too few runs" if test.improvement is None else f"{test.improvement:.2f}",
                    "" if test is None else "too few runs" if test.p is None else f"{test.p:.3g}",
                ]
            )
    head = ["Quantity", "Runs", "Number", "Mean [95%]", "IQM [95%]", "P(better than first)", "Welch p"]
    return Table(head, rows)


def _interval(bounds: Any, text: Any) -> str:
    return "(too few runs)" if bounds is None else f"[{text(bounds.low)}, {text(bounds.high)}]"


def _over_games(comparison: Comparison) -> Table | None:
    if not several_games(comparison.groups):
        return None
    from rlcb.analysis.significance import estimate, over_games

    rows: list[list[str]] = []
    for label, by_game in over_games(comparison.groups).items():
        one = estimate(list(by_game.values()))
        rows.append(
            [label, str(len(by_game)), str(one.runs), f"{one.iqm:.3f} {_interval(one.of_iqm, '{:.3f}'.format)}"]
        )
    return Table(["Runs", "Games", "Number", "IQM of normalised scores [95%]"], rows) if rows else None


def _videos(groups: Sequence[Group]) -> list[Video]:
    found = []
    for group in groups:
        for run in group.runs:
            for file in sorted(run.checkpoints.glob("*")):
                kind = VIDEOS.get(file.suffix)
                if kind:
                    data = base64.b64encode(file.read_bytes()).decode()
                    found.append(Video(f"{group.label}: {file.stem}", kind, Markup(f"data:{kind};base64,{data}")))
    return found


def _hardware(groups: Sequence[Group]) -> Table:
    rows = []
    for group in groups:
        for run in group.runs:
            here = run.summary.get("hardware") or {}
            names = ("cpu", "cores", "memory_gb", "system", "python")
            rows.append(
                [str(run.root), *(str(here.get(name, "-")) for name in names), str(run.summary.get("threads", "-"))]
            )
    versions = [["installed now", ", ".join(f"{name} {_version(name)}" for name in PACKAGES), "", "", "", "", ""]]
    return Table(["Run", "CPU", "Cores", "Memory (GB)", "System", "Python", "Threads"], rows + versions)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "-"


def _settings(groups: Sequence[Group]) -> Table:
    """What differs between the configurations; where files are is no difference."""
    flat = {group.label: _flat(group.runs[0]) for group in groups}
    paths = dict.fromkeys(path for settings in flat.values() for path in settings)
    rows = []
    for path in paths:
        values = [settings.get(path, "-") for settings in flat.values()]
        if len(set(values)) > 1 and not path.startswith("logging."):
            rows.append([path, *values])
    return Table(["Setting", *flat], rows)


def _flat(run: Run) -> dict[str, str]:
    flat: dict[str, str] = {}
    for section, settings in run.config.items():
        if isinstance(settings, dict):
            flat |= {f"{section}.{key}": str(value) for key, value in settings.items()}
        else:
            flat[section] = str(settings)
    return flat
