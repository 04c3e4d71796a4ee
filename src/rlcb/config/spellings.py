"""Old spellings: where the guides put a setting, and where it lives now. The only place that knows them."""

from __future__ import annotations

from typing import Any

_ALGORITHMS = ("ppo", "a2c", "a3c", "impala")
_TRAINING_OF_AN_ALGORITHM = [
    "n_steps",
    "batch_size",
    "n_epochs",
    "learning_rate",
    "anneal_lr",
    "gamma",
    "gae_lambda",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "normalize_advantage",
]

OLD_SPELLINGS: dict[str, str] = {
    "training.num_envs": "env.num_envs",
    "training.seed": "env.seed",
    "training.device": "hardware.device",
    "training.num_threads": "hardware.num_threads",
    "training.clip_range": "ppo.clip_range",
    "training.clip_range_vf": "ppo.clip_range_vf",
    "training.target_kl": "ppo.target_kl",
    "training.entropy_coef": "training.ent_coef",
    "training.value_coef": "training.vf_coef",
    "logging.log_interval": "training.log_interval",
    "logging.save_interval": "training.save_interval",
    **{
        f"{algo}.{old}": f"training.{new}"
        for algo in _ALGORITHMS
        for old, new in [
            *((name, name) for name in _TRAINING_OF_AN_ALGORITHM),
            ("entropy_coef", "ent_coef"),
            ("value_coef", "vf_coef"),
        ]
    },
}

# Old sections that only held settings which live elsewhere now.
OLD_SECTIONS = {"a2c", "a3c"}


def modernise(raw: dict[str, Any], algo: str) -> tuple[dict[str, Any], list[str]]:
    """Move old spellings of a file to their present place: (tree, problems).

    `ppo.learning_rate` counts when the algorithm is PPO; the block of another algorithm waits for its own run.
    """
    tree = {name: dict(value) if isinstance(value, dict) else value for name, value in raw.items()}
    problems = []
    for old, new in OLD_SPELLINGS.items():
        section, _, key = old.partition(".")
        block = tree.get(section)
        if not isinstance(block, dict) or key not in block:
            continue
        value = block.pop(key)
        if section in _ALGORITHMS and section != algo:
            continue
        new_section, _, new_key = new.partition(".")
        target = tree.setdefault(new_section, {})
        if not isinstance(target, dict):
            continue
        if new_key in target and target[new_key] != value:
            problems.append(
                f"{old}: {value!r} contradicts {new}: {target[new_key]!r} in the same file; keep one of them"
            )
            continue
        target[new_key] = value
    for section in OLD_SECTIONS:
        if tree.get(section) in ({}, None):
            tree.pop(section, None)
    return tree, problems
