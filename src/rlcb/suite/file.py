"""The file of a suite: what it may say, and what is wrong with it."""

from __future__ import annotations

import difflib
import re
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from rlcb.config import Override
from rlcb.config.tree import Algo, Float, Int, Mode, Section
from rlcb.config.yaml_file import read_yaml
from rlcb.errors import UserError
from rlcb.games import GAMES, game_name

LOGS = "logs"  # folder in the suite's output for what the runs print
BUDGET = ("duration", "total_timesteps")


def _as_list(value: Any) -> Any:
    value = value if isinstance(value, list | tuple) else [value]
    if not value:
        raise ValueError("names nothing; give at least one, or leave the key out")
    return value


def _as_games(value: Any) -> Any:
    return GAMES if value == "all" else _as_list(value)


def _as_paths(value: Any) -> Any:
    """`env.num_levels: 200`, and the same as a block: `env: {num_levels: 200}`."""
    if not isinstance(value, dict):
        return value
    paths: dict[Any, Any] = {}
    for name, setting in value.items():
        block = isinstance(setting, dict)
        paths |= {f"{name}.{key}": one for key, one in setting.items()} if block else {name: setting}
    return paths


def _as_folder(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name) or name == LOGS:
        raise ValueError(f"cannot be the name of a run's folder; use letters, digits, '_', '-' and '.', not {LOGS!r}")
    return name


Settings = Annotated[dict[str, Any], BeforeValidator(_as_paths)]
Folder = Annotated[str, AfterValidator(_as_folder)]
Game = Annotated[str, AfterValidator(game_name)]
Seed = Annotated[Int, Field(ge=0, lt=2**31)]


class Variant(Section):
    """One entry of `runs`: what is not given comes from its configuration file, or is the default."""

    name: Folder
    algo: Algo | None = None
    mode: Mode | None = None
    config: str | None = None
    settings: Settings = Field(default_factory=dict)


class Evaluation(Section):
    num_episodes: Int = Field(100, ge=1, lt=2**31)
    levels: Literal["train", "test", "both"] = "both"
    deterministic: bool = True
    seed: Seed = 0


class Suite(Section):
    """The file. Runs are called after what varies: `ppo_parallel`, with game and seed where the file lists them."""

    name: str
    output: str
    games: Annotated[tuple[Game, ...], BeforeValidator(_as_games)] | None = None
    algorithms: Annotated[tuple[Algo, ...], BeforeValidator(_as_list)] | None = None
    modes: Annotated[tuple[Mode, ...], BeforeValidator(_as_list)] | None = None
    runs: Annotated[tuple[Variant, ...], BeforeValidator(_as_list)] | None = None
    seeds: Annotated[tuple[Seed, ...], BeforeValidator(_as_list)] | None = None
    duration: Float | None = Field(None, gt=0)
    total_timesteps: Int | None = Field(None, ge=1)
    settings: Settings = Field(default_factory=dict)
    evaluation: Evaluation = Evaluation()

    @property
    def variants(self) -> tuple[Variant, ...]:
        if self.runs is not None:
            return self.runs
        pairs = product(self.algorithms or (), self.modes or ("sequential",))
        return tuple(Variant(name=f"{algo}_{mode}", algo=algo, mode=mode) for algo, mode in pairs)


def load_suite(file: Path, overrides: list[Override]) -> tuple[Suite | None, list[str]]:
    """As much of the suite as can be understood, and every problem."""
    raw = _read(file)
    raw = {"name": file.stem, "output": f"benchmarks/{file.stem}", **raw}
    _apply(raw, overrides)
    contradictions = _contradictions(raw)
    suite, problems = _validated(raw, {override.path: override.spelling for override in overrides})
    return suite, contradictions + problems


def _read(file: Path) -> dict[str, Any]:
    if not file.is_file():
        names = sorted(path.name for path in file.parent.glob("*.y*ml")) if file.parent.is_dir() else []
        nearby = f"{file.parent}/ holds {', '.join(names)}" if names else "see config/suites/"
        raise UserError(f"{file}: no such file; {nearby}")
    try:
        raw = read_yaml(file)
    except ValueError as problem:
        raise UserError(f"{file}: {problem}") from problem
    if not isinstance(raw, dict):
        raise UserError(f"{file}: holds no suite; see config/suites/workflow.yaml")
    return {str(key): value for key, value in raw.items() if value is not None}


def _apply(raw: dict[str, Any], overrides: list[Override]) -> None:
    # A budget given by flags replaces the file's, as it does in training.
    if any(override.path in BUDGET for override in overrides):
        for key in BUDGET:
            raw.pop(key, None)
    for override in overrides:
        section, _, key = override.path.rpartition(".")
        block = raw.setdefault(section, {}) if section else raw
        if isinstance(block, dict):
            block[key] = override.value


def _validated(raw: dict[str, Any], spellings: dict[str, str]) -> tuple[Suite | None, list[str]]:
    """The suite without the keys that are wrong, so that the rest can be judged too, and the problems."""
    try:
        return Suite.model_validate(raw), []
    except ValidationError as error:
        errors = error.errors()
    for problem in reversed(errors):
        _drop(raw, problem["loc"][:-1] if problem["type"] == "missing" else problem["loc"])
    problems = [_explain(problem, spellings) for problem in errors]
    try:
        return Suite.model_validate(raw), problems
    except ValidationError:
        return None, problems


def _drop(block: Any, place: tuple[int | str, ...]) -> None:
    *way, last = place
    with suppress(LookupError, TypeError):
        for part in way:
            block = block[part]
        del block[last]


def _explain(problem: Any, spellings: dict[str, str]) -> str:
    place, kind, text = problem["loc"], problem["type"], problem["msg"]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:]
    if kind == "extra_forbidden":
        blocks: dict[str, type[Section]] = {"runs": Variant, "evaluation": Evaluation}
        known = list((Suite if len(place) == 1 else blocks[place[0]]).model_fields)
        close = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.6)
        remedy = f"did you mean {close[0]}?" if close else f"use {', '.join(known)}"
        return f"{path}: unknown key; {remedy}"
    if kind == "missing":
        return f"{path}: missing; every run needs one"
    name = f"{spellings[path]} {problem['input']}" if path in spellings else f"{path}: {problem['input']!r}"
    if kind == "value_error":
        return f"{name} {problem['ctx']['error']}"
    if kind in ("model_type", "dict_type"):
        return f"{name} should be a block of settings; write them indented below it"
    return f"{name}; {text.replace('Input', 'it')}"


def _contradictions(raw: dict[str, Any]) -> list[str]:
    if not raw.keys() & {"runs", "algorithms"}:
        return ["algorithms: missing; name some, such as [ppo, impala], or list runs"]
    if "runs" in raw and raw.keys() & {"algorithms", "modes"}:
        return ["runs: says what varies, and so do algorithms and modes; keep one of the two"]
    return []
