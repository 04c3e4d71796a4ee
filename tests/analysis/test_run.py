from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest

from rlcb.analysis.groups import Group, group_by_name
from rlcb.analysis.quantities import Learning
from rlcb.analysis.run import find_runs, read_run, runs_in
from rlcb.analysis.scores import generalisation_gap
from rlcb.errors import UserError
from tests.analysis.conftest import MakeRun


def test_a_whole_run_has_no_gaps(make_run: MakeRun) -> None:
    run = read_run(make_run("a", evaluation={"train": 8.0, "test": 6.0}))
    assert (run.label, run.status, run.gaps) == ("PPO Sequential", "finished", ())
    assert run.number("final_reward") == 4.0
    assert run.evaluation["test"]["mean_reward"] == 6.0


def test_without_a_summary_the_metrics_speak(make_run: MakeRun) -> None:
    root = make_run("a")
    (root / "training_summary.json").unlink()
    run = read_run(root)
    assert (run.number("total_timesteps"), run.number("final_reward"), run.number("avg_fps")) == (3000, 4.0, 100)
    assert run.status == "unfinished"
    assert any("unfinished" in gap for gap in run.gaps)


def test_a_torn_line_is_passed_over(make_run: MakeRun) -> None:
    root = make_run("a")
    (log,) = root.glob("logs/*/metrics.jsonl")
    log.write_text(log.read_text() + '{"updates": 4, "timest')
    assert len(read_run(root).history) == 3


def test_a_damaged_summary_is_named_by_its_effect(make_run: MakeRun) -> None:
    root = make_run("a")
    (root / "training_summary.json").write_text("{")
    (root / "config.yaml").write_text(": : :")
    run = read_run(root)
    assert run.number("total_timesteps") == 3000
    assert any("config.yaml is damaged" in gap for gap in run.gaps)


def test_a_run_that_goes_on_shows_what_it_has_reached(make_run: MakeRun) -> None:
    root = make_run("a", total_timesteps=1000, final_reward=1.0)
    with (root / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = read_run(root)
    assert (run.status, run.number("total_timesteps"), run.number("final_reward")) == ("running", 3000, 4.0)


def test_what_a_resumed_run_repeats_counts_once(make_run: MakeRun) -> None:
    root = make_run("a")
    (log,) = root.glob("logs/*/metrics.jsonl")
    lines = log.read_text().splitlines()
    again = {**json.loads(lines[1]), "rollout/ep_reward_mean": 9.0}
    log.write_text("\n".join([*lines, json.dumps(again)]) + "\n")
    assert read_run(root).rewards.values.tolist() == [1.0, 9.0, 4.0]


def test_runs_below_a_directory(make_run: MakeRun, tmp_path: Path) -> None:
    roots = [make_run("b"), make_run("a")]
    assert find_runs(tmp_path) == sorted(roots)


def test_no_run_says_what_is_there(make_run: MakeRun, tmp_path: Path) -> None:
    make_run("mine")
    with pytest.raises(UserError, match=r"no such directory; there are .*mine"):
        find_runs(tmp_path / "nine")


def test_what_holds_no_run_is_left_out(make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `rlcb compare benchmarks/*`."""
    run, empty = make_run("mine"), tmp_path / "logs"
    empty.mkdir()
    assert [found.root for found in runs_in([empty, run])] == [run]
    assert "logs is left out: no run in it" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"logs: no run in it .* there are .*mine"):
        runs_in([empty])


def test_names_that_differ_in_the_seed_are_one_group(make_run: MakeRun, tmp_path: Path) -> None:
    for seed in (42, 43):
        make_run(f"sequential_seed{seed}", settings={"env.seed": seed})
    make_run("parallel_seed42", mode="parallel")
    groups = group_by_name([tmp_path])
    assert {group.label: len(group.runs) for group in groups} == {"sequential": 2, "parallel": 1}


def test_points_of_a_curve(make_run: MakeRun) -> None:
    rewards = read_run(make_run("a")).rewards
    assert rewards.at(1500) == 1.5
    assert rewards.at(9999) is None
    assert rewards.first_at_least(2.0) == (2000, 20)
    assert rewards.first_at_least(5.0) is None


def test_an_evaluation_of_an_earlier_agent_is_named(make_run: MakeRun) -> None:
    root = make_run("a", evaluation={"train": 8.0, "test": 6.0})
    (file,) = root.glob("checkpoints/evaluation.json")
    everything = json.loads(file.read_text())
    for games in everything.values():
        for parts in games.values():
            parts["train"]["timesteps"] = 3000
            parts["test"]["timesteps"] = 1000
    file.write_text(json.dumps(everything))
    run = read_run(root)
    assert any("evaluated at step 1,000 and 3,000 of 3,000" in gap for gap in run.gaps)
    assert generalisation_gap(run) is None, "of two agents"


def test_the_most_trained_agents_evaluation_counts(make_run: MakeRun) -> None:
    """Evaluated at its end, then resumed, interrupted and evaluated again."""
    root = make_run("a", evaluation={"train": 8.0})
    (file,) = root.glob("checkpoints/evaluation.json")
    parts = json.loads(file.read_text())["ppo_sequential_final.pt"]["procgen-coinrun-v0"]["train"]
    entries = {"step_3000": (3000, 9.0), "final": (2000, 8.0), "step_1000": (1000, 7.0)}
    file.write_text(
        json.dumps(
            {
                f"ppo_sequential_{name}.pt": {
                    "procgen-coinrun-v0": {"train": {**parts, "timesteps": steps, "mean_reward": reward}}
                }
                for name, (steps, reward) in entries.items()
            }
        )
    )
    run = read_run(root)
    assert run.evaluation["train"]["mean_reward"] == 9.0
    assert run.gaps == ()


def test_another_games_evaluation_is_not_the_runs(make_run: MakeRun) -> None:
    root = make_run("a", evaluation={"train": 8.0})
    (file,) = root.glob("checkpoints/evaluation.json")
    file.write_text(file.read_text().replace("procgen-coinrun-v0", "procgen-maze-v0"))
    assert read_run(root).evaluation == {}


def test_the_gap_is_of_evaluations_in_the_same_way(make_run: MakeRun) -> None:
    root = make_run("a", evaluation={"train": 8.0, "test": 6.0})
    assert generalisation_gap(read_run(root)) == 2.0
    (file,) = root.glob("checkpoints/evaluation.json")
    everything = json.loads(file.read_text())
    for games in everything.values():
        for parts in games.values():
            parts["train"]["deterministic"], parts["test"]["deterministic"] = True, False
    file.write_text(json.dumps(everything))
    assert generalisation_gap(read_run(root)) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["workers1", "workers2", "levels_200"], {"workers1": 1, "workers2": 1, "levels_200": 1}),
        (["ppo/seed1", "ppo/seed2", "impala/seed1"], {"ppo": 2, "impala": 1}),
        (["seed1/ppo", "seed2/ppo"], {"ppo": 2}),
        (["before/ppo_s1", "before/ppo_s2", "after/ppo_s1"], {"before/ppo": 2, "after/ppo": 1}),
    ],
)
def test_only_seeds_are_taken_together(
    make_run: MakeRun, tmp_path: Path, names: list[str], expected: dict[str, int]
) -> None:
    groups = group_by_name([make_run(name) for name in names])
    assert {group.label: len(group.runs) for group in groups} == expected


def test_what_is_named_twice_counts_once(make_run: MakeRun, tmp_path: Path) -> None:
    root = make_run("a")
    assert [run.root for run in runs_in([tmp_path, root])] == [root]


def test_a_run_that_was_resumed_and_killed_is_not_finished(make_run: MakeRun) -> None:
    run = read_run(make_run("a", total_timesteps=2000, final_reward=2.0))
    assert (run.status, run.number("total_timesteps"), run.number("final_reward")) == ("unfinished", 3000, 4.0)
    assert any("unfinished" in gap for gap in run.gaps)


def test_a_run_that_was_moved_keeps_its_own_evaluation(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of settings may place checkpoints and logs from where the run is started."""
    monkeypatch.chdir(tmp_path)
    places = {"logging.checkpoint_dir": "./checkpoints/mine", "logging.log_dir": "./logs"}
    for reward in (1.0, 9.0):
        run = make_run("checkpoints/mine", rewards=(reward,), settings=places, evaluation={"train": reward})
        (run / "checkpoints/evaluation.json").rename(run / "evaluation.json")
        shutil.copytree(run / "logs", "logs", dirs_exist_ok=True)
        shutil.rmtree(run / "logs")
        if reward == 1.0:
            run.rename(tmp_path / "before")
    moved, here = read_run(Path("before")), read_run(Path("checkpoints/mine"))
    assert (moved.evaluation["train"]["mean_reward"], here.evaluation["train"]["mean_reward"]) == (1.0, 9.0)
    assert moved.history == [], "the logs are another run's by now"
    assert "metrics.jsonl is missing: no curves" in moved.gaps
    assert [record["rollout/ep_reward_mean"] for record in here.history] == [9.0]
    monkeypatch.chdir("/")
    assert read_run(tmp_path / "checkpoints/mine").history == here.history
    assert here.checkpoints == Path("checkpoints/mine")


def test_luck_at_the_beginning_is_no_convergence(make_run: MakeRun) -> None:
    root = make_run("a", rewards=(10.0, 5.0, 6.0, 7.0))
    file = root / "logs/PPO_Sequential/metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    episodes = zip(lines, (2, 90, 100, 400), strict=True)
    file.write_text("".join(json.dumps(line | {"rollout/episodes": count}) + "\n" for line, count in episodes))
    run = read_run(root)
    assert run.settled_rewards.values.tolist() == [6.0, 7.0]
    learning = Learning.of([Group("a", (run,))], None)
    assert (learning.target, learning.steps_to_target(run)) == (7.0, 4000)
    asked = Learning.of([Group("a", (run,))], 8.0)
    assert asked.quantities()[1].text(asked.steps_to_target(run)) == "not reached"


def test_phases_of_an_unfinished_run_add_up_to_its_time(make_run: MakeRun) -> None:
    """Also where not every update has a line."""
    root = make_run("a")
    (root / "training_summary.json").unlink()
    file = root / "logs/PPO_Sequential/metrics.jsonl"
    file.write_text(file.read_text().splitlines()[-1] + "\n")
    assert sum(read_run(root).summary["phase_seconds"].values()) == pytest.approx(30)
