from __future__ import annotations

import socket
import threading
import time

import pytest

from rlcb.cluster import network


def test_a_first_node_that_was_seen_only_briefly_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It came after the first look, and was gone before the second would have been due."""
    monkeypatch.setattr(network, "WATCH_SECONDS", 1.5)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        lost = threading.Event()
        network.watch("127.0.0.1", listener.getsockname()[1], 0.5, lost.set)
        time.sleep(0.3)
        listener.listen()
        time.sleep(0.7)
        assert not lost.is_set()
    assert lost.wait(10)
