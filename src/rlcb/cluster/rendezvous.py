"""Where nodes meet: torch's c10d rendezvous, on a store that listens on the address that was named and on no other.

Torch's own store listens on all addresses of a machine. There is no authentication: whoever reaches the port can take
part, so the network must be trusted (docs/cluster.md).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

from rlcb.cluster import network
from rlcb.errors import TrainingFailed

BACKEND = "rlcb"
FIND_SECONDS = 600.0  # for the first node to be there
_kept: list[socket.socket] = []  # the store does not own the socket it listens on


class _Backend(C10dRendezvousBackend):
    @property
    def name(self) -> str:
        return BACKEND


def register() -> None:
    rendezvous_handler_registry.register(BACKEND, _handler)  # once more is fine


def _handler(parameters: RendezvousParameters) -> RendezvousHandler:
    host, _, port = parameters.endpoint.rpartition(":")
    listens_on = parameters.get("listen_on")
    store = _own_store(str(listens_on), int(port)) if listens_on else _find_store(host, int(port))
    store.set_timeout(timedelta(seconds=float(parameters.get("read_timeout", 60))))  # a cut cable says nothing
    return create_handler(store, _Backend(store, parameters.run_id), parameters)


def _find_store(host: str, port: int) -> TCPStore:
    """Torch would wait as well, but hear no signal meanwhile."""
    patience = timedelta(seconds=network.WATCH_SECONDS)
    until = time.monotonic() + FIND_SECONDS
    while time.monotonic() < until:
        if network.listens(host, port):
            with suppress(RuntimeError):  # it may be gone again
                return TCPStore(host, port, is_master=False, timeout=patience)
        time.sleep(network.FIND_SECONDS)
    raise TrainingFailed(f"the first node, {host}:{port}, has not come in {FIND_SECONDS:.0f} seconds; is it started?")


def _own_store(host: str, port: int) -> TCPStore:
    listener = network.bound(host, port)
    listener.listen(1024)
    _kept.append(listener)
    return TCPStore(
        host,
        port,
        is_master=True,
        timeout=timedelta(seconds=FIND_SECONDS),
        wait_for_workers=False,
        master_listen_fd=listener.fileno(),
    )
