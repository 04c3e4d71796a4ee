"""Addresses and interfaces of this machine."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

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
    """Is this the machine that the name stands for?"""
    return bool(addresses_of(host) & set(own_addresses()))


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
    """Call `lost` when nobody has answered there for so long. Torch's own connection hears nothing of a cut cable for a
    quarter of an hour."""
    threading.Thread(target=_watch, args=(host, port, seconds, lost), name="first-node-watch", daemon=True).start()


def _watch(host: str, port: int, seconds: float, lost: Callable[[], None]) -> None:
    answered: float | None = None  # before it does for the first time, the rendezvous waits
    while True:
        try:
            socket.create_connection((host, port), timeout=WATCH_SECONDS).close()
            answered = time.monotonic()
        except OSError:
            if answered is not None and time.monotonic() - answered > seconds:
                lost()
                return
        time.sleep(FIND_SECONDS if answered is None else WATCH_SECONDS)  # training may begin before the second look
