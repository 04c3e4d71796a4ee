"""From the runs of config/suites/learning.yaml to docs/results/learning_pairs.md: does parallel learn as well?"""

from __future__ import annotations

import math

from benchmarks.measurement import ROOT
from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import Group, group_by_name
from rlcb.analysis.plots import curves

RUNS = ROOT / "benchmarks" / "learning"
RESULTS = ROOT / "docs" / "results"
PAIRS = (
    ("PPO Sequential", "PPO Parallel"),
    ("A2C Sequential", "A2C Parallel"),
    ("IMPALA Sequential", "IMPALA Parallel"),
)
AGAINST = (*PAIRS, ("A2C Parallel", "A3C Parallel"))


def main() -> None:
    groups = group_by_name([RUNS])
    comparison = Comparison(groups)
    reward = ["rollout/ep_reward_mean"]
    curves(groups, RESULTS / "learning_pairs_steps.png", reward, "steps", 0.6, published=True)
    curves(groups, RESULTS / "learning_pairs_time.png", reward, "time", 0.6)
    lines = [
        "# Does parallel learn as well?",
        "",
        "`make prove-parallel`: CoinRun easy, 200 levels, 32 environments, nature network, ten minutes each, one seed.",
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
        "means; it knows of the episodes only, not of other seeds, which differ by more.",
        "",
        "| | first | second | second - first | noise | FPS second / first |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(groups, *pair) for pair in AGAINST),
    ]
    (RESULTS / "learning_pairs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"Written: {RESULTS / 'learning_pairs.md'}")


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
