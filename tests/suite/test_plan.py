"""A suite's file becomes jobs, or lines that say what is wrong with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcb.config import Override
from rlcb.errors import UserError
from rlcb.suite.cores import divided
from rlcb.suite.plan import Plan, load_plan
from rlcb.suite.state import commands
from tests.conftest import ROOT

GRID = {"games": ["coinrun", "starpilot"], "algorithms": ["ppo", "a2c"], "modes": ["sequential"], "seeds": [1, 2]}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    monkeypatch.chdir(tmp_path)

    def load(content: dict[str, Any], **flags: str) -> Plan:
        Path("mine.yaml").write_text(yaml.safe_dump(content))
        overrides = [Override(name, value, f"--{name}") for name, value in flags.items()]
        return load_plan(Path("mine.yaml"), overrides)

    return load


@pytest.fixture
def problems(plan: Callable[..., Plan]) -> Callable[..., list[str]]:
    def refused(content: dict[str, Any], **flags: str) -> list[str]:
        with pytest.raises(UserError) as refusal:
            plan(content, **flags)
        return refusal.value.problems

    return refused


def test_everything_is_combined_seed_by_seed(plan: Callable[..., Plan]) -> None:
    made = plan({**GRID, "duration": 0.5, "settings": {"env.num_levels": 100, "training": {"anneal_lr": True}}})
    assert [job.name for job in made.jobs] == [
        "ppo_sequential_coinrun_seed1",
        "a2c_sequential_coinrun_seed1",
        "ppo_sequential_starpilot_seed1",
        "a2c_sequential_starpilot_seed1",
        "ppo_sequential_coinrun_seed2",
        "a2c_sequential_coinrun_seed2",
        "ppo_sequential_starpilot_seed2",
        "a2c_sequential_starpilot_seed2",
    ]
    assert len({(job.config.algo, job.config.env.name, job.config.env.seed) for job in made.jobs}) == 8
    for job in made.jobs:
        assert (job.config.env.num_levels, job.config.training.anneal_lr) == (100, True)
        assert (job.config.training.duration, job.config.training.total_timesteps) == (0.5, None)
        assert job.run.root == Path("benchmarks/mine") / job.name
    training, evaluation = commands(made.jobs[1])
    assert " ".join(training) == (
        "train --algo a2c --mode sequential --env coinrun --seed 1 --duration 0.5 --num-levels 100 --anneal-lr "
        "--output-dir benchmarks/mine/a2c_sequential_coinrun_seed1"
    )
    assert " ".join(evaluation) == (
        "evaluate --checkpoint benchmarks/mine/a2c_sequential_coinrun_seed1/checkpoints/a2c_sequential_final.pt "
        "--levels both --num-episodes 100 --seed 0 --deterministic"
    )


def test_runs_have_settings_of_their_own(plan: Callable[..., Plan]) -> None:
    few, many = plan(
        {
            "output": "here",
            "settings": {"env.num_envs": 8, "training.batch_size": None, "training.reward_scaling": False},
            "runs": [
                {"name": "few", "settings": {"training.n_steps": 4}},
                {"name": "many", "config": str(ROOT / "config/impala_parallel.yaml"), "settings": {"env.num_envs": 16}},
            ],
        }
    ).jobs
    assert (few.config.algo, few.config.num_envs, few.config.training.n_steps) == ("ppo", 8, 4)
    assert (many.config.algo, many.config.mode, many.config.num_envs) == ("impala", "parallel", 16)
    assert few.log == Path("here/logs/few.log")
    assert " ".join(commands(few)[0]) == (
        "train --num-envs 8 --batch-size null --no-reward-scaling --n-steps 4 --output-dir here/few"
    )


def test_flags_replace_what_the_file_says(plan: Callable[..., Plan]) -> None:
    [job] = plan({"algorithms": "ppo", "duration": 3}, total_timesteps="1e4", output="there").jobs
    assert (job.config.training.duration, job.config.training.total_timesteps) == (None, 10_000)
    assert job.run.root == Path("there/ppo_sequential")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, "algorithms: missing"),
        ({"algorithms": ["ppo"], "runs": [{"name": "a"}]}, "keep one of the two"),
        ({"algorithms": ["ppo"], "seed": [1]}, "seed: unknown key; did you mean seeds?"),
        ({"algorithms": ["pop"]}, "algorithms[0]: 'pop'; it should be 'ppo', 'a2c', 'a3c' or 'impala'"),
        (
            {"algorithms": ["ppo"], "modes": ["local"]},
            "modes[0]: 'local'; it should be 'sequential', 'parallel' or 'clu",
        ),
        (
            {"algorithms": ["ppo"], "modes": ["cluster"], "settings": {"cluster.nodes": 2}},
            "settings.cluster.nodes: a suite runs on one machine; leave it out",
        ),
        (
            {"algorithms": ["ppo"], "games": ["coinrum"]},
            "games[0]: 'coinrum' is not a Procgen game; did you mean coinrun?",
        ),
        ({"algorithms": ["ppo"], "seeds": []}, "seeds: [] names nothing"),
        ({"algorithms": ["ppo"], "seeds": [1, 1]}, "2 of them are called ppo_sequential_seed1"),
        ({"algorithms": ["ppo"], "duration": -1}, "duration: -1; it should be greater than 0"),
        (
            {"algorithms": ["ppo"], "evaluation": {"level": "both"}},
            "evaluation.level: unknown key; did you mean levels?",
        ),
        ({"algorithms": ["ppo"], "settings": {"env.num_level": 3}}, "did you mean env.num_levels?"),
        ({"algorithms": ["ppo"], "settings": {"env.num_levels": -3}}, "settings.env.num_levels: -3 is out of range"),
        (
            {"algorithms": ["ppo"], "settings": {"env.seed": 3}},
            "settings.env.seed: the suite itself says this; use seeds",
        ),
        ({"algorithms": ["ppo"], "settings": {"training.seed": 3}}, "an old spelling; use env.seed"),
        ({"algorithms": ["ppo"], "settings": {"env.num_levels": 0}}, "evaluation.levels: both"),
        ({"runs": [{"algo": "ppo"}]}, "runs[0].name: missing"),
        ({"runs": [{"name": "logs"}]}, "runs[0].name: 'logs' cannot be the name"),
        ({"runs": [{"name": "../up"}]}, "runs[0].name: '../up' cannot be the name"),
        ({"runs": ["ppo"]}, "runs[0]: 'ppo' should be a block"),
        ({"runs": [{"name": "a", "config": "absent.yaml"}]}, "--config absent.yaml: no such file"),
        ({"algorithms": ["ppo"], "output": "mine.yaml/runs"}, "is a file, not a directory"),
    ],
)
def test_a_mistake_is_one_line(problems: Callable[..., list[str]], content: dict[str, Any], expected: str) -> None:
    [problem] = problems(content)
    assert expected in problem


def test_mistakes_of_all_kinds_are_told_together_and_once(problems: Callable[..., list[str]]) -> None:
    content = {**GRID, "durations": 1, "games": ["coinrun", "pong"], "settings": {"env.num_level": 3, "algo": "ppo"}}
    told = problems(content, duration="soon")
    assert [problem.split()[0] for problem in told] == [
        "games[1]:",
        "--duration",
        "durations:",
        "settings.algo:",
        "env.num_level:",
    ]
    assert told[-1].endswith("(run ppo_sequential_coinrun_seed1 and 3 more)")


def test_a_bad_suite_exits_with_2_and_makes_nothing(
    rlcb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text("algorithms: [ppo]\nsettings: {env.num_envs: 0}\n")
    done = rlcb("suite", "bad.yaml", "--jobs", "4096", "--num-episode", "3")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert "did you mean --num-episodes?" in lines[0]
    assert lines[1].startswith("error: --jobs 4096: ")
    assert lines[2].startswith("error: settings.env.num_envs: 0 is out of range")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]
    absent = rlcb("suite", "absent.yaml")
    assert (absent.returncode, absent.stderr) == (2, "error: absent.yaml: no such file; ./ holds bad.yaml\n")


def test_a_dry_run_prints_commands_and_does_nothing(
    rlcb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "two words.yaml").write_text("algorithms: [ppo]\nseeds: [1, 2]\n")
    done = rlcb("suite", "two words.yaml", "--duration", "0.1", "--dry-run")
    assert done.returncode == 0, done.stderr
    first, second, *rest = done.stdout.splitlines()
    place = "'benchmarks/two words/ppo_sequential_seed1"
    assert first == f"rlcb train --algo ppo --mode sequential --seed 1 --duration 0.1 --output-dir {place}'"
    assert second.startswith(f"rlcb evaluate --checkpoint {place}/checkpoints/ppo_sequential_final.pt' --levels both")
    assert len(rest) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["two words.yaml"]


@pytest.mark.parametrize("file", sorted((ROOT / "config/suites").iterdir()), ids=lambda file: file.stem)
def test_suites_that_are_shipped_are_in_order(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    monkeypatch.chdir(tmp_path)
    assert load_plan(file, []).jobs


GUIDES = {
    "workflow": (0.5, ["ppo_seq_30min", "impala_seq_30min", "impala_par_30min"]),
    "seeds": (1, [f"{mode}_seed{seed}" for seed in (42, 43, 44) for mode in ("sequential", "parallel")]),
    "one_hour": (1, ["seq_coinrun_1h", "par_coinrun_1h"]),
}


@pytest.mark.parametrize("name", GUIDES)
def test_the_comparisons_of_the_guides(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    monkeypatch.chdir(tmp_path)
    hours, runs = GUIDES[name]
    plan = load_plan(Path(f"config/suites/{name}.yaml"), [])
    assert [str(job.run.root) for job in plan.jobs] == [f"benchmarks/{run}" for run in runs]
    for job in plan.jobs:
        assert (job.config.training.duration, job.config.env.name) == (hours, "procgen-coinrun-v0")
        assert (job.evaluation.num_episodes, job.evaluation.deterministic) == (100, True)


@pytest.mark.parametrize(
    ("cores", "jobs", "expected"),
    [
        ([{0, 4}, {1, 5}, {2, 6}, {3, 7}], 1, [{0, 1, 2, 3, 4, 5, 6, 7}]),
        ([{0, 4}, {1, 5}, {2, 6}, {3, 7}], 2, [{0, 1, 4, 5}, {2, 3, 6, 7}]),
        ([{0, 4}, {1, 5}, {2, 6}, {3, 7}], 3, [{0, 4}, {1, 5}, {2, 6}]),
        ([{0, 2}, {1, 3}], 4, [{0}, {1}, {2}, {3}]),
        ([{3}, {5}, {9}], 2, [{3}, {5}]),
    ],
)
def test_cores_are_divided_equally_and_not_cut_in_two(
    cores: list[set[int]], jobs: int, expected: list[set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcb.suite.cores.usable_cpus", lambda: set().union(*cores))
    monkeypatch.setattr("rlcb.suite.cores._core", lambda cpu: str(min(next(core for core in cores if cpu in core))))
    assert divided(jobs) == expected
