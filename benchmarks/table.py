"""From the rounds of a workload to medians, ratios, verdicts, and text."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

from benchmarks.measurement import DISTURBED
from benchmarks.ours import workload_of
from benchmarks.sides import SIDES, TABLES, Bar
from benchmarks.workloads import Workload

Round = dict[str, dict[str, Any]]  # side -> what was measured


class Verdict(NamedTuple):
    what: str
    measured: float  # median of the rounds' ratios
    lowest: float
    highest: float
    bar: float
    at_most: bool

    @property
    def met(self) -> bool:
        return self.measured <= self.bar if self.at_most else self.measured >= self.bar


def verdicts(table: str, arch: str, rounds: list[Round]) -> list[Verdict]:
    made = []
    for bar in TABLES[table]:
        if arch in bar.bars:
            ratios = [_ratio(bar, round_) for round_ in rounds]
            made.append(Verdict(bar.what, median(ratios), min(ratios), max(ratios), bar.bars[arch], bar.at_most))
    return made


def _ratio(bar: Bar, round_: Round) -> float:
    unit: float = round_[bar.other][bar.quantity] if bar.other else 2**30
    return float(round_[bar.side][bar.quantity] / unit)


def report(table: str, workload: Workload, rounds: list[Round]) -> str:
    each = f"{workload.updates} update{'s' if workload.updates > 1 else ''} each, after {workload.warm_up} to warm up"
    return "\n".join(
        [
            f"{workload}",
            f"coinrun, easy, {workload.num_levels} levels; median of {len(rounds)} rounds (lowest–highest), {each}",
            *_one_pass(workload, rounds),
            "",
            *_speeds(rounds),
            "",
            *_verdict_lines(verdicts(table, workload.arch, rounds)),
            "",
            *_phases(rounds),
        ]
    )


def _one_pass(workload: Workload, rounds: list[Round]) -> list[str]:
    """What IMPALA, A3C and Sample Factory do instead."""
    if "impala" not in rounds[0]:
        return []
    names = {"impala": "IMPALA", "a3c": "A3C, Sample Factory" if "a3c" in rounds[0] else "Sample Factory"}
    made = {name: workload_of(run, workload) for run, name in names.items()}
    return [f"{name}: {one}, {one.updates} updates after {one.warm_up} to warm up" for name, one in made.items()]


def _speeds(rounds: list[Round]) -> list[str]:
    lines = [f"  {'':<42}{'FPS':>8}  {'':<17}{'peak memory':>12}"]
    for side in rounds[0]:
        name = SIDES[side].label
        fps = [round_[side]["fps"] for round_ in rounds]
        spread = f"({min(fps):,.0f}–{max(fps):,.0f})"
        memory = (
            "" if side.startswith("ceiling") else f"{median(r[side]['peak_memory'] for r in rounds) / 2**30:.2f} GB"
        )
        disturbed = sum(round_[side].get("cores_busy_elsewhere", 0.0) > DISTURBED for round_ in rounds)
        remark = f"  disturbed in {disturbed} of {len(rounds)} rounds" if disturbed else ""
        lines.append(f"  {name:<42}{median(fps):>8,.0f}  {spread:<17}{memory:>12}{remark}".rstrip())
    return lines


def _verdict_lines(all_verdicts: list[Verdict]) -> list[str]:
    lines = [f"  {'this project':<42}{'ratio':>8}  {'':<17}{'bar':>12}"]
    for verdict in all_verdicts:
        spread = f"({verdict.lowest:.2f}–{verdict.highest:.2f})"
        bar = f"{'≤' if verdict.at_most else '≥'} {verdict.bar:.2f}"
        met = "met" if verdict.met else "MISSED"
        lines.append(f"  {verdict.what:<42}{verdict.measured:>8.2f}  {spread:<17}{bar:>12}  {met}")
    return lines


def _phases(rounds: list[Round]) -> list[str]:
    """Seconds per update: in training, and each piece alone."""
    pairs = {"ours": "ceiling", "parallel": "ceiling_ranks", "impala": "ceiling_impala", "a3c": "ceiling_a3c"}
    lines: list[str] = []
    for side, alone in pairs.items():
        if side not in rounds[0] or alone not in rounds[0]:
            continue
        lines.append(f"  {SIDES[side].label + ', seconds per update':<58}{'in training':>12}{'alone':>8}")
        if side == "impala":
            lines.append("  (in training: mean of actors and learners, which take turns)")
        for name in rounds[0][side]["phases"]:
            seconds = median(round_[side]["phases"][name] for round_ in rounds)
            piece = median(round_[alone]["phases"].get(name, 0.0) for round_ in rounds)
            lines.append(f"  {name:<58}{seconds:>12.2f}{piece:>8.2f}")
        lines.append("")
    return lines[:-1]
