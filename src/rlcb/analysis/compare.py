"""`rlcb compare`: reads runs, prints what can be said of them, draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rlcb.analysis.fairness import differences
from rlcb.analysis.groups import Group, group_by_name, several_games
from rlcb.analysis.quantities import Learning
from rlcb.analysis.tables import comparison_table, overview_table, report_text, winners_table

SIDE_BY_SIDE = 6  # columns that fit


@dataclass(frozen=True)
class Comparison:
    groups: Sequence[Group]
    target: float | None = None  # reward

    @cached_property
    def learning(self) -> Learning:
        return Learning.of(self.groups, self.target)

    @cached_property
    def unfair(self) -> list[str]:
        return differences(self.groups)

    @cached_property
    def gaps(self) -> list[str]:
        return [f"{run.root}: {gap}" for group in self.groups for run in group.runs for gap in run.gaps]

    @property
    def several_seeds(self) -> bool:
        return any(len(group.runs) > 1 for group in self.groups)

    def remarks(self) -> list[str]:
        """For every output: what makes the comparison less than it seems."""
        lines = ["Not a fair comparison; these differ:", *(f"  {line}" for line in self.unfair)] if self.unfair else []
        return lines + (["Gaps:", *(f"  {line}" for line in self.gaps)] if self.gaps else [])

    def statistics_text(self) -> str:
        """Empty where every group is one run of the same game; scipy is loaded only here."""
        if not self.several_seeds and not several_games(self.groups):
            return ""
        from rlcb.analysis.significance import as_text, findings, over_games_text

        blocks = [as_text(findings(self.groups)) if self.several_seeds else "", over_games_text(self.groups)]
        return "\n\n".join(block for block in blocks if block)

    def text(self) -> str:
        few = len(self.groups) <= SIDE_BY_SIDE
        blocks = [comparison_table(self.groups, self.learning) if few else overview_table(self.groups)]
        if len(self.groups) == 2 and self.groups[0].runs[0].algorithm != self.groups[1].runs[0].algorithm:
            blocks.append(winners_table(*self.groups))
        blocks += [self.statistics_text(), "\n".join(self.remarks())]
        return "\n\n".join(block for block in blocks if block)

    def report(self) -> str:
        statistics = self.statistics_text()
        return report_text(self.groups, [*([statistics, ""] if statistics else []), *self.remarks()])


def summary_table(directories: Sequence[Path]) -> str:
    """The comparison of all runs in these directories, grouped by name."""
    return Comparison(group_by_name(directories)).text()
