"""The guides' benchmark record, filled in (`rlcb compare --template`)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import date

from rlcb.analysis.groups import Group
from rlcb.analysis.run import Run
from rlcb.analysis.tables import winners_table

RULE, THIN = "=" * 79, "-" * 79


def record(groups: Sequence[Group], remarks: Sequence[str]) -> str:
    first = groups[0].runs[0]
    here = first.summary.get("hardware") or {}
    lines = [
        RULE,
        f"BENCHMARK RESULTS - {platform.node() or 'this machine'}",
        RULE,
        f"Date: {date.today().isoformat()}",
        f"CPU: {here.get('cpu', '?')}",
        f"Cores/Threads: {here.get('cores', '?')}/{here.get('threads', '?')}",
        f"RAM: {here.get('memory_gb', 0):.0f}GB" if here else "RAM: ?",
        f"Environment: {first.setting('env.name') or first.summary.get('environment', '?')}",
        f"Duration: {_duration(first)}",
        RULE,
    ]
    for group in groups:
        for run in group.runs:
            title = group.label if len(group.runs) == 1 else f"{group.label}, seed {run.setting('env.seed')}"
            lines += ["", title.upper(), THIN, *_section(run)]
    for other in groups[1:]:
        lines += ["", winners_table(groups[0], other)]
    return "\n".join([*lines, *(["", *remarks] if remarks else []), RULE])


def _duration(run: Run) -> str:
    hours = run.number("duration_hours") or 0.0
    return f"{hours:.2g} hours ({hours * 60:.0f} minutes)"


def _section(run: Run) -> list[str]:
    lines = [
        f"Duration: {_text(run, 'duration_hours', '.2f')} hours",
        f"Total Environments: {_text(run, 'num_envs', '.0f')}",
        f"Total Timesteps: {_text(run, 'total_timesteps', ',.0f')}",
        f"Total Updates: {_text(run, 'total_updates', ',.0f')}",
        f"Average FPS: {_text(run, 'avg_fps', ',.0f')}",
        f"Final FPS: {_text(run, 'final_fps', ',.0f')}",
        f"Peak Memory: {_text(run, 'peak_memory_gb', '.2f')} GB",
        "",
        "Training Progress:",
        f"  Initial Reward: {_text(run, 'initial_reward', '.2f')} ± {_text(run, 'initial_reward_std', '.2f')}",
        f"  Final Reward: {_text(run, 'final_reward', '.2f')} ± {_text(run, 'final_reward_std', '.2f')}",
        f"  Best Reward: {_text(run, 'best_reward', '.2f')}",
    ]
    for name, one in run.evaluation.items():
        how = ", deterministic" if one.get("deterministic") else ""
        lines += [
            "",
            f"Evaluation Results ({one['episodes']} episodes, {name} levels{how}):",
            f"  Mean Reward: {one['mean_reward']:.2f} ± {one['std_reward']:.2f}",
            f"  Min/Max Reward: {one['min_reward']:.2f} / {one['max_reward']:.2f}",
            f"  Mean Episode Length: {one['mean_length']:.2f} ± {one['std_length']:.2f}",
        ]
    return lines if run.evaluation else [*lines, "", "Evaluation Results: not evaluated yet (rlcb evaluate)"]


def _text(run: Run, name: str, form: str) -> str:
    value = run.number(name)
    return "-" if value is None else f"{value:{form}}"
