"""From a YAML file and flags to one checked `Config`, or to the list of everything that is wrong."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rlcb.config.crew import with_crew
from rlcb.config.fit import settings_that_do_not_fit
from rlcb.config.spellings import OLD_SPELLINGS, modernise
from rlcb.config.tree import ALGORITHM_DEFAULTS, Config, Section, leaves
from rlcb.config.yaml_file import read_yaml
from rlcb.errors import UserError

Tree = dict[str, Any]


class Override(NamedTuple):
    """A setting given on the command line: `spelling` is what the user typed, for the error message."""

    path: str
    value: Any
    spelling: str


def load_config(
    file: str | Path | None,
    overrides: list[Override],
    fixed: dict[str, str] | None = None,
    cores: int = 1,
    hours: float | None = None,
) -> Config:
    """Defaults of the algorithm < file < overrides. What is `fixed` (by a door) may not be contradicted by the file.
    `cores` is how many workers there are, and `hours` how long it trains, where nobody says.

    Raises a UserError that lists every problem at once.
    """
    raw, problems = _read(file) if file is not None else ({}, [])
    fixed = fixed or {}
    for key, value in fixed.items():
        if raw.get(key, value) != value:
            problems.append(f"{key}: {raw[key]!r} in {file}, but this command trains {key} {value}; use rlcb train")
        raw[key] = value
    by_path = {override.path: override for override in overrides}
    algo = str(by_path["algo"].value if "algo" in by_path else raw.get("algo", "ppo"))
    tree, contradictions = modernise(raw, algo)
    tree = _merged(ALGORITHM_DEFAULTS.get(algo, {}), tree)
    training = tree.setdefault("training", {})
    if hours is not None and isinstance(training, dict) and training.get("duration") is None:
        overrides = [Override("training.duration", hours, "--duration"), *overrides]
    _apply(tree, overrides)
    field_problems, config = _validate(tree, by_path)
    problems += contradictions + field_problems
    if config is not None:
        config, unfit = with_crew(config, set(by_path), cores)
        problems += unfit or settings_that_do_not_fit(config)
    if problems or config is None:
        raise UserError(problems)
    return config


def _read(file: str | Path) -> tuple[Tree, list[str]]:
    path = Path(file)
    if not path.is_file():
        return {}, [f"--config {file}: no such file{_files_nearby(path)}"]
    try:
        raw = read_yaml(path)
    except ValueError as problem:
        return {}, [f"--config {file}: {problem}"]
    if raw is None:
        return {}, []
    if not isinstance(raw, dict):
        return {}, [f"--config {file}: holds a {type(raw).__name__}, not settings; see config/ppo_sequential.yaml"]
    return {str(key): value for key, value in raw.items() if value is not None}, []


def _files_nearby(path: Path) -> str:
    folder = path.parent
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".yaml", ".yml")))
    except OSError:
        return ""
    return f"; {folder}/ holds {', '.join(names)}" if names else ""


def _merged(base: Tree, over: Tree) -> Tree:
    merged = {name: dict(value) if isinstance(value, dict) else value for name, value in base.items()}
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name].update(value)
        else:
            merged[name] = value
    return merged


def _apply(tree: Tree, overrides: list[Override]) -> None:
    # A budget given by flags replaces the file's: `--duration 1` is one hour, however many steps the file names.
    budget = ("training.total_timesteps", "training.duration")
    if any(override.path in budget for override in overrides):
        training = tree.setdefault("training", {})
        if isinstance(training, dict):
            training.update(total_timesteps=None, duration=None)
    for override in overrides:
        section, _, key = override.path.rpartition(".")
        block = tree.setdefault(section, {}) if section else tree
        if isinstance(block, dict):
            block[key] = override.value


def _validate(tree: Tree, by_path: dict[str, Override]) -> tuple[list[str], Config | None]:
    """Problems of single settings, and the configuration without them, so that combinations can be judged too."""
    try:
        return [], Config.model_validate(tree)
    except ValidationError as error:
        errors = error.errors()
    problems = [_explain(problem, by_path) for problem in errors]
    for problem in errors:
        _drop(tree, [str(part) for part in problem["loc"]])
    try:
        return problems, Config.model_validate(tree)
    except ValidationError:
        return problems, None


def _drop(tree: Tree, path: list[str]) -> None:
    block: Any = tree
    for part in path[:2]:
        if isinstance(block, dict) and part in block:
            if part == path[:2][-1] or not isinstance(block[part], dict):
                del block[part]
                return
            block = block[part]


def _explain(problem: Any, by_path: dict[str, Override]) -> str:
    path = ".".join(str(part) for part in problem["loc"][:2])
    value, kind, context = problem["input"], problem["type"], problem.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{path}: unknown key{_did_you_mean(path)}"
    name = f"{by_path[path].spelling} {value}" if path in by_path else f"{path}: {value!r}"
    if kind == "value_error":
        return f"{name} {context['error']}"
    if kind in ("int_from_float", "int_parsing", "int_type"):
        return f"{name} is not a whole number{_example(path)}"
    if kind in ("float_parsing", "float_type", "finite_number"):
        return f"{name} is not a number{_example(path)}"
    if kind in ("bool_parsing", "bool_type"):
        return f"{name} is neither true nor false; use one of them"
    if kind == "literal_error":
        return f"{name} is not a choice; use {context['expected'].replace(chr(39), '')}"
    if kind == "model_type":
        return f"{path}: {value!r} should be a block of settings; write them indented below it"
    bounds = {"greater_than": "more than", "greater_than_equal": "at least", "less_than": "less than"}
    if kind in bounds or kind == "less_than_equal":
        limit = next(iter(context.values()))
        return f"{name} is out of range; it must be {bounds.get(kind, 'at most')} {limit}"
    return f"{name}: {problem['msg'].lower()}"


def _example(path: str) -> str:
    """Ends the line about a wrong type with a value that would do."""
    section, _, key = path.rpartition(".")
    owner = Config.model_fields[section].annotation if section else Config
    default = owner.model_fields[key].default if isinstance(owner, type) and issubclass(owner, Section) else None
    return f"; for example {default}" if default is not None else "; give one, or null"


def _did_you_mean(path: str) -> str:
    known = [name for name, _ in leaves()] + list(OLD_SPELLINGS) + list(Config.model_fields)
    close = difflib.get_close_matches(path, known, n=1, cutoff=0.6)
    if not close:
        key = path.rpartition(".")[2]
        close = [name for name in known if name.rpartition(".")[2] == key][:1]
    return f"; did you mean {close[0]}?" if close else "; docs/training.md lists all keys"
