"""Checkpoints: tensors and plain values, written atomically, with a checksum of their content."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from rlcb.runs.files import write_atomically

FORMAT = 2  # 1: before networks were given to the kernels of this project


class DamagedCheckpoint(Exception):
    """The file is there but cannot be trusted."""


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    content = {"format": FORMAT, **content}
    buffer = io.BytesIO()
    torch.save({**content, "checksum": checksum(content)}, buffer)
    write_atomically(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, or DamagedCheckpoint for whatever else is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a torn or foreign file
        raise DamagedCheckpoint(f"{path}: not a checkpoint, or damaged ({type(error).__name__})") from error
    if not isinstance(content, dict) or "checksum" not in content:
        raise DamagedCheckpoint(f"{path}: not a checkpoint of this project")
    if content.pop("checksum") != checksum(content):
        raise DamagedCheckpoint(f"{path}: damaged (its checksum does not match its content)")
    if content["format"] != FORMAT:
        raise DamagedCheckpoint(f"{path}: of format {content['format']}; this version reads format {FORMAT}")
    return content


def most_trained(
    files: Iterable[Path], passed_over: Callable[[DamagedCheckpoint], None]
) -> tuple[Path, dict[str, Any]] | None:
    """The whole one with the most steps; which was written last tells nothing after a copy. Those that are damaged and
    would have been opened are `passed_over`."""
    best, steps = None, -1
    for file in sorted(files, key=_steps_by_name, reverse=True):
        if _steps_by_name(file) <= steps:
            break
        try:
            content = load_checkpoint(file)
        except DamagedCheckpoint as damage:
            passed_over(damage)
            continue
        except FileNotFoundError:
            continue  # the run goes on, and has removed it
        if content["progress"]["timesteps"] > steps:
            best, steps = (file, content), content["progress"]["timesteps"]
    return best


def run_name(file: Path) -> str:
    """`ppo_sequential`, of `ppo_sequential_step_4096.pt`."""
    return re.sub(r"_(final|latest|step_\d+)$", "", file.stem)


def _steps_by_name(file: Path) -> float:
    """Infinite where only the content tells."""
    named = re.search(r"_step_(\d+)$", file.stem)
    return int(named[1]) if named else float("inf")


def checksum(content: Any) -> str:
    """SHA-256 over every name, type and value."""
    digest = hashlib.sha256()
    for piece in _pieces(content):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        yield f"tensor {value.dtype} {tuple(value.shape)}\n".encode()
        yield value.detach().contiguous().numpy().tobytes()
    elif isinstance(value, dict):
        yield f"dict {len(value)}\n".encode()
        for key in sorted(value, key=repr):
            yield f"{key!r}: ".encode()
            yield from _pieces(value[key])
    elif isinstance(value, list | tuple):
        yield f"list {len(value)}\n".encode()
        for item in value:
            yield from _pieces(item)
    else:
        yield f"{type(value).__name__} {value!r}\n".encode()
