"""Addresses and interfaces of this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple

import psutil

from rlcb.errors import UserError

WATCH_SECONDS = 5.0
PARTING_SECONDS = 1.0
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


class Meeting(NamedTuple):
    """Where nodes meet, and how this one talks to the others."""

    listens_on: str | None  # the first node; the others go there
    address: str
    interface: str


def find_meeting(host: str, port: int, interface: str | None, leads: bool) -> Meeting:
    """Raises a UserError where there is no way, or where somebody else listens already."""
    listens_on = reachable_address(host, interface) if leads else None
    meeting = Meeting(listens_on, *address_on(interface, listens_on or host, port))
    if listens_on is not None:
        bound(listens_on, port).close()
    return meeting


def bound(host: str, port: int) -> socket.socket:
    """A socket that can listen there."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise UserError(
            f"--master-port {port}: cannot listen on {host} ({error.strerror}); use another --master-port on all nodes"
        ) from error
    return listener


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


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=WATCH_SECONDS).close()
    except OSError:
        return False
    return True


class Watch:
    """Calls `lost` when the store there has not answered for so long. Torch's own connection hears nothing of a cut
    cable for a quarter of an hour, and of a frozen host never: its kernel still takes calls."""

    def __init__(self, host: str, port: int, seconds: float, lost: Callable[[], None]) -> None:
        self._place, self._seconds, self._lost = (host, port), seconds, lost
        self._answered: float | None = None  # before it does for the first time, the rendezvous waits
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._miss)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Python must not end while a thread is in torch's code, but who is gone by now keeps it there."""
        self._over.set()
        for thread in self._threads:
            thread.join(PARTING_SECONDS)

    def _ask(self) -> None:
        """Whoever does not answer keeps us waiting here, or raises: both end the answers."""
        while not listens(*self._place):
            if self._over.wait(FIND_SECONDS):  # training may begin, and end, before a later look
                return
        self._answered = time.monotonic()
        while not self._over.is_set():
            with suppress(RuntimeError):
                self._ask_store()
            self._over.wait(FIND_SECONDS)

    def _ask_store(self) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        patience = timedelta(seconds=WATCH_SECONDS)
        store = TCPStore(*self._place, is_master=False, wait_for_workers=False, timeout=patience)
        while not self._over.is_set():
            store.add("rlcb/watched", 1)
            self._answered = time.monotonic()
            self._over.wait(min(WATCH_SECONDS, self._seconds / 3))

    def _miss(self) -> None:
        looked = time.monotonic()
        while not self._over.wait(FIND_SECONDS):
            before, looked = looked, time.monotonic()
            if looked - before > 10 * FIND_SECONDS and self._answered is not None:
                self._answered = looked  # it was us who did not move
            if self._answered is not None and looked - self._answered > self._seconds:
                self._lost()
                return
