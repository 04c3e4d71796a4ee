"""From the runs of config/suites/learning.yaml to docs/results/learning_pairs.md: does parallel learn as well?"""

from __future__ import annotations

import math

from matplotlib import pyplot as plt

from benchmarks.measurement import ROOT
from rlcb.analysis.bands import Axis
from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import Group, group_by_name
from rlcb.analysis.plots import STYLE, draw
from rlcb.cpu.machine import machine

RUNS = ROOT / "benchmarks" / "learning"
RESULTS = ROOT / "docs" / "results"
PAIRS = (
    ("PPO Sequential", "PPO Parallel"),
    ("A2C Sequential", "A2C Parallel"),
    ("IMPALA Sequential", "IMPALA Parallel"),
)
AXES: tuple[Axis, ...] = ("steps", "time")
SMOOTHING = 0.95
AGAINST = (*PAIRS, ("A2C Parallel", "A3C Parallel"))


def main() -> None:
    groups = group_by_name([RUNS])
    comparison = Comparison(groups)
    for x in AXES:
        _picture(groups, x)
    lines = [
        "# Does parallel learn as well?",
        "",
        "`make prove-parallel`: CoinRun easy, 200 levels, 32 environments, nature network, one seed, "
        f"{60 * max(group.number('duration_hours') or 0.0 for group in groups):.0f} minutes each.",
        f"{machine().cores} cores; several processes are two workers, or two actors.",
        "",
        "![by time](learning_pairs_time.png)",
        "",
        "![by steps](learning_pairs_steps.png)",
        "",
        "```",
        comparison.text(),
        "```",
        "",
        "## Against each other",
        "",
        "Rewards of evaluation on training levels. The noise is twice the standard error of the difference of two",
        "means; it knows of the episodes only. Runs differ by more: PPO and A2C in several processes are the very",
        "experiment that they are in one, but for the rounding of sums, which learning amplifies until the two are as",
        "different as two seeds. So what the first two rows differ by is what any two runs of one experiment do.",
        "",
        "| | first | second | second - first | noise | FPS second / first |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(groups, *pair) for pair in AGAINST),
    ]
    (RESULTS / "learning_pairs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"Written: {RESULTS / 'learning_pairs.md'}")


def _picture(groups: list[Group], x: Axis) -> None:
    """Two curves in a panel: all seven in one hide each other."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained", sharex=True, sharey=True)
        for panel, pair in zip(axes.flat, AGAINST, strict=True):
            draw(panel, [group for group in groups if group.label in pair], "rollout/ep_reward_mean", x, SMOOTHING)
            panel.set_ylim(4, 10)  # the first means are of a handful of episodes
            panel.legend(loc="lower right")
        figure.savefig(RESULTS / f"learning_pairs_{x}.png")
        plt.close(figure)


def _row(groups: list[Group], first: str, second: str) -> str:
    runs = {group.label: group.runs[0] for group in groups}
    ours, theirs = runs[second].evaluation["train"], runs[first].evaluation["train"]
    noise = 2 * math.sqrt(sum(one["std_reward"] ** 2 / one["episodes"] for one in (ours, theirs)))
    speed = (runs[second].number("avg_fps") or 0) / (runs[first].number("avg_fps") or 1)
    means = f"{theirs['mean_reward']:.2f} | {ours['mean_reward']:.2f}"
    difference = ours["mean_reward"] - theirs["mean_reward"]
    return f"| {first}, {second} | {means} | {difference:+.2f} | ±{noise:.2f} | {speed:.2f}x |"


if __name__ == "__main__":
    main()
