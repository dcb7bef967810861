"""The process of a page: it speaks HTTP on one side and with its host on the other (G8).

Law 1  It has neither the store nor a key: all it inherits is the socket to its host and those it
       listens at. Its environment has no setting of Duly or of PostgreSQL.
Law 2  It ends with its host, however that ends: the socket says so, or, where a process that the
       host forked still holds its end of it, the kernel does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from duly.api.clock import Loop
from duly.api.door import Inherited
from duly.api.session import Remote
from duly.errors import DulyError
from duly.faces.web.app import make_app, make_hooks_app
from duly.faces.web.guard import Place
from duly.faces.web.server import make_server

LOOK_S: Final = 1.0  # how often to look whether the host is there

log = logging.getLogger("duly.page")


@dataclass(frozen=True, slots=True)
class Given:
    """What a host tells the page it starts: descriptors, names, and the files of a certificate."""

    channel: int
    listen: int
    host: int  # its process
    hooks: int | None = None
    hosts: tuple[str, ...] = ()
    is_proxied: bool = False
    certificate: str | None = None
    certificate_key: str | None = None


def main() -> None:
    """Show the page until its host ends."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)-7s %(message)s")
    given = msgspec.json.decode(sys.argv[1], type=Given)
    try:
        asyncio.run(_show(given))
    except DulyError as error:
        log.error("%s", error)
        sys.exit(1)


async def _show(given: Given) -> None:
    remote = await Remote.over(socket.socket(fileno=given.channel))
    door = Inherited(remote)
    place = Place(given.hosts, given.is_proxied)
    tls: dict[str, Any] = {}
    if given.certificate is not None:
        tls = {"ssl_certfile": given.certificate, "ssl_keyfile": given.certificate_key}
    servers = [(make_server(make_app(door, place), **tls), given.listen)]
    if given.hooks is not None:
        servers.append((make_server(make_hooks_app(door, place), **tls), given.hooks))
    serving = [
        asyncio.ensure_future(server.serve([socket.socket(fileno=each)]))
        for server, each in servers
    ]
    gone = asyncio.ensure_future(remote.until_gone())
    orphaned = asyncio.ensure_future(until_orphaned(given.host))
    await asyncio.wait((gone, orphaned, *serving), return_when=asyncio.FIRST_COMPLETED)
    for server, _ in servers:
        server.should_exit = True
    orphaned.cancel()
    await asyncio.wait((orphaned, *serving))
    await remote.close()


async def until_orphaned(host: int) -> None:
    """Return when the process that started this one is no more."""
    env = Loop()
    try:
        while os.getppid() == host:
            await env.sleep(LOOK_S)
    finally:
        env.close()


if __name__ == "__main__":
    main()
