"""metrics.jsonl and TensorBoard: the same numbers under the same names."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from rlcb.config import Config
from rlcb.runs.files import read_json_lines, write_atomically

# Of training_summary.json: what the HParams page shows of a run beside its hyperparameters.
FINAL_METRICS = ("final_reward", "best_reward", "avg_fps", "peak_memory_gb")
HYPERPARAMETERS = {"algo", "mode", "env", "model", "training", "ppo", "impala"}
# Of them, what a resumed run may change; TensorBoard keeps what it read first.
CHANGING = {"total_timesteps", "duration", "log_interval", "save_interval", "autosave_minutes"}


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
        self._tensorboard: Any = SummaryWriter(str(folder), purge_step=timesteps + 1)  # type: ignore[no-untyped-call]

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._tensorboard.close()

    def begin(self, config: Config) -> None:
        """Tell TensorBoard's HParams page about the run. Not by `add_hparams`, which makes another run of it, in a
        folder below."""
        from torch.utils.tensorboard.summary import hparams

        metrics = {f"hparam/{name}": 0.0 for name in FINAL_METRICS}  # the page wants their names only
        experiment, start, self._session_end = hparams(hyperparameters(config), metrics)  # type: ignore[no-untyped-call]
        self._tensorboard.file_writer.add_summary(experiment)
        self._tensorboard.file_writer.add_summary(start)

    def end(self, summary: dict[str, Any]) -> None:
        """The final metrics. A run in which no episode has ended has no reward."""
        for name in FINAL_METRICS:
            if summary[name] is not None:
                self._tensorboard.add_scalar(f"hparam/{name}", summary[name], summary["total_timesteps"])
        if summary["status"] == "finished":
            self._tensorboard.file_writer.add_summary(self._session_end)

    def write(self, record: dict[str, Any]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._lines.write(json.dumps(record, allow_nan=False) + "\n")
        self._lines.flush()
        # All in one event: dozens of `add_scalar` per update are felt where updates are small.
        values = [Summary.Value(tag=name, simple_value=value) for name, value in record.items() if "/" in name]
        self._tensorboard.file_writer.add_summary(Summary(value=values), record["timesteps"])


def hyperparameters(config: Config) -> dict[str, Any]:
    """Every name for every algorithm: TensorBoard takes the columns of all runs from the first that it reads."""
    tree = config.model_dump(include=HYPERPARAMETERS, exclude={"training": CHANGING})
    tree["training"]["batch_size"] = config.batch_size
    tree["processes"] = config.crew.number if config.crew else 1
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= {f"{name}.{leaf}": each for leaf, each in value.items()} if isinstance(value, dict) else {name: value}
    # Truth values and null as text: TensorBoard would show 1 and leave null out.
    return {name: json.dumps(value) if isinstance(value, bool | None) else value for name, value in flat.items()}


def _cut(file: Path, last_update: int) -> None:
    kept = [record for record in read_json_lines(file) if record.get("updates", 0) <= last_update]
    write_atomically(file, "".join(json.dumps(record) + "\n" for record in kept).encode())


def as_columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The history by name, for metrics.json; null where a record has no such value."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}
