"""Settings in words, for `--help` and for the configuration reference."""

from __future__ import annotations

import typing

from pydantic.fields import FieldInfo

from rlcb.config.tree import ALGORITHM_DEFAULTS


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The values that a setting can take, where they are named."""
    return typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()


def default_text(path: str, field: FieldInfo) -> str:
    """`128; a2c: 16`: the default, and that of each algorithm which has another."""
    section, _, key = path.rpartition(".")
    texts = [_text(field.default)]
    for algo, sections in ALGORITHM_DEFAULTS.items():
        if key in sections.get(section, {}):
            texts.append(f"{algo}: {_text(sections[section][key])}")
    return "; ".join(texts)


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) and value >= 100_000 else str(value)
