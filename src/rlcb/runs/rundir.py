"""Where a run's files are, and whose they are."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, get_args

from rlcb.config import Config
from rlcb.config.tree import ALGORITHM_LABELS, Mode
from rlcb.errors import UserError

SUMMARIES = ("config.yaml", "training_summary.json", "benchmark_metrics.json", "metrics.json")


@dataclass(frozen=True)
class RunDir:
    """`root` holds the summaries; checkpoints and logs are in it unless the configuration puts them elsewhere."""

    root: Path
    checkpoints: Path
    logs: Path  # of this algorithm and mode: logs/PPO_Sequential
    run_name: str  # ppo_sequential

    @classmethod
    def of(cls, config: Config) -> RunDir:
        places = config.logging
        root = Path(places.output_dir or places.checkpoint_dir or f"runs/{config.run_name}")
        checkpoints = Path(places.checkpoint_dir) if places.checkpoint_dir else root / "checkpoints"
        logs = Path(places.log_dir) if places.log_dir else root / "logs"
        return cls(root, checkpoints, logs / config.log_name, config.run_name)

    @property
    def config_file(self) -> Path:
        return self.root / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        return self.logs / "metrics.jsonl"

    def checkpoint(self, label: str) -> Path:
        return self.checkpoints / f"{self.run_name}_{label}.pt"

    def checkpoint_files(self) -> list[Path]:
        """Newest first."""
        found: list[tuple[int, str, Path]] = []
        for file in self.checkpoints.glob(f"{self.run_name}_*.pt"):
            with suppress(FileNotFoundError):  # the run may go on, and remove one
                found.append((file.stat().st_mtime_ns, file.name, file))
        return [file for _, _, file in sorted(found, reverse=True)]

    def traces(self) -> list[Path]:
        """What tells that a run is, or was, here."""
        marks = [self.config_file, self.metrics_file, *self.checkpoint_files()]
        return [path for path in marks if path.exists()]

    def refuse_if_taken(self) -> None:
        traces = self.traces()
        if traces == [self.metrics_file] and not self.logs.is_relative_to(self.root):
            raise UserError(
                f"--log-dir {self.logs.parent}: {self.logs} holds the logs of another run; choose another, or replace "
                "them with --overwrite"
            )
        if traces:
            place = traces[0].parent
            raise UserError(
                f"--output-dir {self.root}: {place} already holds a run ({traces[0].name}); continue it with --resume, "
                "replace it with --overwrite, or choose another --output-dir"
            )

    def is_summed_up(self) -> bool:
        """Was it finished to the last file? A kill may have come between the final checkpoint and the summary."""
        try:
            summary = json.loads((self.root / "training_summary.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(summary.get("status") == "finished")

    def create(self) -> IO[bytes]:
        """Make the directories and take the run's lock, which the caller keeps open for as long as it writes."""
        try:
            for folder in (self.root, self.checkpoints, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.root / ".lock", "wb")  # noqa: SIM115
        except OSError as error:
            raise UserError(
                f"--output-dir {self.root}: cannot be written ({os.strerror(error.errno or 0)}); choose another place"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                f"--output-dir {self.root}: another process is training here; wait for it, or choose another place"
            ) from error
        return lock

    def clear(self) -> None:
        """Remove what an earlier run wrote, of whichever algorithm and mode, and nothing else."""
        for path in [self.root / name for name in SUMMARIES] + [self.checkpoints / "evaluation.json"]:
            path.unlink(missing_ok=True)
        for algo, label in ALGORITHM_LABELS.items():
            for mode in get_args(Mode):
                for path in self.checkpoints.glob(f"{algo}_{mode}_*"):
                    if path.suffix in (".pt", ".mp4", ".gif"):
                        path.unlink()
                shutil.rmtree(self.root / "logs" / f"{label}_{mode.capitalize()}", ignore_errors=True)
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True, exist_ok=True)


def refuse_unwritable(config: Config) -> list[str]:
    """Problems of the place a run would be written to, found without touching it."""
    problems = []
    run = RunDir.of(config)
    for folder in dict.fromkeys((run.root, run.checkpoints, run.logs)):
        existing = folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        if not existing.is_dir():
            problems.append(f"--output-dir {folder}: {existing} is a file, not a directory; choose another place")
        elif not os.access(existing, os.W_OK | os.X_OK):
            problems.append(f"--output-dir {folder}: {existing} is not writable; choose another place")
    return problems[:1]
