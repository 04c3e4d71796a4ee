from __future__ import annotations

import pytest

from benchmarks.sides import TABLES, sides_of
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("arch", WORKLOADS)
def test_every_bar_speaks_of_sides_that_are_measured(table: str, arch: str) -> None:
    named = {name for bar in TABLES[table] if arch in bar.bars for name in (bar.side, bar.other) if name}
    assert named == set(sides_of(table, arch))
