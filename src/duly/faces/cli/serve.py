"""`duly serve`: the project's host at work, until it is told to stop.

Law 1  A stop is orderly: what is being sent is waited for, also after several signals. The
       first signal stops, each further one says what is still waited for; none cuts a send short.
       A user who cannot wait may kill the process: the next host asks what became of the call (R7).
       A send that does not end is not waited for without limit: the process ends without giving
       its store back, and with it the send and the lock (L6). A host that begins again stops like
       any other one; then its process runs the same program anew (`again.py`).
Law 2  On a terminal one line says how everything stands; elsewhere every event worth telling is one
       line of the log. Both go to stderr.
Law 3  What is said at the end is what a person must know to go home: what is open, and why.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

import click

from duly.api.text import visible
from duly.errors import DulyError, StillSending
from duly.faces.cli.again import Again, take_over
from duly.faces.cli.base import EXIT_FAILED, Face, pass_face, run
from duly.faces.cli.serve_log import IDS, logging_to_stderr
from duly.faces.cli.shown import listening, page_options, read_page, showing, write_link
from duly.faces.cli.stop import Stop, signals

if TYPE_CHECKING:
    from duly.api.page import PageSettings
    from duly.api.project import Project
    from duly.api.record import Journaled, Workflow
    from duly.host import Host

PAUSE_S: Final = 0.5  # a status changes at most twice a second
REFRESH_S: Final = 10.0  # "Next check in 3 min" changes with the time alone
PAGE: Final = 100
LEFT_SHOWN_MAX: Final = 20
# Outcomes of a run that changed something, or was told not to.
LEVELS: Final = {
    "workflow.needs_attention": logging.WARNING,
    "workflow.notice": logging.WARNING,
    "run.failed": logging.WARNING,
}
TOLD_OUTCOMES: Final = frozenset({"applied", "skipped"})
NAMED: Final = ("workflow", "run", "mutation")  # what an announcement names by an id

log = logging.getLogger("duly.serve")

Beside = Callable[["Host"], Awaitable[None]]
Leave = Callable[[int], NoReturn]


@click.command()
@click.option("--verbose", "-v", is_flag=True, help="Log everything, also what changed nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Log only what is wrong.")
@click.option(
    "--log",
    "form",
    type=click.Choice(("text", "json")),
    default="text",
    help="How each line of the log is written; JSON has ids for `duly why`.",
)
@page_options
@pass_face
def serve(
    face: Face, verbose: bool, quiet: bool, form: str, no_page: bool, page_port: int | None
) -> None:
    """Run the host until it is stopped (Ctrl-C, or SIGTERM).

    \b
    Example: duly serve --verbose
    """
    page = read_page(face.project, no_page=no_page, port=page_port)
    serve_project(face, page, verbose=verbose, quiet=quiet, as_json=form == "json")


def serve_project(
    face: Face,
    page: PageSettings | None,
    *,
    verbose: bool,
    quiet: bool,
    as_json: bool = False,
    beside: Beside | None = None,
) -> None:
    """Serve the project's host, with its page if there is one; `beside` runs as long as it does."""
    again = Again(take_over(os.environ))
    project = face.project
    with ExitStack() as stack:
        logged = logging_to_stderr(verbose=verbose, quiet=quiet, as_json=as_json)
        show_status = stack.enter_context(logged)

        def leave(status: int) -> NoReturn:
            """End the process at once, without waiting for its threads; nothing is given back."""
            stack.close()
            sys.stdout.flush()
            sys.stderr.flush()
            if again.is_due:
                again.begin()
            os._exit(status)

        try:
            run(_serve(project, show_status, page, beside, leave, again))
        except SystemExit as error:
            # Out of a callback on the event loop, which is no part of any call (L13).
            log.error("A callback called sys.exit(%s), which ended the host.", error.code)
            raise SystemExit(EXIT_FAILED) from error
    if again.is_due:
        again.begin()


async def _serve(
    project: Project,
    show_status: Callable[[str], None] | None,
    page: PageSettings | None,
    beside: Beside | None,
    leave: Leave,
    again: Again,
) -> None:
    from duly.api.build import build_host

    with signals() as stop:
        host = build_host(project, end=lambda: leave(EXIT_FAILED), restart=stop.restart)
        try:
            await _serve_host(host, project, stop, show_status, page, beside, again)
        except StillSending as error:
            again.is_due = stop.begins_again
            # The end of the process ends the send, and frees the lock; not before (L6).
            names = ", ".join(map(visible, error.out))
            log.warning("Stopped while sending %s; the next host asks what became of it.", names)
            leave(0 if stop.asked.done() else EXIT_FAILED)
        except Exception as error:
            if host.is_haunted:
                log.error("%s", visible(error))
                leave(EXIT_FAILED)
            raise
        again.is_due = stop.begins_again
        log.info("Stopped; beginning again." if again.is_due else "Stopped.")
        if host.is_haunted:
            leave(0)  # a question that never ends holds nothing up


async def _serve_host(
    host: Host,
    project: Project,
    stop: Stop,
    show_status: Callable[[str], None] | None,
    page: PageSettings | None,
    beside: Beside | None,
    again: Again,
) -> None:
    from duly.api.wire import check_free
    from duly.faces.otel import traced
    from duly.faces.socket import Control

    if project.database is None:  # several hosts may use one server: no lock keeps them apart
        check_free(project.socket)
    async with host:
        with listening(page, again.handed) as place:
            url = None if place is None else place.url
            control = Control(host, project.socket, settings=project.settings, page=url)
            async with control:
                await _tell_start(host, project)
                async with showing(control, place, page, project, host.clock):
                    if url is not None and show_status is not None:
                        await _tell_link(host, url)
                    async with traced(project, host.clock):
                        with _frozen():
                            await _work(host, stop, show_status, _with_backups(project, beside))
                await _tell_left(host)
            if stop.begins_again and place is not None:
                again.keep(place.page, place.hooks)
        if host.sending:
            log.info("Stopping; waiting for the answer to %s.", ", ".join(host.sending))
        await _outwait(asyncio.ensure_future(host.close()), host, stop)


async def _work(
    host: Host, stop: Stop, show_status: Callable[[str], None] | None, beside: Beside | None
) -> None:
    """Serve until told to stop, or until serving or what goes on beside it fails."""
    journal = Journal(host, await _newest_id(host))
    serving = asyncio.ensure_future(host.serve())
    helping = [asyncio.ensure_future(_tell_events(host, journal, show_status))]
    if beside is not None:
        helping.append(asyncio.ensure_future(_call(beside, host)))
    try:
        await asyncio.wait((serving, *helping, stop.asked), return_when=asyncio.FIRST_COMPLETED)
        if stop.asked.done():
            await _wait_out(host, serving, stop)
    finally:
        serving.cancel()
        for each in helping:
            each.cancel()
        await asyncio.wait((serving, *helping))
    with suppress(Exception):  # Who only tells must not stop who works.
        await journal.tell()  # what happened while it stopped
    for task in (serving, *helping):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


@contextmanager
def _frozen() -> Iterator[None]:
    """Keep what the start made out of garbage collections; it lives as long as the host.

    Else every thousandth run or so the event loop stands still while all of it is looked at.
    """
    gc.collect()  # what the start left behind is not kept
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _with_backups(project: Project, beside: Beside | None) -> Beside | None:
    """Let the host copy its store beside what else goes on, if the settings say so (H5)."""
    settings = project.config.backup
    if settings.every is None:
        return beside

    async def work(host: Host) -> None:
        folder = project.folder / settings.folder
        tasks = [asyncio.ensure_future(host.keep_backups(settings, folder))]
        if beside is not None:
            tasks.append(asyncio.ensure_future(beside(host)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.wait(tasks)

    return work


async def _call(beside: Beside, host: Host) -> None:
    await beside(host)


async def _wait_out(host: Host, serving: asyncio.Future[None], stop: Stop) -> None:
    """Stop in order; at each further signal say what is still waited for."""
    log.info("Stopping%s.", _for(await _waited_for(host)))
    serving.cancel()
    with suppress(asyncio.CancelledError, Exception):  # Why it ended is looked at later.
        await _outwait(serving, host, stop)


async def _outwait(ending: asyncio.Future[None], host: Host, stop: Stop) -> None:
    """Wait until something has ended, and say what is waited for each time a signal asks."""
    while not ending.done():
        again = asyncio.ensure_future(stop.again.wait())
        await asyncio.wait((ending, again), return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
        if ending.done():
            break
        stop.again.clear()
        hint = ""
        if stop.count > 2:
            hint = (
                f" Nothing is cut short here; if you cannot wait, `kill -9 {os.getpid()}`: "
                "the next host asks what became of the call."
            )
        log.warning("Still stopping%s.%s", _for(await _waited_for(host)), hint)
    ending.result()


def _for(waited: list[str]) -> str:
    return f"; waiting for {', '.join(waited)}" if waited else ""


async def _waited_for(host: Host) -> list[str]:
    """Name what has left and is not answered yet, else the runs that come to an end."""
    from duly.api.word import MutationStatus, Status

    try:
        sent = await host.mutations(status=MutationStatus.IN_FLIGHT)
        if sent:
            return [f"the answer to {each.tool} ({visible(each.workflow)})" for each in sent]
        runs = await host.runs(status=Status.ACTIVE)
    except DulyError as error:
        if host.sending:
            return [f"the answer to {tool}" for tool in host.sending]
        return [f"what the store does not tell ({visible(error)})"]
    return [f"{visible(each.workflow)}.{each.handler}" for each in runs]


# -- What is told ---------------------------------------------------------------------------------


async def _tell_link(host: Host, page: str) -> None:
    """Sign in who reads this terminal; no log that is kept gets a link (G6)."""
    from duly.api.registry import Scope
    from duly.api.wire import name_actor

    link = await host.new_link(by=name_actor(os.geteuid(), Scope.ADMIN))
    log.info("Open this within a minute: %s", write_link(page, link.code))


async def _tell_start(host: Host, project: Project) -> None:
    from duly import __version__
    from duly.api.machine import SCHEMA_VERSION, list_missing_locks
    from duly.faces.cli.doctor import tell_root

    log.info("Duly %s, store version %d", __version__, SCHEMA_VERSION)
    log.info("Store %s", project.place)
    log.info("Socket %s", project.socket)
    workflows = await host.workflows(limit=1000)
    names = ", ".join(visible(each.name) for each in workflows)
    log.info("Workflows: %s", names or "none yet; `duly deploy` brings some")
    if project.config.sandbox.unlocked == "i-accept":
        log.warning("Scripts run WITHOUT a lock, as duly.toml accepts ([sandbox] unlocked)")
    else:
        missing = ", ".join(list_missing_locks())
        if missing:
            log.warning("Sandbox: no script can run here; this machine lacks %s", missing)
        else:
            log.info("Sandbox: scripts are locked in before they run")
    if (said := tell_root()) is not None:
        log.warning("%s", said)
    for each in await host.extensions():
        if each.error is not None:
            log.warning("Extension %s failed at %s: %s", each.id, each.stage, visible(each.error))
        else:
            log.info("Extension %s %s", each.id, each.version)


async def _tell_left(host: Host) -> None:
    try:
        lines = await _left(host)
    except DulyError as error:
        lines = [f"What is left cannot be read: {visible(error)}"]
    for line in lines:
        log.info("%s", line)


async def _left(host: Host) -> list[str]:
    """Say what is open: workflows that stand, deliveries that wait, events that are to come."""
    from duly.api.word import Standing
    from duly.words import say

    lines = [
        f"Left: {visible(each.name)} {each.standing}: {say(each.reason, host.now)}"
        for each in await host.workflows(limit=1000)
        if each.standing is not Standing.IDLE
    ]
    if len(lines) > LEFT_SHOWN_MAX:
        lines[LEFT_SHOWN_MAX:] = [f"Left: {len(lines) - LEFT_SHOWN_MAX} more workflows"]
    if waiting := await host.bus.deliveries("waiting", limit=1000):
        words = "delivery waits" if len(waiting) == 1 else "deliveries wait"
        lines.append(f"Left: {len(waiting)} {words} (`duly bus deliveries`)")
    if deferred := await host.bus.deferred(limit=1000):
        first = f"{deferred[0].fire_at:%Y-%m-%d %H:%M} UTC"
        words = "event is" if len(deferred) == 1 else "events are"
        lines.append(f"Left: {len(deferred)} {words} scheduled, the first for {first}")
    return lines


class Journal:
    """Tells every event of the bus once, in its order."""

    def __init__(self, host: Host, last_id: int) -> None:
        self._host = host
        self._last_id = last_id

    async def tell(self) -> None:
        """Tell what has come since the last time."""
        for event in await _journal_since(self._host, self._last_id):
            self._last_id = event.id
            _tell(event)


async def _tell_events(
    host: Host, journal: Journal, show_status: Callable[[str], None] | None
) -> None:
    """Tell what the journal says, and how everything stands, after every write."""
    async for _ in _changes(host, is_refreshed=show_status is not None):
        try:
            await journal.tell()
            if show_status is not None:
                show_status(await _status(host))
        except DulyError as error:
            # A store that cannot be read now says so to the engine as well, which goes on (H3).
            log.warning("How everything stands cannot be read: %s", visible(error))
        except Exception:
            # Who only tells must not stop who works.
            log.exception("How everything stands cannot be told")


async def _newest_id(host: Host) -> int:
    newest = await host.bus.journal(limit=1)
    return newest[0].id if newest else 0


async def _changes(host: Host, *, is_refreshed: bool) -> AsyncIterator[None]:
    """Come back after every write, at most twice a second; a status also as time goes on."""
    env = host.clock
    changed = asyncio.Event()
    with host.watched_by(changed.set):
        while True:
            changed.clear()
            yield
            await env.sleep(PAUSE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S if is_refreshed else None):
                    await changed.wait()


async def _journal_since(host: Host, last_id: int) -> list[Journaled]:
    """Read the events of the bus after one, oldest first."""
    found: list[Journaled] = []
    before: int | None = None
    while True:
        page = await host.bus.journal(limit=PAGE, before=before)
        new = [each for each in page if each.id > last_id]
        found += new
        if len(new) < PAGE:
            return found[::-1]
        before = page[-1].id


def _tell(event: Journaled) -> None:
    """Write one line about one event of the host's own, if it is worth one."""
    from duly.api.word import OWN_SOURCE, Topic
    from duly.words.announcement import say_announcement

    if event.source != OWN_SOURCE or event.payload is None:
        log.debug("Event %d %s of %s", event.id, visible(event.topic), visible(event.source))
        return
    level = LEVELS.get(event.topic, logging.INFO)
    if event.topic == Topic.DEPLOYED and event.payload.get("missing"):
        level = logging.WARNING
    if event.topic == Topic.RUN_COMMITTED and event.payload.get("outcome") not in TOLD_OUTCOMES:
        level = logging.DEBUG
    said = say_announcement(event.topic, event.payload)
    look = " See `duly attention`." if event.topic == Topic.NEEDS_ATTENTION else ""
    log.log(level, "%s%s", said, look, extra={IDS: _ids(event)})


def _ids(event: Journaled) -> dict[str, str]:
    """Return what an event is about, by the ids that commands take."""
    told = event.payload or {}
    ids = {"event": f"bus:{event.id}", "topic": event.topic}
    ids |= {each: told[each] for each in NAMED if isinstance(told.get(each), str)}
    why = next((ids[each] for each in ("mutation", "run", "workflow") if each in ids), None)
    return ids if why is None else ids | {"why": why}


async def _status(host: Host) -> str:
    """Say in one line how everything stands."""
    from duly.api.word import Standing
    from duly.words import say_next

    workflows: tuple[Workflow, ...] = await host.workflows(limit=1000)
    next_due = await host.next_due()

    def count(standing: Standing) -> int:
        return sum(each.standing is standing for each in workflows)

    pending = sum(bool(each.pending) for each in workflows)
    words = [
        f"{len(workflows)} workflow{'s' * (len(workflows) != 1)}",
        f"{count(Standing.RUNNING)} running",
        f"{count(Standing.NEEDS_ATTENTION)} need attention",
        f"{pending} with work pending",
        say_next(next_due, host.now),
    ]
    return " · ".join(words)
