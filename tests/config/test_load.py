from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlcb.config import Config, Override, load_config, settings_that_do_not_fit
from rlcb.config.tree import ALGORITHM_DEFAULTS, flag_name, leaves
from rlcb.errors import UserError
from tests.conftest import ROOT

GUIDE_BLOCKS = sorted((ROOT / "tests/guides").glob("*.yaml"))
SHIPPED = sorted((ROOT / "config").glob("*.yaml"))


def flags(**values: Any) -> list[Override]:
    return [Override(path.replace("__", "."), value, f"--{path}") for path, value in values.items()]


def problems_of(file: Path | None, overrides: list[Override]) -> list[str]:
    with pytest.raises(UserError) as caught:
        load_config(file, overrides)
    return caught.value.problems


@pytest.mark.parametrize("file", GUIDE_BLOCKS, ids=lambda file: file.stem)
def test_every_block_of_the_guides_loads_unchanged(file: Path) -> None:
    algo = "impala" if "impala" in file.stem else "ppo"
    mode = "parallel" if "parallel" in file.stem else "sequential"
    config = load_config(file, [], {"algo": algo, "mode": mode})
    assert settings_that_do_not_fit(config) == []


def test_old_spellings_reach_their_present_place() -> None:
    config = load_config(ROOT / "tests/guides/ppo_sequential_example.yaml", [])
    assert (config.env.num_envs, config.hardware.num_threads, config.ppo.clip_range) == (64, 16, 0.2)
    assert config.training.total_timesteps == 25_000_000
    impala = load_config(ROOT / "tests/guides/impala_sequential_example.yaml", [], {"algo": "impala"})
    assert (impala.training.ent_coef, impala.training.vf_coef, impala.training.max_grad_norm) == (0.01, 0.5, 40.0)


def test_both_spellings_give_the_same_configuration(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("training: {num_envs: 16, device: cpu, num_threads: null}\nppo: {learning_rate: 1e-3}\n")
    new.write_text(
        "env: {num_envs: 16}\nhardware: {device: cpu, num_threads: null}\ntraining: {learning_rate: 0.001}\n"
    )
    assert load_config(old, []) == load_config(new, [])


def test_spellings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "both.yaml"
    file.write_text("training: {num_envs: 16}\nenv: {num_envs: 32}\n")
    [problem] = problems_of(file, [])
    assert "training.num_envs" in problem
    assert "env.num_envs" in problem


def test_the_block_of_another_algorithm_waits_for_its_own_run(tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    file.write_text("ppo: {learning_rate: 0.5}\nimpala: {max_grad_norm: 7}\n")
    assert load_config(file, flags(algo="ppo")).training.max_grad_norm == 0.5
    assert load_config(file, flags(algo="impala")).training.max_grad_norm == 7
    assert load_config(file, flags(algo="ppo")).training.learning_rate == 0.5


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_files_load(file: Path) -> None:
    load_config(file, [])


@pytest.mark.parametrize("algo", ALGORITHM_DEFAULTS)
def test_the_standard_file_of_an_algorithm_says_what_the_defaults_are(algo: str) -> None:
    mode = "parallel" if algo == "a3c" else "sequential"
    crew = {"parallel.num_workers": 4} if algo == "a3c" else {}
    ours = load_config(None, [*flags(algo=algo, mode=mode), *(Override(*item, "") for item in crew.items())])
    file = load_config(ROOT / f"config/{algo}_{mode}.yaml", [])
    assert file.model_dump(exclude={"logging"}) | {"training": None} == ours.model_dump(exclude={"logging"}) | {
        "training": None
    }
    reporting = {"log_interval", "save_interval"}
    assert file.training.model_dump(exclude=reporting) == ours.training.model_dump(exclude=reporting)


@pytest.mark.parametrize(
    ("name", "envs"),
    [
        ("ppo_sequential_ryzen7", 64),
        ("ppo_parallel_ryzen7", 64),
        ("impala_sequential_ryzen7", 48),
        ("impala_parallel_ryzen7", 48),
        ("ppo_sequential_highend", 112),
        ("ppo_parallel_highend", 112),
        ("ppo_sequential", 32),
        ("ppo_parallel", 32),
        ("impala_sequential", 32),
        ("impala_parallel", 32),
    ],
)
def test_environments_of_the_shipped_files(name: str, envs: int) -> None:
    assert load_config(ROOT / f"config/{name}.yaml", []).num_envs == envs


def test_flags_beat_the_file_and_the_file_beats_defaults(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("env: {num_envs: 64, seed: 7}\n")
    config = load_config(file, flags(env__seed="9"))
    assert (config.env.num_envs, config.env.seed, config.training.n_steps) == (64, 9, 128)


def test_a_budget_by_flags_replaces_the_budget_of_the_file() -> None:
    file = ROOT / "config/ppo_sequential.yaml"
    assert load_config(file, []).training.total_timesteps == 25_000_000
    timed = load_config(file, flags(training__duration="0.5")).training
    assert (timed.total_timesteps, timed.duration) == (None, 0.5)
    both = load_config(file, flags(training__duration="0.5", training__total_timesteps="1e6")).training
    assert (both.total_timesteps, both.duration) == (1_000_000, 0.5)


def test_a_written_configuration_loads_as_itself(tmp_path: Path) -> None:
    config = load_config(ROOT / "config/impala_sequential_ryzen7.yaml", flags(training__duration="0.1"))
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config.model_dump()))
    assert load_config(file, []) == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"training__n_epochs": "2.5"}, ["--training__n_epochs 2.5", "whole number"]),
        ({"training__gamma": "1.5"}, ["1.5", "at most 1"]),
        ({"env__num_envs": "0"}, ["0", "at least 1"]),
        ({"env__name": "coinrn"}, ["coinrn", "did you mean coinrun"]),
        ({"training__learning_rate": "fast"}, ["fast", "not a number"]),
        ({"training__learning_rate": "nan"}, ["nan"]),
        ({"training__batch_size": "1000"}, ["1000", "does not divide", "1024"]),
        ({"training__batch_size": "8192"}, ["8192", "more than one rollout"]),
        ({"hardware__device": "cuda"}, ["cuda", "use cpu"]),
        ({"model__arch": "resnet"}, ["resnet", "nature"]),
        ({"env__distribution_mode": "extreme"}, ["extreme", "coinrun", "easy or hard"]),
        ({"env__seed": True}, ["True", "not a number"]),
    ],
)
def test_a_bad_value_is_one_line_with_key_value_and_remedy(settings: dict[str, Any], words: list[str]) -> None:
    [problem] = problems_of(None, flags(**settings))
    assert "\n" not in problem
    for word in words:
        assert word in problem


def test_unknown_keys_get_a_suggestion(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("training: {leaning_rate: 0.1}\nenvs: {name: coinrun}\n")
    text = "\n".join(problems_of(file, []))
    assert "training.leaning_rate: unknown key; did you mean training.learning_rate?" in text
    assert "envs: unknown key; did you mean env?" in text


def test_every_problem_is_listed_at_once(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("training: {n_epochs: 2.5, batch_size: 1000, speed: 3}\nenv: {name: pong}\nhardware: 3\n")
    problems = problems_of(file, flags(training__gamma="2"))
    assert len(problems) == 6


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [1\n", "\tx: 1\n"])
def test_a_file_that_is_not_settings(tmp_path: Path, text: str) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    [problem] = problems_of(file, [])
    assert "f.yaml" in problem


def test_a_missing_file_lists_those_nearby(tmp_path: Path) -> None:
    (tmp_path / "there.yaml").write_text("")
    [problem] = problems_of(tmp_path / "absent.yaml", [])
    assert "there.yaml" in problem


def test_configurations_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Config().env.seed = 3  # type: ignore[misc]


def test_flags_are_unambiguous_and_described() -> None:
    names = [flag_name(path) for path, _ in leaves() if flag_name(path)]
    assert len(names) == len(set(names))
    assert all(field.description for _, field in leaves())


def test_a_timed_command_trains_as_long_as_the_file_says_or_for_its_usual_time(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("training: {duration: 0.5}")
    assert load_config(file, [], hours=1.0).training.duration == 0.5
    file.write_text("training: {total_timesteps: 25_000_000}")
    timed = load_config(file, [], hours=1.0).training
    assert (timed.duration, timed.total_timesteps) == (1.0, None)


def test_a_block_that_is_a_number_is_refused_by_a_timed_command_too(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("training: 5\n")
    with pytest.raises(UserError) as caught:
        load_config(tmp_path / "mine.yaml", [], hours=1.0)
    assert any(problem.startswith("training: ") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_workers": 2, "num_envs_per_worker": 65536}, "131072 environments in all are too many; at most 65536"),
        ({"num_actors": 2}, "PPO collects with workers; use parallel.num_workers"),
    ],
)
def test_processes_that_cannot_be(settings: dict[str, int], expected: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mode: parallel\nparallel: {num_workers: 4}\n")
    overrides = [Override(f"parallel.{name}", value, name) for name, value in settings.items()]
    [problem] = problems_of(tmp_path / "mine.yaml", overrides)
    assert expected in problem
