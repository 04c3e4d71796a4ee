"""Addresses and interfaces of this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil

from rlcb.errors import UserError

WATCH_SECONDS = 5.0
FIND_SECONDS = 0.2  # between two looks for someone who is not there yet


def addresses_of(host: str) -> set[str]:
    """All that a name stands for; the name itself where nobody knows it."""
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return {host}


def own_addresses() -> dict[str, str]:
    """Interface by address."""
    return {
        one.address.partition("%")[0]: name
        for name, entries in psutil.net_if_addrs().items()
        for one in entries
        if one.family in (socket.AF_INET, socket.AF_INET6)
    }


def is_here(host: str) -> bool:
    """Is this the machine that the name stands for? Debian gives a machine's own name an address of the loopback."""
    addresses = addresses_of(host)
    return bool(addresses & set(own_addresses())) or any(_is_loopback(address) for address in addresses)


def reachable_address(host: str, interface: str | None) -> str:
    """Where the first node listens: at the address it was named by, if that is one that others can reach."""
    if host == "localhost" or _is_loopback(host) or not any(map(_is_loopback, addresses_of(host))):
        return host
    if interface is not None:
        return address_on(interface, host, 0)[0]
    raise UserError(
        f"--master-addr {host}: on this machine, that is an address which others cannot reach "
        f"({', '.join(sorted(addresses_of(host)))}); use the one that it has in the network, or name its --interface"
    )


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def address_on(interface: str | None, towards: str, port: int) -> tuple[str, str]:
    """Our address and interface: the one that was asked for, or the one that leads to the first node."""
    own = own_addresses()
    if interface is not None:
        for address, name in own.items():
            if name == interface and ":" not in address:
                return address, name
        known = ", ".join(sorted(set(own.values())))
        raise UserError(f"--interface {interface}: not one of this machine's with an address; there are {known}")
    address = _address_towards(towards, port)
    return address, own.get(address, "")


def _address_towards(host: str, port: int) -> str:
    """What the kernel would send from; nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise UserError(
            f"--master-addr {host}: no way there from this machine ({error.strerror or error}); "
            "check the address and the network"
        ) from error


def watch(host: str, port: int, seconds: float, lost: Callable[[], None]) -> None:
    """Call `lost` when the store there has not answered for so long. Torch's own connection hears nothing of a cut
    cable for a quarter of an hour, and of a frozen host never: its kernel still takes calls."""
    answers: list[float] = []  # when the last one came; none before the first, when the rendezvous waits
    ask = partial(_ask, host, port, min(WATCH_SECONDS, seconds / 3), answers)
    for work in (ask, partial(_miss, answers, seconds, lost)):
        threading.Thread(target=work, name="first-node-watch", daemon=True).start()


def _ask(host: str, port: int, every: float, answers: list[float]) -> None:
    """Whoever does not answer keeps us waiting here, or raises; both end the answers."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    while not _listens(host, port):
        time.sleep(FIND_SECONDS)  # training may begin, and end, before a later look
    answers[:] = [time.monotonic()]
    with suppress(RuntimeError):
        store = TCPStore(host, port, is_master=False, wait_for_workers=False)
        while True:
            store.add("rlcb/watched", 1)
            answers[:] = [time.monotonic()]
            time.sleep(every)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=WATCH_SECONDS).close()
    except OSError:
        return False
    return True


def _miss(answers: list[float], seconds: float, lost: Callable[[], None]) -> None:
    while not answers or time.monotonic() - answers[0] <= seconds:
        time.sleep(FIND_SECONDS)
    lost()
