"""Several seeds: intervals and tests, or a line that says why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlcb.analysis import quantities as q
from rlcb.analysis import statistics
from rlcb.analysis.groups import Group, several_games
from rlcb.analysis.quantities import Quantity
from rlcb.analysis.run import Floats, Run
from rlcb.analysis.scores import RANGES
from rlcb.games import game_name


@dataclass(frozen=True)
class Estimate:
    """One quantity of one group."""

    runs: int
    mean: float
    iqm: float
    of_mean: statistics.Interval | None  # None: too few runs
    of_iqm: statistics.Interval | None


@dataclass(frozen=True)
class Test:
    """One group against the first, in one quantity."""

    label: str
    against: str
    improvement: float | None  # probability of
    p: float | None


@dataclass(frozen=True)
class Finding:
    quantity: Quantity
    estimates: dict[str, Estimate]  # by group
    tests: list[Test]


def findings(groups: Sequence[Group], tested: Sequence[Quantity] = q.TESTED) -> list[Finding]:
    """Of every quantity that all groups have."""
    found = []
    for quantity in tested:
        values = {group.label: group.values(quantity.of) for group in groups}
        if all(len(numbers) for numbers in values.values()):
            first = groups[0].label
            tests = [_test(group.label, first, values, quantity) for group in groups[1:]]
            mixed = any(several_games([group]) for group in groups)  # what games differ in would be taken for noise
            estimates = {group.label: estimate(_by_game(group, quantity)) for group in groups}
            found.append(Finding(quantity, estimates, [] if mixed else tests))
    return found


def _by_game(group: Group, quantity: Quantity) -> list[Floats]:
    games = dict.fromkeys(run.setting("env.name") for run in group.runs)
    parts = (Group("", tuple(run for run in group.runs if run.setting("env.name") == game)) for game in games)
    return [values for part in parts if len(values := part.values(quantity.of))]


def estimate(strata: Sequence[Floats]) -> Estimate:
    """Strata are games; the runs of one game are drawn from by themselves."""
    together, enough = np.concatenate(strata), statistics.enough(*strata)
    return Estimate(
        len(together),
        statistics.mean(together),
        statistics.iqm(together),
        statistics.interval(strata, statistics.mean) if enough else None,
        statistics.interval(strata, statistics.iqm) if enough else None,
    )


def _test(label: str, first: str, values: dict[str, Floats], quantity: Quantity) -> Test:
    ours, theirs = values[label], values[first]
    if not statistics.enough(ours, theirs):
        return Test(label, first, None, None)
    better = statistics.probability_of_improvement(ours, theirs)
    return Test(label, first, better if quantity.more_is_better else 1 - better, statistics.welch(ours, theirs))


def as_text(found: Sequence[Finding]) -> str:
    """A block under the table."""
    lines = ["STATISTICS (95% intervals by stratified bootstrap; IQM: mean of the middle half)", "-" * 80]
    for finding in found:
        quantity = finding.quantity
        lines.append(quantity.name)
        for label, one in finding.estimates.items():
            runs = f"{one.runs} runs" if one.runs > 1 else "1 run "
            lines.append(f"  {label:<28}{runs}   {_with_interval('mean', one.mean, one.of_mean, quantity)}")
            lines.append(f"  {'':<28}         {_with_interval('IQM ', one.iqm, one.of_iqm, quantity)}")
        lines += [f"  {_test_text(test)}" for test in finding.tests]
    return "\n".join(lines)


def _with_interval(name: str, value: float, bounds: statistics.Interval | None, quantity: Quantity) -> str:
    text = f"{name} {quantity.text(value)}"
    if bounds is None:
        return f"{text} (no interval: fewer than {statistics.MIN_RUNS} runs)"
    return f"{text} [{quantity.text(bounds.low)}, {quantity.text(bounds.high)}]"


def _test_text(test: Test) -> str:
    pair = f"{test.label} against {test.against}"
    if test.p is None or test.improvement is None:
        return f"{pair}: too few runs for a test (at least {statistics.MIN_RUNS} of each)"
    verdict = "significant at 5%" if test.p < 0.05 else "not significant at 5%"
    return f"{pair}: probability of improvement {test.improvement:.2f}; Welch's t-test p = {test.p:.3g}, {verdict}"


def over_games(groups: Sequence[Group]) -> dict[str, dict[str, Floats]]:
    """Normalised scores by what was trained (or by group, where groups have several games) and by game."""
    quantity = _score_of(groups)
    scores: dict[str, dict[str, list[float]]] = {}
    names = _names_over_games(groups)
    for group in groups:
        for run in group.runs:
            score = quantity.of(run)
            if score is not None:
                by_game = scores.setdefault(names[group.label], {})
                by_game.setdefault(str(run.setting("env.name")), []).append(score)
    several = len({game for by_game in scores.values() for game in by_game}) > 1
    if not several:
        return {}
    return {label: {game: np.array(values) for game, values in by_game.items()} for label, by_game in scores.items()}


def _names_over_games(groups: Sequence[Group]) -> dict[str, str]:
    """Of every group: algorithm and mode, or its own name without the game where several have these in common."""
    first = {group.label: group.runs[0] for group in groups}
    own = {label: label.replace(_game(run), "").strip("_- ").replace("__", "_") for label, run in first.items()}
    variants: dict[str, set[str]] = {}
    for label, run in first.items():
        variants.setdefault(run.label, set()).add(own[label])
    names = {label: own[label] if len(variants[run.label]) > 1 else run.label for label, run in first.items()}
    return names | {group.label: group.label for group in groups if several_games([group])}


def _game(run: Run) -> str:
    return game_name(str(run.setting("env.name") or "coinrun"))


def _score_of(groups: Sequence[Group]) -> Quantity:
    """On unseen levels where all were evaluated on them, else on training levels, else in training."""
    everybody = [run for group in groups for run in group.runs]
    for quantity in (q.NORMALISED_TEST, q.NORMALISED_TRAIN):
        if all(quantity.of(run) is not None for run in everybody):
            return quantity
    return q.NORMALISED_FINAL


def over_games_text(groups: Sequence[Group]) -> str:
    scores = over_games(groups)
    if not scores:
        return ""
    quantity = _score_of(groups)
    lines = [f"OVER ALL GAMES: {quantity.name.lower()} ({RANGES})", "-" * 80]
    for label, by_game in scores.items():
        one = estimate(list(by_game.values()))
        score = _with_interval("IQM", one.iqm, one.of_iqm, quantity)
        lines.append(f"  {label:<28}{len(by_game)} games, {one.runs} runs   {score}")
    return "\n".join(lines)
