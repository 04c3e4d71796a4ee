"""Write the configuration reference in docs/training.md anew from the typed tree (make docs)."""

from __future__ import annotations

import sys
import typing
from pathlib import Path

from rlcb.config.tree import ALGORITHM_DEFAULTS, flag_name, leaves

FILE = Path(__file__).parent.parent / "docs/training.md"
BEGIN, END = "<!-- reference: begin (written by make docs) -->\n", "<!-- reference: end -->\n"


def reference() -> str:
    lines = ["| key | flag | default | meaning |", "| --- | --- | --- | --- |"]
    for path, field in leaves():
        flag = flag_name(path)
        section, _, key = path.rpartition(".")
        shown = f"`{flag}`" if flag and section not in ("parallel", "cluster") else ""
        default = _text(field.default)
        for algo, sections in ALGORITHM_DEFAULTS.items():
            if key in sections.get(section, {}):
                default += f"; {algo}: {_text(sections[section][key])}"
        choices = typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()
        meaning = field.description or ""
        if choices:
            meaning += f" ({', '.join(map(str, choices))})"
        lines.append(f"| `{path}` | {shown} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) and value >= 100_000 else str(value)


def renewed(text: str) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + reference() + END + rest.split(END)[1]


if __name__ == "__main__":
    FILE.write_text(renewed(FILE.read_text()))
    sys.exit(0)
