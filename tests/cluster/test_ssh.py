"""`rlcb launch ssh` over a real sshd on each of two simulated hosts: part of `make test-cluster`."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.hosts import WHY_NOT, Host, can_make_hosts, two_hosts
from tests.cluster.training import END_SECONDS, START_SECONDS, summary, updates, wait_for

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not can_make_hosts(), reason=WHY_NOT),
    pytest.mark.skipif(SSHD is None, reason="needs sshd, of Debian's openssh-server"),
]
TRAINING = ["--algo", "ppo", "--num-workers", "2", "--batch-size", "64", "--num-envs", "8", "--n-steps", "16"]
PORT = 2222
SERVER = """
Port {port}
ListenAddress {address}
HostKey {folder}/key
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
"""
CLIENT = """
Port {port}
User root
IdentityFile {folder}/key
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """That answer to ssh; `ssh` on the path knows the key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    (tmp_path / "client").write_text(CLIENT.format(port=PORT, folder=tmp_path))
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/client "$@"\n')
    ssh.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists
    with two_hosts() as both, ExitStack() as servers:
        for host in both:
            servers.enter_context(_sshd(host, tmp_path))
        yield both


@contextmanager
def _sshd(host: Host, folder: Path) -> Iterator[None]:
    settings, log = folder / f"sshd_{host.number}", folder / f"sshd_{host.number}.log"
    settings.write_text(SERVER.format(port=PORT, address=host.address, folder=folder))
    assert SSHD is not None
    command = ["ip", "netns", "exec", host.name, SSHD, "-D", "-f", str(settings), "-E", str(log)]
    with subprocess.Popen(command) as server:
        try:
            wait_for(lambda: log.exists() and "listening" in log.read_text(), 20, lambda: str(log))
            yield
        finally:
            server.terminate()


@contextmanager
def launched(hosts: list[Host], folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """On a terminal, whose other end it yields as well."""
    ours, theirs = pty.openpty()
    names = ",".join(host.address for host in hosts)
    rlcb = [sys.executable, "-m", "rlcb", "launch", "ssh", "--hosts", names, "--output-dir", "run"]
    command = ["ip", "netns", "exec", hosts[0].name, *rlcb, "--", *TRAINING, *words]
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(ours),
    ) as process:
        os.close(theirs)
        os.set_blocking(ours, False)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


def shown(terminal: int) -> str:
    """What is new on it."""
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except (BlockingIOError, OSError):
        return ""


def ended(process: subprocess.Popen[bytes], terminal: int) -> tuple[int, str]:
    text, end = "", time.monotonic() + END_SECONDS
    while process.poll() is None:
        text += shown(terminal)
        assert time.monotonic() < end, text
        time.sleep(0.1)
    return process.returncode, text + shown(terminal)


def test_both_hosts_train(hosts: list[Host], tmp_path: Path) -> None:
    with launched(hosts, tmp_path, "--total-timesteps", "640") as (process, terminal):
        code, text = ended(process, terminal)
    assert code == 0, text
    assert "TRAINING SUMMARY" in text
    assert summary(tmp_path)["status"] == "finished"


def test_ctrl_c_saves(hosts: list[Host], tmp_path: Path) -> None:
    with launched(hosts, tmp_path, "--total-timesteps", "10_000_000") as (process, terminal):
        wait_for(lambda: updates(tmp_path) >= 3, START_SECONDS, lambda: shown(terminal))
        shown(terminal)
        os.write(terminal, b"\x03")
        code, text = ended(process, terminal)
    assert code == 130, text
    assert summary(tmp_path)["status"] == "interrupted"
    assert list(tmp_path.glob("run/checkpoints/*.pt"))
