"""metrics.jsonl and TensorBoard: the same numbers under the same names."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from rlcb.runs.files import read_json_lines, write_atomically


class MetricsLog:
    """One line of JSON and one TensorBoard step per record. A resumed run drops what came after its checkpoint."""

    def __init__(self, folder: Path, updates: int = 0, timesteps: int = 0) -> None:
        """`updates` and `timesteps` are those of the checkpoint that the run continues from, 0 for a new run."""
        from torch.utils.tensorboard import SummaryWriter

        self.file = folder / "metrics.jsonl"
        if self.file.exists():
            _cut(self.file, updates)
        # Not line buffered: `write` flushes whole lines.
        self._lines = self.file.open("a", encoding="utf-8")
        # TensorBoard hides earlier points from the purge step on, so that a resumed curve has no zigzag.
        self._tensorboard = SummaryWriter(str(folder), purge_step=timesteps + 1)  # type: ignore[no-untyped-call]

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._tensorboard.close()  # type: ignore[no-untyped-call]

    def write(self, record: dict[str, Any]) -> None:
        self._lines.write(json.dumps(record, allow_nan=False) + "\n")
        self._lines.flush()
        for name, value in record.items():
            if "/" in name:
                self._tensorboard.add_scalar(name, value, record["timesteps"])  # type: ignore[no-untyped-call]


def _cut(file: Path, last_update: int) -> None:
    kept = [record for record in read_json_lines(file) if record.get("updates", 0) <= last_update]
    write_atomically(file, "".join(json.dumps(record) + "\n" for record in kept).encode())


def as_columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The history by name, for metrics.json; null where a record has no such value."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}
