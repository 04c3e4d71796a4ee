"""Comparisons as text: the guides' table, their report, their table of winners."""

from __future__ import annotations

from collections.abc import Sequence

from rlcb.analysis import quantities as q
from rlcb.analysis.groups import Group
from rlcb.analysis.quantities import Learning, Quantity
from rlcb.analysis.scores import RANGES

NAME, COLUMN = 41, 21


Row = list[str]  # a name, and a cell for each group


def comparison_table(groups: Sequence[Group], learning: Learning) -> str:
    """Everything side by side; speed-ups are against the first column."""
    head = ["Metric", *(group.label for group in groups)]
    first = [
        _quantity(Quantity("Duration (hours)", q.summary("duration_hours"), ".2f"), groups),
        _quantity(q.TIMESTEPS, groups),
        _quantity(Quantity("Total Updates", q.summary("total_updates")), groups),
    ]
    sections = {title: rows for title, rows in _sections(groups, learning).items() if rows}
    everything = [head, *first, *(row for rows in sections.values() for row in rows)]
    name = max(NAME, 2 + max(len(row[0]) for row in everything))
    column = max(COLUMN, 2 + max(len(cell) for row in everything for cell in row[1:]))

    def line(row: Row) -> str:
        return f"{row[0]:<{name}}{''.join(f'{cell:<{column}}' for cell in row[1:])}".rstrip()

    width = max(80, name - 1 + (column - 1) * len(groups))
    lines = ["=" * width, "TRAINING COMPARISON", "=" * width, line(head), "-" * width, *map(line, first)]
    for title, rows in sections.items():
        lines += ["", title, "-" * width, *map(line, rows)]
    return "\n".join([*lines, "=" * width])


def overview_table(groups: Sequence[Group]) -> str:
    """One line each, for more of them than fit side by side."""
    columns = (
        (q.FPS, "FPS"),
        (q.TIMESTEPS, "Timesteps"),
        (q.FINAL_REWARD, "Final"),
        (q.BEST_REWARD, "Best"),
        (q.TRAIN_SCORE, "Train"),
        (q.TEST_SCORE, "Unseen"),
        (q.GAP, "Gap"),
        (q.MEMORY, "Memory"),
    )
    name = max(len(group.label) for group in groups) + 2
    heads = "".join(f"{title:>13}" for _, title in columns)
    lines = ["TRAINING COMPARISON", f"{'Runs':<{name}}{'Number':>6}{heads}", "-" * (name + 6 + 13 * len(columns))]
    for group in groups:
        cells = "".join(f"{quantity.text(group.mean(quantity.of)):>13}" for quantity, _ in columns)
        lines.append(f"{group.label:<{name}}{len(group.runs):>6}{cells}")
    return "\n".join(lines)


def _sections(groups: Sequence[Group], learning: Learning) -> dict[str, list[Row]]:
    return {
        "Performance Metrics": [
            _quantity(q.FPS, groups),
            [f"Speedup ({_against(groups)})", "-", *(_times(ratio) for ratio in ratios(groups, q.FPS)[1:])],
            _quantity(Quantity("Final FPS", q.summary("final_fps")), groups),
        ],
        "Reward Metrics": [
            _quantity(Quantity("Initial Reward", q.summary("initial_reward"), ".2f"), groups),
            _quantity(q.FINAL_REWARD, groups),
            _quantity(q.BEST_REWARD, groups),
        ],
        "Resource Usage": [
            _quantity(Quantity("Peak Memory (GB)", q.summary("peak_memory_gb"), ".2f"), groups),
            *_if_any(Quantity("Memory per Worker (GB)", q.memory_per_process, ".2f"), groups),
            *_if_any(Quantity("CPU use (%)", q.summary("cpu_percent"), ".0f"), groups),
        ],
        "Efficiency Metrics": [
            _quantity(Quantity("Timesteps/Hour", q.timesteps_per_hour), groups),
            ["Efficiency Gain (%)", "-", *(_gain(ratio) for ratio in efficiency(groups)[1:])],
        ],
        "Learning": [row for quantity in learning.quantities() for row in _if_any(quantity, groups)],
        f"Evaluation (normalised: {RANGES.partition(',')[0]})": [
            row
            for quantity in (q.TRAIN_SCORE, q.TEST_SCORE, q.GAP, q.NORMALISED_TRAIN, q.NORMALISED_TEST)
            for row in _if_any(quantity, groups)
        ],
    }


def _quantity(quantity: Quantity, groups: Sequence[Group]) -> Row:
    return [quantity.name, *(quantity.text(group.mean(quantity.of)) for group in groups)]


def _if_any(quantity: Quantity, groups: Sequence[Group]) -> list[Row]:
    known = any(group.mean(quantity.of) is not None for group in groups)
    return [_quantity(quantity, groups)] if known else []


def _against(groups: Sequence[Group]) -> str:
    return f"{groups[1].label}/{groups[0].label}" if len(groups) == 2 else f"against {groups[0].label}"


def ratios(groups: Sequence[Group], quantity: Quantity) -> list[float | None]:
    """Of every group against the first."""
    first = groups[0].mean(quantity.of)
    values = [group.mean(quantity.of) for group in groups]
    return [None if value is None or not first else value / first for value in values]


def efficiency(groups: Sequence[Group]) -> list[float | None]:
    return ratios(groups, Quantity("", q.timesteps_per_hour))


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _gain(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * (ratio - 1):.1f}%"


def winners_table(first: Group, second: Group) -> str:
    """The guides' table of two, with who is ahead in what and by how much."""
    hours = first.number("duration_hours") or 0.0
    rows = [
        (q.FPS, "Average FPS"),
        (q.TIMESTEPS, f"Total Timesteps ({_short(hours)})"),
        (q.FINAL_REWARD, "Final Reward"),
        (q.BEST_REWARD, "Best Reward"),
        (q.MEMORY, "Memory Usage"),
        (q.LENGTH, "Episode Length (shorter better)"),
    ]
    wide = max(16, len(first.label) + 2, len(second.label) + 2)
    lines = ["COMPARISON", "-" * 79, f"{'Metric':<32}{first.label:<{wide}}{second.label:<{wide}}Winner", "-" * 75]
    wins: dict[str, list[str]] = {first.label: [], second.label: []}
    for quantity, name in rows:
        a, b = first.mean(quantity.of), second.mean(quantity.of)
        winner, verdict = _winner(quantity, first.label, a, second.label, b)
        if winner:
            wins[winner].append(quantity.name.lower())
        lines.append(f"{name:<32}{quantity.text(a):<{wide}}{quantity.text(b):<{wide}}{verdict}".rstrip())
    return "\n".join([*lines, "", _conclusion(wins)])


def _short(hours: float) -> str:
    return f"{hours * 60:.0f}min" if hours < 1 else f"{hours:g}h"


def _winner(quantity: Quantity, first: str, a: float | None, second: str, b: float | None) -> tuple[str | None, str]:
    if a is None or b is None:
        return None, "-"
    if quantity.text(a) == quantity.text(b):
        return None, "tie"
    winner, ahead, behind = (first, a, b) if (a > b) == quantity.more_is_better else (second, b, a)
    if not behind:
        return winner, winner
    change = (ahead - behind) / abs(behind)
    return winner, f"{winner} ({100 * (-change if quantity is q.LENGTH else change):+.0f}%)"


def _conclusion(wins: dict[str, list[str]]) -> str:
    parts = [f"{label} is ahead in {', '.join(names)}" for label, names in wins.items() if names]
    return f"Conclusion: {'; '.join(parts) or 'no difference'}."


def report_text(groups: Sequence[Group], remarks: Sequence[str]) -> str:
    """comparison_report.txt"""
    rule, thin = "=" * 80, "-" * 80
    versus = " VS ".join(group.label.upper() for group in groups) + " " if len(groups) == 2 else ""
    lines = [rule, f"{versus}TRAINING COMPARISON REPORT", rule, ""]
    lines += [f"{group.label} Directory: {', '.join(str(run.root) for run in group.runs)}" for group in groups]
    for group in groups:
        lines += [
            "",
            f"{group.label.upper()} TRAINING",
            thin,
            f"Duration: {_number(group, 'duration_hours', '.2f')} hours",
            f"Total Timesteps: {_number(group, 'total_timesteps', ',.0f')}",
            f"Average FPS: {_number(group, 'avg_fps', ',.0f')}",
            f"Peak Memory: {_number(group, 'peak_memory_gb', '.2f')} GB",
        ]
    lines += ["", "COMPARISON", thin]
    for group, speed, gain in zip(groups[1:], ratios(groups, q.FPS)[1:], efficiency(groups)[1:], strict=True):
        name = "" if len(groups) == 2 else f"{group.label}: "
        lines += [f"{name}Speedup (FPS): {_times(speed)}", f"{name}Efficiency Gain: {_gain(gain)}"]
    return "\n".join([*lines, *(["", *remarks] if remarks else [])]) + "\n"


def _number(group: Group, name: str, form: str) -> str:
    value = group.number(name)
    return "-" if value is None else f"{value:{form}}"
