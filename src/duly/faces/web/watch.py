"""Starts the page of a host in a process of its own, and starts it again if it ends (G1, G8).

Law 1  A host never stops for its page: what goes wrong here is a warning. A page that keeps ending
       is started again after a growing pause.
Law 2  The host holds the sockets that the page listens at, so that a page that is started again is
       reached at the same place, and a client that came in between is kept waiting, not refused.
Law 3  The page ends with its host: on its way out the host closes the channel, and a host that is
       killed has closed it too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from duly.api.clock import Env
from duly.api.page import PageSettings, check_page, read_place
from duly.errors import ConfigError
from duly.faces.channel import speak
from duly.faces.socket import Control
from duly.faces.web.process import Given

PAUSE_S_FIRST: Final = 1.0
PAUSE_S_MAX: Final = 60.0
LIVED_S: Final = 60.0  # a page that lived longer is started again as if it were the first
END_S_MAX: Final = 10.0
BACKLOG: Final = 100  # clients that wait to be let in
# Settings and keys of the host, and what lets it into a PostgreSQL server: not for the page (G8).
HIDDEN: Final = ("DULY_", "PG")

log = logging.getLogger("duly.page")


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets of a page, and where it is reached."""

    page: socket.socket
    hooks: socket.socket | None
    url: str

    def close(self) -> None:
        """Let no further client in."""
        self.page.close()
        if self.hooks is not None:
            self.hooks.close()


def listen(settings: PageSettings) -> Listening:
    """Listen where the settings say, or refuse with what to do (G1)."""
    check_page(settings)
    page = _listen(settings.address, settings.port)
    hooks = None
    if settings.hooks_address is not None:
        try:
            hooks = _listen(*read_place(settings.hooks_address))
        except ConfigError:
            page.close()
            raise
    port = page.getsockname()[1]
    is_secure = settings.certificate is not None or settings.behind_proxy == "yes"
    name = settings.hosts[0] if settings.hosts else f"{_named(settings.address)}:{port}"
    return Listening(page, hooks, f"{'https' if is_secure else 'http'}://{name}")


def _named(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        facts = {"cause": error.strerror}
        place = f"{address}:{port}"
        raise ConfigError(code="page_not_heard", subject=place, facts=facts) from error
    return made


@asynccontextmanager
async def watched(
    control: Control, listening: Listening, settings: PageSettings, folder: Path, env: Env
) -> AsyncIterator[None]:
    """Show a page for as long as the block lasts."""
    watching = asyncio.ensure_future(_watch(control, listening, settings, folder, env))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(
    control: Control, listening: Listening, settings: PageSettings, folder: Path, env: Env
) -> None:
    pause_s = PAUSE_S_FIRST
    while True:
        begun_ms = env.monotonic_ms()
        try:
            status: int | str = await _show_once(control, listening, settings, folder)
        except OSError as error:
            status = str(error)
        if env.monotonic_ms() - begun_ms > LIVED_S * 1000:
            pause_s = PAUSE_S_FIRST
        log.warning("The page ended (%s); it is started again in %g s.", status, pause_s)
        await env.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def _show_once(
    control: Control, listening: Listening, settings: PageSettings, folder: Path
) -> int:
    """Start the page and wait until it ends; return how it ended."""
    ours, theirs = socket.socketpair()
    with theirs:
        held = [theirs, listening.page, *filter(None, [listening.hooks])]
        given = Given(
            channel=theirs.fileno(),
            listen=listening.page.fileno(),
            host=os.getpid(),
            hooks=None if listening.hooks is None else listening.hooks.fileno(),
            hosts=settings.hosts,
            is_proxied=settings.behind_proxy == "yes",
            certificate=_path(folder, settings.certificate),
            certificate_key=_path(folder, settings.certificate_key),
        )
        environ = {key: each for key, each in os.environ.items() if not key.startswith(HIDDEN)}
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "duly.faces.web.process",
                msgspec.json.encode(given).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[each.fileno() for each in held],
                env=environ,
                start_new_session=True,  # Ctrl-C is for the host, which ends its page
            )
        except BaseException:
            ours.close()
            raise
    speaking = asyncio.ensure_future(speak(control, ours))
    try:
        return await process.wait()
    finally:
        # Without its channel the page ends by itself; one that does not is killed.
        await _end(speaking, ours, process)


async def _end(
    speaking: asyncio.Future[None], ours: socket.socket, process: asyncio.subprocess.Process
) -> None:
    speaking.cancel()
    with suppress(asyncio.CancelledError, OSError):
        await speaking
    ours.close()
    try:
        async with asyncio.timeout(END_S_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _path(folder: Path, given: str | None) -> str | None:
    return None if given is None else str(folder / Path(given).expanduser())
