"""From the runs of config/suites/learning.yaml to docs/results/learning_pairs.md: does parallel learn as well?"""

from __future__ import annotations

import math

from matplotlib import pyplot as plt
from scipy import stats

from benchmarks.measurement import ROOT
from rlcb.analysis import quantities as q
from rlcb.analysis.bands import Axis
from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import Group, group_by_name
from rlcb.analysis.plots import STYLE, draw
from rlcb.analysis.statistics import CONFIDENCE, Floats, enough
from rlcb.analysis.tables import overview_table
from rlcb.cpu.machine import machine

RUNS = ROOT / "benchmarks" / "learning"
RESULTS = ROOT / "docs" / "results"
AGAINST = (
    ("PPO Sequential", "PPO Parallel"),
    ("A2C Sequential", "A2C Parallel"),
    ("IMPALA Sequential", "IMPALA Parallel"),
    ("A2C Parallel", "A3C Parallel"),
)
AXES: tuple[Axis, ...] = ("steps", "time")
SMOOTHING = 0.95
HOW = """\
Rewards of evaluation on training levels. Where there are three runs of both, the noise is
half the 95% interval of the difference of their means (Welch's, over runs). Where there are fewer, it is twice the
standard error of the difference, which knows of the episodes only; runs differ by more."""
SAME = """\
PPO and A2C in several processes should be the very run that they are in one, as far as both come in their time. Updates
of the same seed in which rewards, lengths of episodes and the norm of gradients are the same to the last digit:"""
EXACT = ("timesteps", "rollout/ep_reward_mean", "rollout/ep_length_mean", "train/grad_norm")


def main() -> None:
    groups = [Group(group.runs[0].label, group.runs) for group in group_by_name([RUNS])]
    for x in AXES:
        _picture(groups, x)
    minutes = round(60 * max(group.number("duration_hours") or 0.0 for group in groups))
    lines = [
        "# Does parallel learn as well?",
        "",
        f"`make prove-parallel`: CoinRun easy, 200 levels, 32 environments, nature network, {minutes} minutes each.",
        f"{machine().cores} cores; several processes are two workers, or two actors. Runs of a row differ in their",
        "seed, its figures are their means; shaded is one standard deviation.",
        "",
        *(line for x in reversed(AXES) for line in (f"![by {x}](learning_pairs_{x}.png)", "")),
        "```",
        "\n".join([overview_table(groups), "", *Comparison(groups).remarks()]),
        "```",
        "",
        "## Against each other",
        "",
        HOW,
        "",
        "| | runs | first | second | second - first | noise | FPS second / first |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_row(groups, *pair) for pair in AGAINST),
        "",
        SAME,
        "",
        *(_same(groups, *pair) for pair in AGAINST[:2]),
        "",
        "Rewards of every run, in the order of seeds:",
        "",
        *(f"- {group.label}: {', '.join(f'{score:.2f}' for score in _scores(group))}" for group in groups),
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
    by_label = {group.label: group for group in groups}
    pair = (by_label[first], by_label[second])
    before, after = (float(_scores(group).mean()) for group in pair)
    speed = (pair[1].number("avg_fps") or 0) / (pair[0].number("avg_fps") or 1)
    runs = " and ".join(str(len(group.runs)) for group in pair)
    return (
        f"| {first}, {second} | {runs} | {before:.2f} | {after:.2f} | {after - before:+.2f} | {_noise(*pair)} | "
        f"{speed:.2f}x |"
    )


def _same(groups: list[Group], first: str, second: str) -> str:
    by_label = {group.label: group for group in groups}
    found = []
    for one in by_label[first].runs:
        for other in by_label[second].runs:
            if one.setting("env.seed") == other.setting("env.seed"):
                both = list(zip(one.history, other.history, strict=False))
                same = sum(all(a.get(name) == b.get(name) for name in EXACT) for a, b in both)
                found.append(f"{same:,} of {len(both):,}")
    return f"- {first}, {second}: {', '.join(found)}"


def _scores(group: Group) -> Floats:
    return group.values(q.TRAIN_SCORE.of)


def _noise(*pair: Group) -> str:
    scores = [_scores(group) for group in pair]
    if enough(*scores):
        low, high = stats.ttest_ind(*scores, equal_var=False).confidence_interval(CONFIDENCE)
        return f"±{(high - low) / 2:.2f} (runs)"
    return f"±{2 * math.sqrt(sum(map(_variance, pair))):.2f} (episodes)"


def _variance(group: Group) -> float:
    """Of its mean, were every run as good as the others."""
    played = [run.evaluation["train"] for run in group.runs]
    return float(sum(one["std_reward"] ** 2 / one["episodes"] for one in played)) / len(played) ** 2


if __name__ == "__main__":
    main()
