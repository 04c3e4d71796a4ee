"""Who is measured on which workload, and the bars they are held against."""

from __future__ import annotations

from typing import NamedTuple


class Side(NamedTuple):
    label: str
    command: list[str]  # module of benchmarks/ and its own words
    venv: str = "ours"
    archs: tuple[str, ...] = ("nature", "impala")


SIDES: dict[str, Side] = {
    "ours": Side("this project, sequential", ["ours"]),
    "one_core": Side("this project, sequential, one core", ["ours", "--run", "one_core"]),
    "parallel": Side("this project, PPO, 2 processes", ["ours", "--run", "parallel"]),
    "sb3": Side("SB3 as installed", ["peer_sb3"], "sb3"),
    "sb3_allocator": Side("SB3, our allocator settings", ["peer_sb3", "--allocator"], "sb3"),
    "ceiling": Side("ceiling: each piece alone, 2 threads", ["ceiling"]),
    "ceiling_ranks": Side("ceiling: each piece alone, 2 processes", ["ceiling", "--run", "parallel"]),
    "impala": Side("this project, IMPALA, 2 actors", ["ours", "--run", "impala"]),
    "a3c": Side("this project, A3C, 2 workers", ["ours", "--run", "a3c"], archs=("nature",)),
    "sf": Side("Sample Factory as installed", ["peer_sample_factory"], "sample-factory"),
    "sf_allocator": Side(
        "Sample Factory, our allocator settings", ["peer_sample_factory", "--allocator"], "sample-factory"
    ),
    "ceiling_impala": Side("ceiling: IMPALA's pieces, 2 processes", ["ceiling", "--run", "impala"]),
    "ceiling_a3c": Side("ceiling: A3C's pieces, 2 processes", ["ceiling", "--run", "a3c"], archs=("nature",)),
    "four_workers": Side("this project, PPO, 4 workers × 8", ["ours", "--run", "four_workers"], archs=("nature",)),
}


class Bar(NamedTuple):
    what: str
    side: str
    other: str  # side, or empty for an absolute bar
    bars: dict[str, float]  # by network
    quantity: str = "fps"
    at_most: bool = False


CEILING = {"nature": 0.85, "impala": 0.85}
NO_MORE = {"nature": 1.0, "impala": 1.0}

TABLES: dict[str, list[Bar]] = {
    "sequential": [
        Bar("FPS / SB3 as installed", "ours", "sb3", {"nature": 1.7, "impala": 3.3}),
        Bar("FPS / SB3, our allocator settings", "ours", "sb3_allocator", {"nature": 1.2, "impala": 1.25}),
        Bar("FPS / ceiling", "ours", "ceiling", CEILING),
        Bar("peak memory / SB3 as installed", "ours", "sb3", NO_MORE, "peak_memory", at_most=True),
        Bar("peak memory / SB3, our allocator settings", "ours", "sb3_allocator", NO_MORE, "peak_memory", at_most=True),
    ],
    "parallel": [
        Bar("PPO, 2 processes / one core", "parallel", "one_core", {"nature": 1.85, "impala": 1.9}),
        Bar("PPO, 2 processes / sequential", "parallel", "ours", {"nature": 1.05, "impala": 1.1}),
        Bar("PPO, 2 processes / SB3 as installed", "parallel", "sb3", {"nature": 1.8, "impala": 3.8}),
        Bar("PPO, 2 processes / SB3, our allocator", "parallel", "sb3_allocator", {"nature": 1.28, "impala": 1.4}),
        Bar("PPO, 2 processes / ceiling", "parallel", "ceiling_ranks", CEILING),
        Bar("IMPALA / Sample Factory as installed", "impala", "sf", {"nature": 1.9, "impala": 4.0}),
        Bar("IMPALA / Sample Factory, our allocator", "impala", "sf_allocator", {"nature": 1.75, "impala": 1.8}),
        Bar("IMPALA / ceiling", "impala", "ceiling_impala", CEILING),
        Bar("A3C / Sample Factory as installed", "a3c", "sf", {"nature": 1.8}),
        Bar("A3C / ceiling", "a3c", "ceiling_a3c", {"nature": CEILING["nature"]}),
        Bar("GB, PPO, 4 workers × 8 environments", "four_workers", "", {"nature": 2.0}, "peak_memory", at_most=True),
    ],
}


def sides_of(table: str, arch: str) -> dict[str, Side]:
    """Those that the table's bars on this network speak of."""
    named = {name for bar in TABLES[table] if arch in bar.bars for name in (bar.side, bar.other) if name}
    return {name: side for name, side in SIDES.items() if name in named and arch in side.archs}
