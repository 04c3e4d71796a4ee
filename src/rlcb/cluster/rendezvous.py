"""Where nodes meet: torch's c10d rendezvous, on a store that listens on the address that was named and on no other.

Torch's own store listens on all addresses of a machine. There is no authentication: whoever reaches the port can take
part, so the network must be trusted (docs/cluster.md).
"""

from __future__ import annotations

import socket
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousParameters, rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

from rlcb.errors import UserError

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
    store = _store(str(parameters.get("listen_on") or host), int(port), bool(parameters.get("listen_on")))
    store.set_timeout(timedelta(seconds=float(parameters.get("read_timeout", 60))))  # a cut cable says nothing
    return create_handler(store, _Backend(store, parameters.run_id), parameters)


def _store(host: str, port: int, is_host: bool) -> TCPStore:
    timeout = timedelta(seconds=FIND_SECONDS)
    if not is_host:
        return TCPStore(host, port, is_master=False, timeout=timeout)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(
            f"--master-port {port}: cannot listen on {host} ({error.strerror}); use another --master-port on all nodes"
        ) from error
    listener.listen(1024)
    _kept.append(listener)
    return TCPStore(
        host, port, is_master=True, timeout=timeout, wait_for_workers=False, master_listen_fd=listener.fileno()
    )
