"""From the rounds of a workload to medians, ratios, verdicts, and text."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from benchmarks.workloads import Workload

Round = dict[str, dict[str, Any]]  # side -> what was measured

SIDES = {
    "ours": "this project",
    "sb3": "SB3 as installed",
    "sb3_allocator": "SB3, our allocator settings",
    "ceiling": "ceiling: each piece alone",
}

# How much faster than Stable-Baselines3: as installed, and with our allocator settings.
FASTER = {"nature": (1.7, 1.2), "impala": (3.3, 1.25)}
SHARE_OF_CEILING = 0.85


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


def verdicts(arch: str, rounds: list[Round]) -> list[Verdict]:
    def verdict(what: str, ratio: Callable[[Round], float], bar: float, at_most: bool = False) -> Verdict:
        ratios = [ratio(round_) for round_ in rounds]
        return Verdict(what, median(ratios), min(ratios), max(ratios), bar, at_most)

    def of(quantity: str, other: str) -> Callable[[Round], float]:
        return lambda round_: round_["ours"][quantity] / round_[other][quantity]

    installed, allocator = FASTER[arch]
    return [
        verdict("FPS / SB3 as installed", of("fps", "sb3"), installed),
        verdict("FPS / SB3, our allocator settings", of("fps", "sb3_allocator"), allocator),
        verdict("FPS / ceiling", of("fps", "ceiling"), SHARE_OF_CEILING),
        verdict("peak memory / SB3 as installed", of("peak_memory", "sb3"), 1.0, at_most=True),
        verdict("peak memory / SB3, our allocator settings", of("peak_memory", "sb3_allocator"), 1.0, at_most=True),
    ]


def report(workload: Workload, rounds: list[Round]) -> str:
    warm_up = f"after {workload.warm_up} to warm up" if workload.warm_up else "the first included"
    updates = f"{workload.updates} update{'s' if workload.updates > 1 else ''} each, {warm_up}"
    return "\n".join(
        [
            f"{workload}",
            f"coinrun, easy, {workload.num_levels} levels; median of {len(rounds)} rounds (lowest–highest), {updates}",
            "",
            *_speeds(rounds),
            "",
            *_verdict_lines(verdicts(workload.arch, rounds)),
            "",
            *_phases(rounds),
        ]
    )


def _speeds(rounds: list[Round]) -> list[str]:
    lines = [f"  {'':<42}{'FPS':>8}  {'':<17}{'peak memory':>12}"]
    for side, name in SIDES.items():
        fps = [round_[side]["fps"] for round_ in rounds]
        spread = f"({min(fps):,.0f}–{max(fps):,.0f})"
        memory = "" if side == "ceiling" else f"{median(r[side]['peak_memory'] for r in rounds) / 2**30:.2f} GB"
        lines.append(f"  {name:<42}{median(fps):>8,.0f}  {spread:<17}{memory:>12}".rstrip())
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
    lines = [f"  {'seconds per update':<42}{'ours':>8}  {'alone':<17}"]
    for name in rounds[0]["ours"]["phases"]:
        ours = median(round_["ours"]["phases"][name] for round_ in rounds)
        alone = median(round_["ceiling"]["phases"].get(name, 0.0) for round_ in rounds)
        lines.append(f"  {name:<42}{ours:>8.2f}  {alone:<17.2f}".rstrip())
    return lines
