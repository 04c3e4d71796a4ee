"""Training over two hosts: starting it, waiting for it, and reading what it left."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.hosts import Host

START_SECONDS, END_SECONDS = 90.0, 240.0
SIZES = ["--num-envs", "8", "--n-steps", "16", "--save-interval", "2", "--seed", "7", "--output-dir", "run"]
PPO = ["--algo", "ppo", "--num-workers", "2", "--batch-size", "64", *SIZES]


def start(
    hosts: list[Host], folder: Path, *words: str, on: list[Host] | None = None, part: str = ""
) -> list[subprocess.Popen[bytes]]:
    """The same command on all hosts, or `on` those given."""
    common = ["train", "--mode", "cluster", "--nodes", str(len(hosts)), "--master-addr", hosts[0].address, *words]
    return [host.start(folder, f"host{host.number}{part}.log", *common) for host in on or hosts]


def wait_for(what: Callable[[], object], seconds: float, why: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why()
        time.sleep(0.1)


def logs(folder: Path) -> str:
    return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(folder.glob("*.log")))


def ended(agents: list[subprocess.Popen[bytes]], folder: Path, seconds: float = END_SECONDS) -> list[int]:
    """Their exit codes; others than those of an end, a signal or a kill are failures at once."""

    def over() -> bool:
        codes = [agent.poll() for agent in agents]
        assert not any(code not in (None, 0, 143, -9, 137) for code in codes), logs(folder)
        return None not in codes

    wait_for(over, seconds, lambda: logs(folder))
    return [agent.returncode for agent in agents]


def records(folder: Path) -> list[dict[str, Any]]:
    """Of metrics.jsonl, as far as it is written."""
    text = "".join(file.read_text() for file in folder.glob("run/logs/*/metrics.jsonl"))
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def updates(folder: Path) -> int:
    return len(records(folder))


def summary(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "run/training_summary.json").read_text())
    return read
