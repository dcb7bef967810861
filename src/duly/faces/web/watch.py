"""Starts the page of a host in a process of its own, and starts it again if it ends (G1, G8).

Law 1  A host never stops for its page: what goes wrong here is a warning. A page that ends, or that
       stands still, is started again after a growing pause.
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
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from duly.api.clock import Env
from duly.api.folder import ProjectFolder
from duly.api.page import PageSettings, check_page, places_of
from duly.api.port import take_port
from duly.errors import ConfigError
from duly.faces.channel import speak
from duly.faces.socket import Control
from duly.faces.web.process import Given
from duly.loop import outlast

PAUSE_S_FIRST: Final = 1.0
PAUSE_S_MAX: Final = 60.0
LIVED_S: Final = 60.0  # a page that lived longer is started again as if it were the first
END_S_MAX: Final = 10.0
DOWN: Final = "page_down"  # what the host says of itself meanwhile
LOOK_S: Final = 5.0  # how often to look whether the page says anything
SILENT_LOOKS_MAX: Final = 4  # after which a page that spoke stands still
FIRST_LOOKS_MAX: Final = 24  # a page that starts on a busy machine has two minutes
# What a process needs to run. Of all other variables one may be a secret, and none is given (G8).
GIVEN: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SYSTEMROOT"}
    | {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "COVERAGE_PROCESS_START"}
)
GIVEN_BEGINNINGS: Final = ("LC_",)

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


def listen(settings: PageSettings, handed: Sequence[socket.socket] = ()) -> Listening:
    """Listen where the settings say, or refuse with what to do (G1).

    A socket that listens there already, for the program before this one, is taken over; of those
    that were `handed` the others are closed.
    """
    check_page(settings)
    places = places_of(settings)
    taken = _take_over(handed, places)
    page, hooks = taken[0] or take_port(*places[0]), None
    if len(places) > 1:
        try:
            hooks = taken[1] or take_port(*places[1])
        except ConfigError:
            page.close()
            raise
    port, wanted = page.getsockname()[1], places[0][1][0]
    if wanted not in (0, port):
        log.info("Port %d is taken, so the page is at port %d.", wanted, port)
    is_secure = settings.certificate is not None or settings.behind_proxy == "yes"
    name = settings.hosts[0] if settings.hosts else f"{_named(settings.address)}:{port}"
    return Listening(page, hooks, f"{'https' if is_secure else 'http'}://{name}")


def _place_of(listening: socket.socket) -> str:
    address, port = listening.getsockname()[:2]
    return f"{_named(address)}:{port}"


def _named(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _take_over(
    handed: Sequence[socket.socket], places: Sequence[tuple[str, Sequence[int]]]
) -> list[socket.socket | None]:
    """Return the socket that listens at each place already, if there is one; close the others."""
    free = [*handed]
    found: list[socket.socket | None] = []
    for address, ports in places:
        mine = next((each for each in free if _is_at(each, address, ports)), None)
        if mine is not None:
            free.remove(mine)
        found.append(mine)
    for each in free:  # before one listens at its place again
        each.close()
    return found


def _is_at(made: socket.socket, address: str, ports: Sequence[int]) -> bool:
    """Tell whether a socket listens at a place; port 0 is any."""
    if not made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    heard = made.getsockname()
    return heard[0] == address and (0 in ports or heard[1] in ports)


class Pulse:
    """Counts how often one looked in vain for a sign of life of the page."""

    def __init__(self) -> None:
        self._silent_looks = 0
        self._has_spoken = False

    def beat(self) -> None:
        """Note a sign of life."""
        self._silent_looks = 0
        self._has_spoken = True

    async def until_silent(self, env: Env) -> None:
        """Return when the page has said nothing for too many looks.

        Looks are counted, not seconds: a host that stood still itself blames no page for it.
        """
        while self._silent_looks < (SILENT_LOOKS_MAX if self._has_spoken else FIRST_LOOKS_MAX):
            await env.sleep(LOOK_S)
            self._silent_looks += 1


@asynccontextmanager
async def watched(
    control: Control, listening: Listening, settings: PageSettings, folder: ProjectFolder, env: Env
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
    control: Control, listening: Listening, settings: PageSettings, folder: ProjectFolder, env: Env
) -> None:
    pause_s = PAUSE_S_FIRST
    while True:
        begun_ms = env.monotonic_ms()
        try:
            status = await _show_once(control, listening, settings, folder, env)
        except OSError as error:
            status = str(error)
        control.told[DOWN] = True
        if env.monotonic_ms() - begun_ms > LIVED_S * 1000:
            pause_s = PAUSE_S_FIRST
        log.warning("The page ended (%s); it is started again in %g s.", status, pause_s)
        await env.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


async def _show_once(
    control: Control, listening: Listening, settings: PageSettings, folder: ProjectFolder, env: Env
) -> str:
    """Start the page and wait until it ends or stands still; return how it ended."""
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
            certificate=_path(folder.project, settings.certificate),
            certificate_key=_path(folder.project, settings.certificate_key),
            zone=control.host.policy.timezone,
            project=str(folder.project),
            scripts=None if folder.scripts is None else str(folder.scripts),
            hooks_at="" if listening.hooks is None else _place_of(listening.hooks),
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "duly.faces.web.process",
                msgspec.json.encode(given).decode(),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[each.fileno() for each in held],
                env=list_given(os.environ),
                start_new_session=True,  # Ctrl-C is for the host, which ends its page
            )
        except BaseException:
            ours.close()
            raise
    pulse = Pulse()

    def heard() -> None:
        pulse.beat()
        control.told[DOWN] = None

    speaking = asyncio.ensure_future(speak(control, ours, heard))
    ended = asyncio.ensure_future(process.wait())
    silent = asyncio.ensure_future(pulse.until_silent(env))
    try:
        await asyncio.wait((ended, silent), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return str(ended.result())
        with suppress(ProcessLookupError):
            process.kill()  # it stands still, and would not hear that its channel ends
        return "it stood still"
    finally:
        silent.cancel()
        # Without its channel the page ends by itself; one that does not is killed.
        await _end(speaking, ours, process)
        await outlast(ended)


def list_given(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the page gets (G8)."""
    return {
        name: each
        for name, each in environ.items()
        if name in GIVEN or name.startswith(GIVEN_BEGINNINGS)
    }


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
