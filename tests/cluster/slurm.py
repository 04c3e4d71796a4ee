"""A real Slurm on this machine: munged, a controller and two node daemons, on loopback and in a folder of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
WHY_NOT = "needs root and Debian's slurm-wlm and munge (apt-get install slurm-wlm munge)"
START_SECONDS = 60.0

CONFIG = """
ClusterName=rlcb
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# How long a job that is queued again waits at least; two minutes otherwise.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/%n
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=30
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]}-{ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def can_run_slurm() -> bool:
    return os.geteuid() == 0 and all(shutil.which(name) for name in NEEDED)


class Slurm:
    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.config)}

    def run(self, *words: str) -> str:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What Slurm knows of a job: JobState, Restarts, …"""
        text = self.run("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def processes(self) -> list[psutil.Process]:
        """Of all jobs, agents and ranks and what there is."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                if environment.get("SLURM_CONF") == str(self.config) and "SLURM_JOB_ID" in environment:
                    found.append(process)
        return found

    def logs(self) -> str:
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))


@contextmanager
def running_slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="rlcb-slurm-") as place, ExitStack() as daemons:
        slurm = Slurm(Path(place))
        _prepare(slurm)
        munge = slurm.folder / "munge"
        options = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        words = [f"--{name}={munge / file}" for name, file in options.items()]
        daemons.enter_context(_daemon(slurm, "munged", "--foreground", *words))
        wait_for((munge / "socket").exists, START_SECONDS, slurm.logs)
        daemons.enter_context(_daemon(slurm, "slurmctld", "-D", "-f", str(slurm.config)))
        for node in ("node1", "node2"):
            daemons.enter_context(_daemon(slurm, "slurmd", "-D", "-f", str(slurm.config), "-N", node))
        wait_for(lambda: _idle(slurm) == 2, START_SECONDS, slurm.logs)
        try:
            yield slurm
        finally:
            _end_jobs(slurm)


def _prepare(slurm: Slurm) -> None:
    for name in ("munge", "state", "node1", "node2"):
        (slurm.folder / name).mkdir(mode=0o755)
    slurm.folder.chmod(0o755)
    key = slurm.folder / "munge/key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    slurm.config.write_text(CONFIG.format(folder=slurm.folder, host=host, ports=_free_ports(3)))


def _free_ports(number: int) -> list[int]:
    """In a row, as a range of nodes needs them."""
    for first in range(26800, 27800, number):
        with ExitStack() as sockets, suppress(OSError):
            for port in range(first, first + number):
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + number))
    raise RuntimeError("no free ports")


@contextmanager
def _daemon(slurm: Slurm, name: str, *words: str) -> Iterator[None]:
    with (slurm.folder / f"{name}.out.log").open("ab") as output:
        process = subprocess.Popen([name, *words], env=slurm.environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _idle(slurm: Slurm) -> int:
    done = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%T"], env=slurm.environment, capture_output=True, text=True
    )
    return done.stdout.split().count("idle")


def _end_jobs(slurm: Slurm) -> None:
    """What a failed test has left."""
    subprocess.run(["scancel", "--signal=KILL", "--full", "--user=root"], env=slurm.environment, capture_output=True)
    subprocess.run(["scancel", "--user=root"], env=slurm.environment, capture_output=True)
    with suppress(AssertionError):
        wait_for(lambda: not slurm.processes(), 40, slurm.logs)
    for process in slurm.processes():
        with suppress(psutil.Error):
            process.kill()


def wait_for(what: Callable[[], object], seconds: float, why: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why()
        time.sleep(0.2)
