"""What happens in a demo, in four chapters, shown while it happens.

Law 1  Nothing is shown that was not looked at: rows in the table's file, the rest in the ledger.
Law 2  The crash is no matter of luck. The host dies while exactly one call is out, whose row is
       written and whose result it does not have; the other workflow has nothing left to do.
Law 3  A chapter lasts as long as anything moves, on any machine.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import click

from duly.api.session import Session, connect
from duly.env import Env
from duly.errors import DulyError, RequestRefused
from duly.faces.demo.account import Entry, compare, compare_settled, read_ledger
from duly.faces.demo.folder import FLOWS, JAVASCRIPT, MARK, PYTHON, DemoFolder, Flow, Row
from duly.faces.demo.process import LOOK_S, Process
from duly.faces.demo.table import HELD, HOLD, Hold
from duly.rules.shown import visible
from duly.rules.standing import InputStatus
from duly.rules.word import Known, MutationStatus

LATE_MAX: Final = 2  # mails that arrive while there is no host
STUCK_S: Final = 60  # how long nothing may move
PAGE: Final = 1000
VIEW_MAX: Final = 7  # inputs that are shown
INDENT: Final = "   "


class Mismatch(DulyError):
    """Table and ledger do not agree."""


def heading(text: str) -> None:
    """Begin a chapter; click drops the colour where the output is no terminal."""
    colour = False if "NO_COLOR" in os.environ else None
    click.echo(f"\n{click.style(text, bold=True)}", color=colour)


def line(text: str) -> None:
    """Write a line below a heading."""
    click.echo(INDENT + visible(text))


@dataclass(slots=True)
class Walk:
    """One demo, from an empty folder to the account."""

    folder: DemoFolder
    env: Env
    _shown: set[Row] = field(default_factory=set)

    async def run(self, mails: Mapping[str, bytes]) -> Entry:
        """Walk through all of it; return the call that had to be settled."""
        late_count = min(LATE_MAX, len(mails) // 3)
        names = list(mails)[: len(mails) - late_count]
        early = {name: mails[name] for name in names}
        self.folder.deliver(early)
        hold, held = self.folder.path / MARK / HOLD, self.folder.path / MARK / HELD
        Hold(PYTHON.table, (len(early) + 1) // 2).write(hold)
        with Process(self.folder, self.env) as process:
            call = await self._fill(process, len(early))
            heading("The host is killed, after a change and before its record")
            line(f"The answer to row {call.row} of {call.table} is held back.")
            line(f"kill -9 {process.pid}")
            process.kill()
            line(f"Process {process.pid} was ended by SIGKILL.")
        row, entry = await self._look(call)
        hold.unlink()
        held.unlink()
        self.folder.deliver(mails)
        if late_count:
            line(f"{late_count} more mails arrive while nobody is there.")
        with Process(self.folder, self.env) as process:
            async with self._session(process, "The host starts again") as session:
                await self._until(process, lambda: _are_done(session, FLOWS, len(mails)))
                (entry,) = read_ledger([await session.call("mutation", id=entry.id)])
                line(f"The ledger has settled the call as {entry.status}, attempt {entry.attempt}:")
                line(entry.id)
                asked = "the table was asked, nothing was sent again"
                line(f"How: {asked if entry.how is Known.ASKED else entry.how}.")
                await self._account(session, compare_settled(entry, row))
                await self._view(session)
        return entry

    async def _fill(self, process: Process, count: int) -> Hold:
        """Let mails become rows until the one call is held, and nothing else is left to do."""
        async with self._session(process, "Mails become rows") as session:
            for flow in FLOWS:
                text = (self.folder.path / "workflows" / flow.file).read_text("utf-8")
                source: Any = {"language": flow.language.lower(), "text": text, "name": flow.file}
                await session.call("deploy", source=source, grant=True, strict=True)
                line(f"{flow.name} ({flow.language}) is deployed; it fills {flow.table}.")

            async def is_held() -> bool:
                return self._held() is not None and await _are_done(session, (JAVASCRIPT,), count)

            await self._until(process, is_held)
        call = self._held()
        assert call is not None
        return call

    async def _look(self, call: Hold) -> tuple[Row | None, Entry]:
        """Look at what the table has and what the ledger knows, now that no host runs."""
        rows = [each for each in self.folder.rows(PYTHON) if each.key == call.key]
        line("The table has the row:" if rows else "The table has no such row.")
        self._show(rows)
        word = MutationStatus.IN_FLIGHT.value
        async with connect(self.folder.project()) as session:
            found = read_ledger(await session.call("mutations", status=word, limit=PAGE))
        if [each.key for each in found] != [call.key]:
            raise Mismatch(f"{call.mail}: the ledger has {len(found)} calls that are {word}, not 1")
        line(f"The ledger has the call as {word}, which says neither yes nor no:")
        line(found[0].id)
        return (rows[0] if rows else None), found[0]

    async def _account(self, session: Session, found: list[str]) -> None:
        """Count what there is on both sides, and say where they do not agree."""
        heading("The account, from the table files and the ledger")
        mails = self.folder.mails()
        line(f"{'workflow':<18} {'mails':>5} {'rows':>5} {'applied':>8}")
        for flow in FLOWS:
            rows, ledger = self.folder.rows(flow), await _ledger(session, flow)
            applied = sum(each.status is MutationStatus.APPLIED for each in ledger)
            line(f"{flow.name:<18} {len(mails):>5} {len(rows):>5} {applied:>8}")
            found += [f"{flow.table}: {each}" for each in compare(mails, rows, ledger)]
        if found:
            raise Mismatch("\n".join(["Table and ledger do not agree.", *found]))
        line("Every mail is exactly one row of each table.")

    async def _view(self, session: Session) -> None:
        """Show what came in and what came of it, as a person sees it (U2)."""
        heading(f"What came in → what came of it, in {PYTHON.name}")
        inputs: Any = await session.call("inputs", workflow=PYTHON.name, limit=PAGE)
        rows = {each.id: (each.result or {})["row"] for each in await _ledger(session, PYTHON)}
        for each in inputs[:VIEW_MAX]:
            made = [f"row {rows[one['id']]}" for one in each["outputs"] if one["id"] in rows]
            line(f"{_cut(each['title'], 66)} → {', '.join(made)}")
        if len(inputs) > VIEW_MAX:
            line(f"… and {len(inputs) - VIEW_MAX} more.")

    @asynccontextmanager
    async def _session(self, process: Process, title: str) -> AsyncIterator[Session]:
        heading(title)
        line(f"The host is process {process.pid}.")
        async with process.session() as session:
            yield session

    async def _until(self, process: Process, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Show every new row until it is over; refuse to go on where nothing moves for long."""
        moved_ms = self.env.monotonic_ms()
        is_last = False
        while not is_last:
            is_last = await is_over()
            held = self._held()
            # The row that is held is shown when its host is dead.
            rows = [row for flow in FLOWS for row in self.folder.rows(flow)]
            if self._show([row for row in rows if held is None or row.key != held.key]):
                moved_ms = self.env.monotonic_ms()
            process.check()
            if self.env.monotonic_ms() - moved_ms > STUCK_S * 1000:
                facts = {"seconds": STUCK_S, "log": str(self.folder.log)}
                raise RequestRefused(code="stuck", subject=str(self.folder.path), facts=facts)
            await self.env.sleep(LOOK_S)

    def _held(self) -> Hold | None:
        return Hold.read(self.folder.path / MARK / HELD)

    def _show(self, rows: Sequence[Row]) -> bool:
        """Show the rows that were not shown before; tell whether there was one."""
        new = [row for row in rows if row not in self._shown]
        for row in new:
            subject = _cut(row.subject or "(no subject)", 34)
            line(f"{row.table:<8} row {row.number:<3} {_cut(row.sender, 24):<24} {subject}")
        self._shown.update(new)
        return bool(new)


async def _ledger(session: Session, flow: Flow) -> list[Entry]:
    return read_ledger(await session.call("mutations", workflow=flow.name, limit=PAGE))


async def _are_done(session: Session, flows: Sequence[Flow], count: int) -> bool:
    """Tell whether so many mails have come in and are done with, in each of these workflows."""
    for flow in flows:
        inputs: Any = await session.call("inputs", workflow=flow.name, limit=PAGE)
        if sum(each["status"] == InputStatus.DONE for each in inputs) < count:
            return False
    return True


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
