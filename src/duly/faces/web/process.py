"""The process of a page: it speaks HTTP on one side and with its host on the other (G8).

Law 1  It has neither the store nor a key: all it inherits is the socket to its host and those it
       listens at. Its environment has only what a process needs to run.
Law 2  It ends with its host, however that ends: the socket says so, or, where a process that the
       host forked still holds its end of it, the kernel does.
Law 3  It says every few seconds that it is alive, from the loop that serves its clients: one that
       stands still says nothing, and its host starts another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from duly.api.clock import Loop
from duly.api.door import Door, Inherited
from duly.api.folder import ProjectFolder
from duly.api.registry import Scope
from duly.api.session import Remote
from duly.errors import DulyError
from duly.faces.web.app import make_app, make_hooks_app
from duly.faces.web.guard import UNSIGNED, Place
from duly.faces.web.server import make_server

LOOK_S: Final = 1.0  # how often to look whether the host is there
BEAT_S: Final = 5.0  # how often to say that this process is alive

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
    zone: str = "UTC"  # of the project
    project: str = ""  # its folder
    scripts: str | None = None  # the folder of its scripts
    hooks_at: str = ""  # the address of webhooks, if it is one of its own


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
    scripts = None if given.scripts is None else Path(given.scripts)
    folder = ProjectFolder(Path(given.project), scripts)
    place = Place(given.hosts, given.is_proxied, given.zone, folder, given.hooks_at)
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
    beating = asyncio.ensure_future(beat(door))
    await asyncio.wait((gone, orphaned, *serving), return_when=asyncio.FIRST_COMPLETED)
    for server, _ in servers:
        server.should_exit = True
    for each in (orphaned, beating):
        each.cancel()
    await asyncio.wait((orphaned, beating, *serving))
    await remote.close()


async def until_orphaned(host: int) -> None:
    """Return when the process that started this one is no more."""
    env = Loop()
    try:
        while os.getppid() == host:
            await env.sleep(LOOK_S)
    finally:
        env.close()


async def beat(door: Door) -> None:
    """Say that this process is alive, until the host is gone (law 3)."""
    env = Loop()
    session = door.signed(UNSIGNED, Scope.READ)
    try:
        while True:
            # What the host returns, and whether it does, is not looked at: it heard the question.
            with suppress(DulyError, TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await session.call("next_due")
            await env.sleep(BEAT_S)
    finally:
        env.close()


if __name__ == "__main__":
    main()
