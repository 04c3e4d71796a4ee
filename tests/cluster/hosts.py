"""Two simulated hosts: network namespaces with a cable between them, each with a loopback of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NET = "10.77.31"
WHY_NOT = "needs root and Debian's iproute2, to make network namespaces"


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"rlcb-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], check=True)
    return True


class Host:
    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"rlcb-host{number}"
        self.address = f"{NET}.{number}"
        self.interface = f"cable{number}"

    def run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(["ip", "netns", "exec", self.name, *words], capture_output=True, text=True, timeout=30)
        if check and done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")
        return done.stdout

    def start(self, folder: Path, log: str, *words: str) -> subprocess.Popen[bytes]:
        """`rlcb` with these words, on this host."""
        command = ["ip", "netns", "exec", self.name, sys.executable, "-m", "rlcb", *words]
        with (folder / log).open("wb") as output:
            return subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)

    def cable(self, state: str) -> None:
        self.run("ip", "link", "set", self.interface, state)

    def processes(self) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self) -> None:
        """The power fails."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


@contextmanager
def two_hosts() -> Iterator[list[Host]]:
    hosts = [Host(1), Host(2)]
    _remove(hosts)
    try:
        for host in hosts:
            _ip("netns", "add", host.name)
        first, second = hosts
        _ip(
            *("link", "add", first.interface, "netns", first.name, "type", "veth"),
            *("peer", "name", second.interface, "netns", second.name),
        )
        for host in hosts:
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", host.interface)
            host.run("ip", "link", "set", "lo", "up")
            host.cable("up")
        yield hosts
    finally:
        _remove(hosts)


def _remove(hosts: list[Host]) -> None:
    for host in hosts:
        with suppress(subprocess.CalledProcessError, ProcessLookupError):
            host.kill()
        subprocess.run(["ip", "netns", "del", host.name], capture_output=True)


def _ip(*words: Any) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)
