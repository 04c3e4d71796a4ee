"""What a fair comparison holds fixed, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from rlcb.analysis.groups import Group
from rlcb.analysis.run import Run
from rlcb.games import game_name

TOLERANCE = 0.05  # of durations
_NOT_HYPERPARAMETERS = {
    *("total_timesteps", "duration", "log_interval", "save_interval", "autosave_minutes", "num_envs", "device"),
}
_OF_THE_TASK = ("gamma", "reward_scaling")  # comparable even between algorithms


def differences(groups: Sequence[Group]) -> list[str]:
    """One line for each thing that should be equal and is not."""
    found = [_difference(name, value, groups) for name, value in _CHECKS]
    found += [_difference(f"training.{name}", _setting(f"training.{name}"), groups) for name in _OF_THE_TASK]
    found += _hyperparameters(groups)
    found += [_budget(groups), _seeds(groups)]
    return [line for line in dict.fromkeys(found) if line]


def _difference(name: str, value: Callable[[Run], Hashable], groups: Sequence[Group]) -> str:
    seen = {group.label: sorted({str(value(run)) for run in group.runs}) for group in groups}
    values = {text for texts in seen.values() for text in texts}
    known = values - {"None"}
    if len(known) < 2:
        return ""
    return f"{name}: " + ", ".join(f"{label} {' / '.join(texts)}" for label, texts in seen.items())


def _setting(path: str) -> Callable[[Run], Hashable]:
    return lambda run: run.setting(path)


def _game(run: Run) -> str | None:
    name = run.setting("env.name") or run.summary.get("environment")
    return None if name is None else game_name(str(name))


def _levels(run: Run) -> str | None:
    count, start = run.setting("env.num_levels"), run.setting("env.start_level")
    if count is None:
        return None
    which = f"{count} from {start}" if count else "all"
    return f"{which}, {run.setting('env.distribution_mode')}"


def _environments(run: Run) -> Any:
    return run.summary.get("num_envs") or run.setting("env.num_envs")


def _hardware(run: Run) -> str | None:
    here = run.summary.get("hardware")
    if not isinstance(here, dict):
        return None
    return f"{here.get('cpu')}, {here.get('cores')} cores, {here.get('memory_gb')} GB"


def _evaluated(run: Run) -> str | None:
    ways = {
        f"{part.get('episodes')} episodes, {'deterministic' if part.get('deterministic') else 'sampled'}"
        for part in run.evaluation.values()
        if isinstance(part, dict)
    }
    return " and ".join(sorted(ways)) or None


def _python(run: Run) -> Any:
    here = run.summary.get("hardware")
    return here.get("python") if isinstance(here, dict) else None


_CHECKS: list[tuple[str, Callable[[Run], Hashable]]] = [
    ("game", _game),
    ("levels", _levels),
    ("total environments", _environments),
    ("network", _setting("model.arch")),
    ("evaluation", _evaluated),
    ("hardware", _hardware),
    ("kernels", lambda run: run.summary.get("kernels")),
    ("Python", _python),
]


def _hyperparameters(groups: Sequence[Group]) -> list[str]:
    """Among groups of the same algorithm: others have other hyperparameters by their nature."""
    lines = []
    algorithms = dict.fromkeys(run.algorithm for group in groups for run in group.runs)
    for algorithm in algorithms:
        alike = [group for group in groups if group.runs[0].algorithm == algorithm]
        sections = ("training", algorithm.lower())
        paths = {
            f"{name}.{key}" for group in alike for run in group.runs for name in sections for key in _keys(run, name)
        }
        lines += [_difference(path, _hyperparameter(path), alike) for path in sorted(paths)]
    return lines


def _hyperparameter(path: str) -> Callable[[Run], Hashable]:
    """Null is a value; only where nothing is said, nothing is known."""
    section, _, key = path.rpartition(".")

    def value(run: Run) -> Hashable:
        found = run.setting(path)
        return "null" if found is None and key in (run.setting(section) or {}) else found

    return value


def _keys(run: Run, section: str) -> list[str]:
    settings = run.setting(section)
    return [key for key in settings if key not in _NOT_HYPERPARAMETERS] if isinstance(settings, dict) else []


def _budget(groups: Sequence[Group]) -> str:
    """The same time or the same steps make a comparison fair. What was asked for counts: a run ends with an update."""
    runs = [run for group in groups for run in group.runs]
    asked = {(run.setting("training.duration"), run.setting("training.total_timesteps")) for run in runs}
    if len(asked) == 1 and asked != {(None, None)} and all(run.status == "finished" for run in runs):
        return ""
    for name in ("duration_hours", "total_timesteps"):
        values = [value for run in runs if (value := run.number(name))]
        if not values or max(values) <= (1 + TOLERANCE) * min(values):
            return ""
    return "duration: " + ", ".join(
        f"{group.label} {group.number('duration_hours') or 0:.2f} h, {group.number('total_timesteps') or 0:,.0f} steps"
        for group in groups
    )


def _seeds(groups: Sequence[Group]) -> str:
    seeds = {group.label: sorted({str(run.setting("env.seed")) for run in group.runs}) for group in groups}
    if len({tuple(values) for values in seeds.values()}) < 2:
        return ""
    return "seeds: " + ", ".join(f"{label} {', '.join(values)}" for label, values in seeds.items())
