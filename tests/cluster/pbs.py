"""A stand-in for PBS, of which there is no package: `qsub` and `pbsdsh` for the PATH of a test, with all nodes on this
machine. Jobs really run. As in OpenPBS, `pbsdsh` passes on SIGTERM but not SIGUSR1, and always ends with 0; a job whose
time is up gets SIGTERM, and ten seconds later SIGKILL.

`python -m tests.cluster.pbs qsub|pbsdsh|job WORDS…` is one of them, or the job that `qsub` has started.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

SPOOL = "FAKE_PBS_SPOOL"  # folder with <job>.sh, <job>.nodes, <job>.log and, once it is over, <job>.code
KILL_SECONDS = 10.0


class Pbs:
    """The test's side."""

    def __init__(self, folder: Path) -> None:
        self.spool, commands = folder / "spool", folder / "bin"
        self.spool.mkdir()
        commands.mkdir()
        for name in ("qsub", "pbsdsh"):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.cluster.pbs {name} "$@"\n')
            script.chmod(0o755)
        path = f"{commands}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, SPOOL: str(self.spool)}

    def codes(self) -> dict[str, int]:
        """Of the jobs that are over, in the order of their numbers."""
        return {file.stem: int(file.read_text()) for file in sorted(self.spool.glob("*.code"))}

    def log(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(self.spool.glob("*.log")))

    def processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(SPOOL) == str(self.spool):
                    found.append(process)
            except psutil.Error:
                continue
        return found


def qsub(words: list[str]) -> None:
    """Starts the job at once, or those of an array, and prints its number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", default="")
    parser.add_argument("script", nargs="?")
    args = parser.parse_args(words)
    spool = Path(os.environ[SPOOL])
    text = Path(args.script).read_text() if args.script else sys.stdin.read()
    number, script = _kept(text, spool)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PBS_", "RLCB_"))}
    environment.update(pair.split("=", 1) for pair in args.v.split(",") if pair)
    array = re.search(r"^#PBS -J (\d+)-(\d+)$", text, re.M)
    names = [f"{number}"]
    if array:
        names = [f"{number}[{index}]" for index in range(int(array[1]), int(array[2]) + 1)]
    for name in names:
        command = [sys.executable, "-m", "tests.cluster.pbs", "job", name, str(script)]
        subprocess.Popen(command, env=environment, start_new_session=True)
    print(f"{number}.here")


def _kept(text: str, spool: Path) -> tuple[int, Path]:
    """The job's number, which is nobody else's, and its copy of the script."""
    for number in range(1, 100):
        script = spool / f"{number}.sh"
        with suppress(FileExistsError), script.open("x") as file:
            file.write(text)
            return number, script
    raise RuntimeError("so many jobs?")


def job(words: list[str]) -> None:
    """What the daemon of the first node does: nodes and environment, the script, the time limit."""
    name, script = words[0], Path(words[1])
    text, spool = script.read_text(), Path(os.environ[SPOOL])
    chunk = re.search(r"^#PBS -l select=(\d+):ncpus=(\d+)", text, re.M)
    limit = re.search(r"^#PBS -l walltime=(\d+):(\d+):(\d+)$", text, re.M)
    assert chunk
    nodes = spool / f"{name}.nodes"
    nodes.write_text("127.0.0.1\n" * int(chunk[1]))
    environment = {**os.environ, "PBS_JOBID": f"{name}.here", "PBS_NODEFILE": str(nodes), "NCPUS": chunk[2]}
    environment["PBS_ENVIRONMENT"] = "PBS_BATCH"
    if "[" in name:
        environment["PBS_ARRAY_INDEX"] = name.partition("[")[2][:-1]
    with (spool / f"{name}.log").open("wb") as log:
        shell = subprocess.Popen(
            ["/bin/bash", str(script)], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    seconds = 3600.0 * int(limit[1]) + 60 * int(limit[2]) + int(limit[3]) if limit else None
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            shell.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, number)
            seconds = KILL_SECONDS
    (spool / f"{name}.code").write_text(str(shell.wait()))


def pbsdsh(words: list[str]) -> None:
    """Runs the command on one node, which here is this machine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args(words)
    nodes = Path(os.environ["PBS_NODEFILE"]).read_text().split()
    assert args.n < len(nodes), f"there are {len(nodes)} nodes"
    task = subprocess.Popen(args.command, cwd="/", start_new_session=True)

    def bail_out(number: int, frame: FrameType | None) -> None:
        task.send_signal(number)
        os._exit(1)

    signal.signal(signal.SIGTERM, bail_out)
    task.wait()


if __name__ == "__main__":
    {"qsub": qsub, "job": job, "pbsdsh": pbsdsh}[sys.argv[1]](sys.argv[2:])
