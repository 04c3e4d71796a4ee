from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlcb.cluster import network, rendezvous
from rlcb.errors import TrainingFailed, UserError
from tests.faults.conftest import running


def test_a_first_node_that_was_seen_only_briefly_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came after the first look, and was gone before the second would have been due."""
    monkeypatch.setattr(network, "WATCH_SECONDS", 1.5)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        lost = threading.Event()
        with network.Watch("127.0.0.1", listener.getsockname()[1], 1.5, lost.set):
            time.sleep(0.3)
            listener.listen()
            time.sleep(0.7)
            assert not lost.is_set()
            listener.close()
            assert lost.wait(10)


def test_a_frozen_first_node_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel still takes calls."""
    monkeypatch.setattr(network, "WATCH_SECONDS", 0.5)
    host = "import time; from torch.distributed import TCPStore; s = TCPStore('127.0.0.1', 0, is_master=True, "
    host += "wait_for_workers=False); print(s.port, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", host], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            lost = threading.Event()
            with network.Watch("127.0.0.1", port, 2.0, lost.set):
                assert not lost.wait(4)
                process.send_signal(signal.SIGSTOP)
                time.sleep(1)
                process.send_signal(signal.SIGCONT)
                assert not lost.wait(4), "a second is not long"
                process.send_signal(signal.SIGSTOP)
                assert lost.wait(15)
                process.send_signal(signal.SIGCONT)
        finally:
            process.kill()


def test_a_name_that_means_the_loopback_here_is_no_meeting_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "addresses_of", lambda host: {"127.0.1.1"})
    assert network.is_here("node1")
    with pytest.raises(UserError, match="others cannot reach"):
        network.reachable_address("node1", None)
    assert network.reachable_address("node1", "lo") == "127.0.0.1"
    assert network.reachable_address("localhost", None) == "localhost"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_first_node_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "FIND_SECONDS", 0.5)
    with pytest.raises(TrainingFailed, match=r"the first node, 127.0.0.1:.*, has not come"):
        rendezvous._find_store("127.0.0.1", free_port())


def test_a_port_that_is_taken_is_said_before_anything_is_written(
    rlcb: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        there = ["--nodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", port]
        done = rlcb("train", "--mode", "cluster", *there, "--num-workers", "2", "--output-dir", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --master-port {port}: cannot listen on 127.0.0.1 (Address already in use)")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_node_that_waits_for_the_first_one_hears_signals(number: int, code: int, tmp_path: Path) -> None:
    there = ["--nodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    words = ["--mode", "cluster", *there, "--num-workers", "2", "--num-envs", "8", "--batch-size", "64"]
    with running(tmp_path / "run", *words, "--n-steps", "16", "--total-timesteps", "1280") as run:
        time.sleep(8)
        assert run.process.poll() is None, run.text()
        run.process.send_signal(number)
        assert run.ends(20) == code, run.text()
        assert "Traceback" not in run.text()
