"""The guard of the suite: no test reaches another machine (M10, G9).

Law 1: a socket of this process connects and sends to loopback, or to a file of this machine. Every
       other address is refused before a packet leaves.
Law 2: a test that tried it fails, also where the code under test took the refusal for a network
       that is gone.

Processes that a test starts have sockets of their own and are not watched; the servers that tests
name to them are on loopback.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final

TRIED: Final[list[str]] = []  # what the running test tried to reach
NAMES: Final = frozenset({"localhost", ""})
_CALLS: Final = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex", "sendto")}


class Elsewhere(OSError):
    """A test may not reach another machine."""


def is_here(address: object) -> bool:
    """Tell whether an address is on this machine."""
    if not isinstance(address, tuple):
        return True  # a path of this machine
    host = str(address[0]).partition("%")[0]
    if host in NAMES:
        return True
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name that would be looked up elsewhere
    return found.is_loopback or found.is_unspecified


def check(family: int, address: object) -> None:
    """Refuse an address of another machine, and remember that it was tried."""
    if family in (socket.AF_INET, socket.AF_INET6) and not is_here(address):
        TRIED.append(str(address))
        raise Elsewhere(f"A test may not reach {address}.")


def _guarded(name: str) -> Any:
    def call(self: socket.socket, *args: Any) -> Any:
        check(self.family, args[-1])
        return _CALLS[name](self, *args)

    return call


def watch() -> None:
    """Put the guard before every socket of this process."""
    for name in _CALLS:
        setattr(socket.socket, name, _guarded(name))


def forget() -> tuple[str, ...]:
    """Return what was tried since the last call."""
    tried = tuple(TRIED)
    TRIED.clear()
    return tried
