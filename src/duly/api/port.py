"""Takes the port of a page: the one that is set, or the first free one of those that may be tried.

Law: only a port that is in use moves on to the next one. What else is in the way is refused at
once, since it would be in the way at every port.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from errno import EADDRINUSE
from typing import Final

from duly.config import PORT_MAX
from duly.errors import ConfigError

BACKLOG: Final = 100  # clients that wait to be let in


def take_port(address: str, ports: Sequence[int]) -> socket.socket:
    """Listen at the first of these ports that is free."""
    *tried, last = ports
    for port in tried:
        try:
            return _listen(address, port)
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise _refuse(address, port, error) from error
    try:
        return _listen(address, last)
    except OSError as error:
        raise _refuse(address, ports[0], error) from error


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _refuse(address: str, port: int, error: OSError) -> ConfigError:
    other = min(port + 1, PORT_MAX)
    typed = f"duly serve --page-port {other}"
    facts = {"cause": error.strerror, "other": other, "typed": typed}
    return ConfigError(code="page_not_heard", subject=f"{address}:{port}", facts=facts)
