"""Sees whether everything that training needs is installed and works: one line each, with what to do where it fails."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 12)


def check(seconds: float) -> int:
    """Exit code: 0 when all is well."""
    install = "run ./setup.sh, or pip install -r requirements.txt"
    parts: list[tuple[str, Callable[[], str], str]] = [
        ("Python", _python, "use Python 3.11 or 3.12"),
        ("PyTorch", _torch, install),
        ("Kernels", _kernels, "install a C++ compiler (g++), then ./setup.sh again"),
        ("Procgen", _procgen, install),
        ("Vector step", _vector_step, install),
        ("Threads", _threads, "give torch a number of threads with --num-threads"),
        ("Write to disk", _disk, "make room, or make this directory writable"),
        (f"Training ({seconds:g} s)", lambda: _training(seconds), "see docs/training.md, Troubleshooting"),
    ]
    failed = 0
    for name, probe, remedy in parts:
        try:
            print(f"✓ {name}: {probe()}", flush=True)
        except Exception as error:  # whatever is missing or broken is what this command is for
            failed += 1
            what = str(error).strip().splitlines() or [type(error).__name__]
            print(f"✗ {name}: {what[0]}; {remedy}", flush=True)
    print(f"\n{len(parts) - failed} of {len(parts)} checks passed." + ("" if failed else " Ready to train."))
    return 1 if failed else 0


def _python() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        raise RuntimeError(f"{version} is not supported")
    return version


def _torch() -> str:
    import torch

    return str(torch.__version__)


def _kernels() -> str:
    import torch

    from rlcb.kernels import kernels_in_use
    from rlcb.policy import Policy

    _, values = Policy("impala", (64, 64, 3), 15)(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))
    if not torch.isfinite(values).all():
        raise RuntimeError("the network's output is not finite")
    return kernels_in_use()


def _procgen() -> str:
    from rlcb.envs.procgen import ProcgenVectorEnv
    from rlcb.games import GAMES

    for game in GAMES:
        ProcgenVectorEnv(game, 1).close()
    return f"{len(GAMES)} games"


def _vector_step() -> str:
    import numpy as np

    from rlcb.envs.procgen import ProcgenVectorEnv

    with closing(ProcgenVectorEnv("coinrun", 8)) as envs:
        obs, *_ = envs.step(np.zeros(8, np.int64))
    if obs.std() == 0:
        raise RuntimeError("the picture is empty")
    return f"8 environments, {obs.shape} {obs.dtype}"


def _threads() -> str:
    import torch

    from rlcb.cpu.threads import apply_threads, choose_threads

    threads = choose_threads(None)
    apply_threads(threads.number)
    if torch.get_num_threads() != threads.number:
        raise RuntimeError(f"asked for {threads.number}, torch has {torch.get_num_threads()}")
    return f"{threads.number} ({threads.reason})"


def _disk() -> str:
    from rlcb.runs.files import write_atomically

    with tempfile.TemporaryDirectory(dir=".", prefix=".check-") as folder:
        file = Path(folder) / "probe"
        write_atomically(file, b"x" * 2**20)
        if file.stat().st_size != 2**20:
            raise RuntimeError("a file came back shorter than it was written")
    return f"{Path.cwd()} is writable"


def _training(seconds: float) -> str:
    from time import perf_counter

    from rlcb.config import load_config
    from rlcb.training.lockstep import Lockstep
    from rlcb.training.ranks import Alone

    config = load_config(None, [])
    run = Lockstep(config, Alone())
    begin = perf_counter()
    steps = 0
    report = run.update(config.training.learning_rate)
    while True:
        steps += config.rollout_size
        if perf_counter() - begin >= seconds:
            break
        report = run.update(config.training.learning_rate)
    if report.skipped or not report.metrics:
        raise RuntimeError("the loss was not finite")
    return f"{steps:,} steps of PPO on CoinRun, {steps / (perf_counter() - begin):,.0f} FPS"
