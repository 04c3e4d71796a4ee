"""Evaluations in TensorBoard, beside the curves of the run that they belong to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlcb.config import Config
from rlcb.runs.rundir import RunDir

SUFFIX = ".evaluation"  # of the event files, which are apart from those that training writes


def log_folder(checkpoint: Path, config: Config) -> Path | None:
    """Of the run that the checkpoint is in, wherever that was moved to; None where the checkpoint is in no run."""
    place, run = checkpoint.resolve().parent, RunDir.of(config)
    if place.name == "checkpoints" and (place.parent / "logs" / config.log_name).is_dir():
        return place.parent / "logs" / config.log_name
    return run.logs if place == run.checkpoints.resolve() and run.logs.is_dir() else None


def log_evaluation(folder: Path, timesteps: int, values: dict[str, float]) -> None:
    """TensorBoard draws points in the order in which it reads them. So where a later checkpoint, or this one, was
    evaluated before, all evaluations are written anew, by steps."""
    from torch.utils.tensorboard import SummaryWriter

    before = sorted(folder.glob(f"*tfevents*{SUFFIX}"))
    points = {(timesteps, name): value for name, value in values.items()}
    earlier = _points(before)
    in_order = all(step < timesteps for step, _ in earlier)
    writer = SummaryWriter(str(folder), filename_suffix=SUFFIX)  # type: ignore[no-untyped-call]
    for (step, name), value in sorted((points if in_order else earlier | points).items()):
        writer.add_scalar(name, value, step)  # type: ignore[no-untyped-call]
    writer.close()  # type: ignore[no-untyped-call]
    if not in_order:
        for file in before:
            file.unlink()


def _points(files: Iterable[Path]) -> dict[tuple[int, str], float]:
    """By step and name."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    points = {}
    for file in files:
        for event in LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                points[event.step, value.tag] = value.simple_value
    return points
