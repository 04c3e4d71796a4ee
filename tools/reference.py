"""Write the configuration reference in docs/training.md anew from the typed tree (make docs)."""

from __future__ import annotations

from pathlib import Path

from rlcb.config import flag_name, leaves
from rlcb.config.describe import choices, default_text

FILE = Path(__file__).parent.parent / "docs/training.md"
BEGIN, END = "<!-- reference: begin (written by make docs) -->\n", "<!-- reference: end -->\n"


def reference() -> str:
    lines = ["| key | flag | default | meaning |", "| --- | --- | --- | --- |"]
    for path, field in leaves():
        flag = flag_name(path)
        shown = f"`{flag}`" if flag else ""
        named = f" ({', '.join(choices(field))})" if choices(field) else ""
        lines.append(f"| `{path}` | {shown} | {default_text(path, field)} | {field.description}{named} |")
    return "\n".join(lines) + "\n"


def renewed(text: str) -> str:
    before, rest = text.split(BEGIN)
    return before + BEGIN + reference() + END + rest.split(END)[1]


if __name__ == "__main__":
    FILE.write_text(renewed(FILE.read_text()))
