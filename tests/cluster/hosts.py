"""Two simulated hosts: network namespaces with a cable between them, each with a loopback of its own.

The cable is a pair of veth devices; where it is to be long or bad, a relay between two TAP devices (relay.py); where it
is to be narrow, the kernel's token bucket (tc tbf) on either.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cluster.relay import READY, inside

ROOT = Path(__file__).parents[2]
NET = "10.77.31"
TAP_MTU = 9000  # jumbo frames: fewer of them for the relay to carry
BUCKET = ["burst", "64kb", "latency", "200ms"]  # tbf: what may go at once, and how long the rest may wait
ECHO, ECHO_REPLY = 8, 0  # of ICMP
WHY_NOT = "needs root, Debian's iproute2 and /dev/net/tun, to make network namespaces and cables between them"


def can_make_hosts() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None or not Path("/dev/net/tun").exists():
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

    def socket(self, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        """Ours, but on this host's network."""
        with inside(self.name):
            return socket.socket(socket.AF_INET, kind, protocol)

    def ping(self, other: Host, timeout: float = 1.0) -> float | None:
        """Seconds of an ICMP echo there and back; None where it was lost."""
        message = struct.pack("!BBHHH8s", ECHO, 0, 0, os.getpid() & 0xFFFF, 1, os.urandom(8))
        message = message[:2] + struct.pack("!H", _checksum(message)) + message[4:]
        with self.socket(socket.SOCK_RAW, socket.IPPROTO_ICMP) as probe:
            begin = time.perf_counter()
            probe.sendto(message, (other.address, 0))
            while (left := begin + timeout - time.perf_counter()) > 0:
                probe.settimeout(left)
                with suppress(TimeoutError):
                    answer = probe.recv(1024)[20:]  # behind the address
                    if answer[0] == ECHO_REPLY and answer[4:] == message[4:]:
                        return time.perf_counter() - begin
        return None

    def sent_bytes(self) -> int:
        """Through the cable, so far."""
        return int(self.run("cat", f"/sys/class/net/{self.interface}/statistics/tx_bytes"))

    def processes(self) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=True)
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self) -> None:
        """The power fails."""
        self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """To all but those who clean up shared memory, which would be gone with a real host."""
        for pid in self.processes():
            with suppress(FileNotFoundError, ProcessLookupError):
                if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, number)


@contextmanager
def two_hosts(ping_ms: float = 0.0, loss: float = 0.0, mbit: float | None = None) -> Iterator[list[Host]]:
    """`ping_ms` is the time there and back, `loss` the share of frames that are lost on each way, `mbit` the bandwidth
    of each way; without them it is as fast as the kernel."""
    hosts = [Host(1), Host(2)]
    with _one_pair_at_a_time():
        _remove(hosts)
        try:
            for host in hosts:
                _ip("netns", "add", host.name)
            with _relay(hosts, ping_ms / 2000, loss) if ping_ms or loss else _veth(hosts):
                for host in hosts:
                    host.run("ip", "addr", "add", f"{host.address}/24", "dev", host.interface)
                    host.run("ip", "link", "set", "lo", "up")
                    host.cable("up")
                    if mbit:
                        bucket = ["tbf", "rate", f"{mbit}mbit", *BUCKET]
                        host.run("tc", "qdisc", "add", "dev", host.interface, "root", *bucket)
                yield hosts
        finally:
            _remove(hosts)


@contextmanager
def _one_pair_at_a_time() -> Iterator[None]:
    """Hosts of one name exist once; whoever else wants them waits."""
    with Path(tempfile.gettempdir(), "rlcb-hosts.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _veth(hosts: list[Host]) -> Iterator[None]:
    first, second = hosts
    _ip(
        *("link", "add", first.interface, "netns", first.name, "type", "veth"),
        *("peer", "name", second.interface, "netns", second.name),
    )
    yield


@contextmanager
def _relay(hosts: list[Host], delay: float, loss: float) -> Iterator[None]:
    ends = [f"{host.name}:{host.interface}" for host in hosts]
    command = [sys.executable, "-m", "tests.cluster.relay", *ends, "--delay", str(delay), "--loss", str(loss)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as relay:
        try:
            assert relay.stdout is not None
            if relay.stdout.readline() != READY:
                raise RuntimeError("the relay did not start")
            for host in hosts:
                host.run("ip", "link", "set", host.interface, "mtu", str(TAP_MTU))
            yield
        finally:
            relay.kill()


def _remove(hosts: list[Host]) -> None:
    for host in hosts:
        with suppress(subprocess.CalledProcessError, ProcessLookupError):
            host.kill()
        subprocess.run(["ip", "netns", "del", host.name], capture_output=True)


def _ip(*words: Any) -> None:
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def _checksum(message: bytes) -> int:
    """Of the internet protocols: all 16-bit words add up to zero, in ones' complement."""
    total: int = sum(struct.unpack(f"!{len(message) // 2}H", message))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
