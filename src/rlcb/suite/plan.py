"""From a suite's file to jobs with whole, checked configurations, or to the list of everything that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Any

from rlcb.config import Config, Override, flag_name, leaves, load_config
from rlcb.config.spellings import OLD_SPELLINGS
from rlcb.config.tree import LoggingSettings
from rlcb.errors import UserError
from rlcb.runs.rundir import RunDir, refuse_unwritable
from rlcb.suite.file import LOGS, Evaluation, Suite, Variant, load_suite
from rlcb.training.budget import Budget

# Settings that are said elsewhere in a suite.
ELSEWHERE = {
    "algo": "algorithms or runs",
    "mode": "modes or runs",
    "env.name": "games",
    "env.seed": "seeds",
    "training.duration": "duration",
    "training.total_timesteps": "total_timesteps",
    "cluster.num_workers": "parallel.num_workers, or parallel.num_actors",
    **{path: "output" for path, _ in leaves() if path.startswith("logging.")},
}
# Settings that only several machines have.
OF_NODES = {f"cluster.{name}" for name in ("nodes", "min_nodes", "interface", "run_id", "master_addr", "master_port")}
# Settings in which a run may differ from the plan and still be the same experiment.
MAY_DIFFER = {
    "training.duration",
    "training.total_timesteps",
    "training.log_interval",
    "training.save_interval",
    "training.autosave_minutes",
    "parallel.max_restarts",
    "parallel.timeout",
    *(path for path, _ in leaves() if path.startswith("logging.")),
}


@dataclass(frozen=True)
class Job:
    """One run of the suite."""

    name: str
    config: Config
    flags: tuple[str, ...]  # of `rlcb train`, for a new run
    evaluation: Evaluation
    log: Path  # what its processes print

    @property
    def run(self) -> RunDir:
        return RunDir.of(self.config)

    @property
    def budget(self) -> Budget:
        hours = self.config.training.duration
        return Budget(self.config.training.total_timesteps, None if hours is None else 3600 * hours)


@dataclass(frozen=True)
class Plan:
    name: str
    output: Path
    jobs: tuple[Job, ...]


def load_plan(file: Path, overrides: list[Override], cores: int = 1) -> Plan:
    """`cores` are those of one job. Every configuration is checked here: the third run cannot fail on a typo after an
    hour. Raises a UserError that lists every problem at once, and touches nothing."""
    suite, problems = load_suite(file, overrides)
    if suite is None:
        raise UserError(problems)
    jobs, unfit = _jobs(suite, cores)
    problems += _misplaced(suite) + unfit + _unusable(jobs)
    if problems:
        raise UserError(problems)
    return Plan(suite.name, Path(suite.output), tuple(jobs))


def _misplaced(suite: Suite) -> list[str]:
    settings = [suite.settings, *(variant.settings for variant in suite.variants)]
    paths = dict.fromkeys(path for block in settings for path in block)
    return [f"settings.{path}: {_remedy(path)}" for path in paths if _remedy(path)]


def _remedy(path: str) -> str | None:
    """For what a configuration may hold, but the settings of a suite may not."""
    if path in ELSEWHERE:
        return f"the suite itself says this; use {ELSEWHERE[path]}"
    if path in OF_NODES:
        return "a suite runs on one machine; leave it out"
    return f"an old spelling; use {OLD_SPELLINGS[path]}" if path in OLD_SPELLINGS else None


def _jobs(suite: Suite, cores: int) -> tuple[list[Job], list[str]]:
    """Those that can be made, and what is wrong with the others; a problem that several share is told once."""
    jobs: list[Job] = []
    troubled: dict[str, list[str]] = {}
    for variant, game, seed in _combinations(suite):
        name = "_".join([variant.name, *([] if game is None else [game]), *([] if seed is None else [f"seed{seed}"])])
        try:
            jobs.append(_job(suite, name, variant, game, seed, cores))
        except UserError as error:
            for problem in error.problems:
                troubled.setdefault(problem, []).append(name)
    return jobs, [f"{problem} (run {_first_of(names)})" for problem, names in troubled.items()]


def _first_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _combinations(suite: Suite) -> Iterator[tuple[Variant, str | None, int | None]]:
    """Seed by seed: a suite that is stopped half-way has compared everything with the first seeds."""
    for seed, game, variant in product(suite.seeds or (None,), suite.games or (None,), suite.variants):
        yield variant, game, seed


def _job(suite: Suite, name: str, variant: Variant, game: str | None, seed: int | None, cores: int) -> Job:
    said = {
        "algo": variant.algo,
        "mode": variant.mode,
        "env.name": game,
        "env.seed": seed,
        "training.duration": suite.duration,
        "training.total_timesteps": suite.total_timesteps,
    }
    asked = {path: value for path, value in (suite.settings | variant.settings).items() if _remedy(path) is None}
    settings = {path: value for path, value in said.items() if value is not None} | asked
    overrides = [Override(path, value, f"settings.{path}:") for path, value in settings.items()]
    place = Path(suite.output) / name
    cores = _processes_there(place) or cores  # unless the suite names another number, it keeps its own
    config = load_config(variant.config, overrides, cores=cores)
    if config.num_nodes > 1:
        raise UserError(f"cluster.nodes: {config.num_nodes}, but a suite runs on one machine; use 1")
    if suite.evaluation.levels != "train" and config.env.num_levels == 0:
        raise UserError(
            f"evaluation.levels: {suite.evaluation.levels}, but with env.num_levels 0 no level is unseen; use train"
        )
    config = config.model_copy(update={"logging": LoggingSettings(output_dir=str(place))})
    file = [] if variant.config is None else ["--config", variant.config]
    flags = [word for path in settings for word in _flag(path, settings[path], config)]
    log = Path(suite.output) / LOGS / f"{name}.log"
    return Job(name, config, (*file, *flags, "--output-dir", str(place)), suite.evaluation, log)


def _processes_there(place: Path) -> int | None:
    """Of a run that was begun, maybe on a machine with other cores."""
    try:
        there = load_config(place / "config.yaml", [])
    except UserError:  # no run, or not one that can be read: that is found out later
        return None
    return there.crew.number if there.crew else None


def _flag(path: str, value: Any, config: Config) -> list[str]:
    flag = flag_name(path)
    assert flag is not None
    if isinstance(attrgetter(path)(config), bool):
        return [flag if attrgetter(path)(config) else flag.replace("--", "--no-", 1)]
    return [flag, "null" if value is None else str(value)]


def _unusable(jobs: list[Job]) -> list[str]:
    """Problems of the places that the runs would be written to."""
    problems = [
        f"runs: {count} of them are called {name}; give each a name of its own, and every game and seed once"
        for name, count in Counter(job.name for job in jobs).items()
        if count > 1
    ]
    problems += [problem for job in jobs[:1] for problem in refuse_unwritable(job.config)]
    return problems + [problem for job in jobs for problem in _another_run_there(job)]


def _another_run_there(job: Job) -> list[str]:
    """A run that is skipped or resumed must be the one that the suite describes."""
    run = job.run
    if not any(run.checkpoints.glob("*.pt")):
        return []
    remedy = "move it away, or choose another --output"
    try:
        there = load_config(run.config_file, [])
    except UserError:
        return [f"{run.root}: has checkpoints, but no config.yaml that can be read; {remedy}"]
    for path, _ in leaves():
        wanted, found = attrgetter(path)(job.config), attrgetter(path)(there)
        left_open = wanted is None and path.startswith(("parallel.", "hardware."))  # settled when a run starts
        if wanted != found and path not in MAY_DIFFER and not left_open:
            return [f"{run.root}: holds a run with {path} {found}, but the suite says {wanted}; {remedy}"]
    return []
