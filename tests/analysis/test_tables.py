"""The blocks that the guides print, line by line, from their own figures."""

from __future__ import annotations

import re
from pathlib import Path

from rlcb.analysis.compare import Comparison
from rlcb.analysis.groups import group_by_name, named_group
from rlcb.analysis.tables import winners_table
from tests.analysis.conftest import MakeRun

GUIDE_TABLE = """\
================================================================================
TRAINING COMPARISON
================================================================================
Metric                                   Sequential           Parallel
--------------------------------------------------------------------------------
Duration (hours)                         1.00                 1.00
Total Timesteps                          5,471,232            11,536,384
Total Updates                            1,342                2,832

Performance Metrics
--------------------------------------------------------------------------------
Average FPS                              1,520                3,204
Speedup (Parallel/Sequential)            -                    2.11x
Final FPS                                1,518                3,198

Reward Metrics
--------------------------------------------------------------------------------
Initial Reward                           2.45                 2.38
Final Reward                             7.23                 8.45
Best Reward                              8.91                 9.67

Resource Usage
--------------------------------------------------------------------------------
Peak Memory (GB)                         2.34                 6.12

Efficiency Metrics
--------------------------------------------------------------------------------
Timesteps/Hour                           5,471,232            11,536,384
Efficiency Gain (%)                      -                    110.9%
"""

GUIDE_REPORT = """\
================================================================================
SEQUENTIAL VS PARALLEL TRAINING COMPARISON REPORT
================================================================================

Sequential Directory: {sequential}
Parallel Directory: {parallel}

SEQUENTIAL TRAINING
--------------------------------------------------------------------------------
Duration: 1.00 hours
Total Timesteps: 5,471,232
Average FPS: 1,520
Peak Memory: 2.34 GB

PARALLEL TRAINING
--------------------------------------------------------------------------------
Duration: 1.00 hours
Total Timesteps: 11,536,384
Average FPS: 3,204
Peak Memory: 6.12 GB

COMPARISON
--------------------------------------------------------------------------------
Speedup (FPS): 2.11x
Efficiency Gain: 110.9%
"""

GUIDE_WINNERS = """\
Metric                          PPO             IMPALA          Winner
---------------------------------------------------------------------------
Average FPS                     2,560           2,457           PPO (+4%)
Total Timesteps (30min)         4,608,000       4,423,680       PPO (+4%)
Final Reward                    6.82            5.34            PPO (+28%)
Best Reward                     9.20            8.50            PPO (+8%)
Memory Usage                    2.14 GB         1.89 GB         IMPALA (-12%)
Episode Length (shorter better) 245.67          312.45          PPO (+21%)
"""


def guide_runs(make_run: MakeRun) -> tuple[Path, Path]:
    sequential = make_run(
        "sequential_1h",
        duration_hours=1.0,
        total_timesteps=5_471_232,
        total_updates=1342,
        avg_fps=1520.0,
        final_fps=1518.0,
        initial_reward=2.45,
        final_reward=7.23,
        best_reward=8.91,
        peak_memory_gb=2.34,
    )
    parallel = make_run(
        "parallel_1h",
        mode="parallel",
        duration_hours=1.0,
        total_timesteps=11_536_384,
        total_updates=2832,
        avg_fps=3204.0,
        final_fps=3198.0,
        initial_reward=2.38,
        final_reward=8.45,
        best_reward=9.67,
        peak_memory_gb=6.12,
    )
    return sequential, parallel


def comparison(make_run: MakeRun) -> Comparison:
    sequential, parallel = guide_runs(make_run)
    return Comparison([named_group("Sequential", [sequential]), named_group("Parallel", [parallel])])


def in_order(wanted: str, text: str) -> bool:
    """All lines, with others between them allowed."""
    lines = iter(text.splitlines())
    return all(any(line.rstrip() == other.rstrip() for other in lines) for line in wanted.splitlines())


def test_the_guides_table(make_run: MakeRun) -> None:
    text = comparison(make_run).text()
    assert in_order(GUIDE_TABLE, text), text


def test_the_guides_report(make_run: MakeRun) -> None:
    one = comparison(make_run)
    sequential, parallel = (group.runs[0].root for group in one.groups)
    assert one.report().startswith(GUIDE_REPORT.format(sequential=sequential, parallel=parallel))


def test_the_guides_winners(make_run: MakeRun) -> None:
    ppo = make_run(
        "ppo",
        duration_hours=0.5,
        avg_fps=2560.0,
        total_timesteps=4_608_000,
        final_reward=6.82,
        best_reward=9.20,
        peak_memory_gb=2.14,
        mean_episode_length=245.67,
    )
    impala = make_run(
        "impala",
        algo="impala",
        duration_hours=0.5,
        avg_fps=2457.0,
        total_timesteps=4_423_680,
        final_reward=5.34,
        best_reward=8.50,
        peak_memory_gb=1.89,
        mean_episode_length=312.45,
    )
    text = winners_table(named_group("PPO", [ppo]), named_group("IMPALA", [impala]))
    # The guide counts a shorter episode as a gain, relative to the longer one: 66.78 of 312.45.
    assert in_order(GUIDE_WINNERS, text), text
    assert "PPO is ahead in" in text.splitlines()[-1]


def test_any_number_of_runs(make_run: MakeRun) -> None:
    groups = [
        named_group(name, [make_run(name, avg_fps=fps)]) for name, fps in (("a", 100.0), ("b", 150.0), ("c", 90.0))
    ]
    text = Comparison(groups).text()
    (row,) = [line for line in text.splitlines() if line.startswith("Speedup (against a)")]
    assert row.split()[-3:] == ["-", "1.50x", "0.90x"]


def test_more_than_fit_side_by_side_get_a_line_each(make_run: MakeRun) -> None:
    groups = [named_group(f"run{number}", [make_run(f"run{number}")]) for number in range(8)]
    lines = Comparison(groups).text().splitlines()
    assert sum(line.startswith("run") for line in lines) == 8


def test_learning_is_measured_where_all_have_been(make_run: MakeRun) -> None:
    fast = named_group("fast", [make_run("fast", rewards=(2.0, 4.0, 6.0))])
    slow = named_group("slow", [make_run("slow", rewards=(1.0, 2.0, 3.0, 4.0))])
    text = Comparison([fast, slow]).text()
    assert in_order("Reward at 3,000 steps                    6.00                 3.00", text)
    assert in_order("Steps to reward 4.00                     2,000                4,000", text)
    assert in_order("Seconds to reward 4.00                   20                   40", text)
    asked = Comparison([fast, slow], target=5.0).text()
    assert in_order("Steps to reward 5.00                     3,000                not reached", asked)


def test_evaluation_gives_the_gap_and_normalised_scores(make_run: MakeRun) -> None:
    group = named_group("a", [make_run("a", evaluation={"train": 8.0, "test": 6.0})])
    text = Comparison([group, named_group("b", [make_run("b")])]).text()
    assert in_order("Generalisation gap                       2.00                 -", text)
    assert in_order("Normalised score, unseen                 0.200                -", text)  # CoinRun: 5 to 10


def test_too_few_runs_are_said_to_be(make_run: MakeRun) -> None:
    ours = named_group("ours", [make_run(f"o{seed}") for seed in (1, 2)])
    theirs = named_group("theirs", [make_run("t1")])
    text = Comparison([theirs, ours]).text()
    assert "too few runs for a test" in text
    assert "p =" not in text


def test_enough_runs_get_intervals_and_a_p_value(make_run: MakeRun) -> None:
    ours = named_group("ours", [make_run(f"o{n}", final_reward=reward) for n, reward in enumerate((7.2, 7.5, 7.1))])
    theirs = named_group("theirs", [make_run(f"t{n}", final_reward=reward) for n, reward in enumerate((5.2, 5.5, 5.1))])
    text = Comparison([theirs, ours]).text()
    assert "ours against theirs: probability of improvement 1.00" in text
    assert "significant at 5%" in text


def test_over_several_games(make_run: MakeRun) -> None:
    runs = [
        make_run(f"{game}_seed{seed}", settings={"env.name": game, "env.seed": seed}, final_reward=reward)
        for game, reward in (("coinrun", 7.5), ("maze", 10.0))
        for seed in (1, 2, 3)
    ]
    text = Comparison([named_group("ppo", runs), named_group("again", runs)]).text()
    # CoinRun 7.5 of 5 to 10 is a half, Maze 10 of 5 to 10 is all; the middle half of (0.5 x 3, 1 x 3) is 0.75.
    assert "2 games, 6 runs   IQM 0.750 [" in text


def test_variants_of_an_algorithm_are_not_one_over_games(make_run: MakeRun) -> None:
    roots = [
        make_run(f"{size}_{game}", settings={"env.name": game}, final_reward=reward)
        for size, reward in (("ppo_small", 6.0), ("ppo_large", 8.0))
        for game in ("coinrun", "maze")
    ]
    text = Comparison(group_by_name(roots)).text()
    assert "OVER ALL GAMES" in text, "one seed is enough for this"
    assert re.search(r"ppo_small +2 games, 2 runs   IQM 0.200", text)
    assert re.search(r"ppo_large +2 games, 2 runs   IQM 0.600", text)


def test_long_names_keep_their_distance(make_run: MakeRun) -> None:
    roots = [make_run(f"{name}_with_a_name_that_is_long") for name in ("one", "another")]
    head = next(line for line in Comparison(group_by_name(roots)).text().splitlines() if line.startswith("Metric"))
    assert head.split() == ["Metric", *(root.name for root in roots)]


def test_games_of_a_group_are_strata_and_not_noise(make_run: MakeRun) -> None:
    runs = [
        make_run(f"{game}{seed}", settings={"env.name": game, "env.seed": seed}, final_reward=reward + seed / 100)
        for game, reward in (("coinrun", 1.0), ("maze", 9.0))
        for seed in (1, 2, 3)
    ]
    text = Comparison([named_group("ppo", runs), named_group("again", runs)]).text()
    assert "mean 5.02 [5.01, 5.03]" in text, "between games, nothing is drawn"
    assert "against ppo" not in text
