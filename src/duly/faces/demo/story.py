"""What happens in a demo, in four chapters, told while it happens.

Law 1  Nothing is told that was not looked at: rows from the table's file, the rest from the ledger.
Law 2  The crash is no matter of luck. The host dies while exactly one call is out, whose row is
       written and whose answer nobody has; the other workflow has nothing left to do.
Law 3  It waits for what it waits for as long as anything moves, on any machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from duly.api.session import Session, connect
from duly.env import Env
from duly.errors import DulyError, RequestRefused
from duly.faces.demo.account import (
    Entry,
    compare,
    compare_settled,
    read_entry,
    read_ledger,
)
from duly.faces.demo.letter import Letter
from duly.faces.demo.process import Process
from duly.faces.demo.scene import FLOWS, JAVASCRIPT, PYTHON, Flow, Row, Scene
from duly.faces.demo.table import Held, Hold
from duly.rules.standing import InputStatus
from duly.rules.word import Known, MutationStatus

# How the outcome of a call became known, as its row says (L12).
HOW: Final = {
    Known.ANSWERED: "its own answer came",
    Known.ASKED: "the table was asked, nothing was sent again",
    Known.SENT_AGAIN: "it was sent again",
    Known.SETTLED: "a person said so",
    Known.UNSENT: "nothing was ever sent",
}
LATE_MAX: Final = 2  # mails that arrive while there is no host
LOOK_S: Final = 0.05
STUCK_S: Final = 60  # how long nothing may move
PAGE: Final = 1000
VIEW_MAX: Final = 7  # inputs that are shown
TITLE_CHARS: Final = 66
SENDER_CHARS: Final = 24
SUBJECT_CHARS: Final = 34


class Mismatch(DulyError):
    """Table and ledger do not agree."""


@dataclass(frozen=True, slots=True)
class Page:
    """Where a story is told: headings, and lines below them."""

    heading: Callable[[str], None]
    line: Callable[[str], None]


@dataclass(slots=True)
class Story:
    """One demo, from an empty folder to the account."""

    scene: Scene
    env: Env
    page: Page
    letters: Sequence[Letter]
    _shown: set[tuple[str, int]] = field(default_factory=set)

    @property
    def early(self) -> Sequence[Letter]:
        """The mails that are there from the beginning."""
        return self.letters[: len(self.letters) - min(LATE_MAX, len(self.letters) // 3)]

    @property
    def late(self) -> Sequence[Letter]:
        """The mails that arrive while there is no host."""
        return self.letters[len(self.early) :]

    async def tell(self) -> Entry:
        """Tell all of it; answer the call that had to be settled."""
        self.scene.deliver(self.early)
        self.scene.signal.ask(Hold(PYTHON.table, (len(self.early) + 1) // 2))
        with self._host() as process:
            await self._become_rows(process)
            held = self._held()
            self._kill(process, held)
            row, entry = await self._look_at_the_dead(held)
        self.scene.signal.clear()
        self.scene.deliver(self.late)
        if self.late:
            self.page.line(f"{len(self.late)} more mails arrive while nobody is there.")
        with self._host() as process:
            async with self._session(process, "The host starts again") as session:
                await self._until(process, lambda: self._are_done(session, FLOWS, self.letters))
                entry = await self._settled(session, entry)
                await self._account(session, entry, row)
        return entry

    # -- Chapters ---------------------------------------------------------------------------------

    async def _become_rows(self, process: Process) -> None:
        """Let mails become rows until the one call is held, and nothing else is left to do."""
        async with self._session(process, "Mails become rows") as session:
            for flow in FLOWS:
                source: Any = self.scene.source(flow)
                await session.call("deploy", source=source, grant=True, strict=True)
                self.page.line(f"{flow.name} ({flow.language}) is deployed; it fills {flow.table}.")

            async def is_held() -> bool:
                others = await self._are_done(session, (JAVASCRIPT,), self.early)
                return others and self.scene.signal.told() is not None

            await self._until(process, is_held)

    def _held(self) -> Held:
        held = self.scene.signal.told()
        assert held is not None
        return held

    def _kill(self, process: Process, held: Held) -> None:
        self.page.heading("The host is killed, after a change and before its record")
        self.page.line(f"The answer to row {held.row} of {held.table} is held back.")
        self.page.line(f"kill -9 {process.pid}")
        process.kill()
        self.page.line(f"Process {process.pid} was ended by SIGKILL.")

    async def _look_at_the_dead(self, held: Held) -> tuple[Row | None, Entry]:
        """Look what the table has and what the ledger knows, now that nobody can change it."""
        rows = [each for each in self.scene.rows(PYTHON) if each.key == held.key]
        if rows:
            self._shown.add((rows[0].table, rows[0].number))
            self.page.line("The table has the row:")
            self.page.line(_row(rows[0]))
        else:
            self.page.line("The table has no such row.")
        word = MutationStatus.IN_FLIGHT.value
        async with connect(self.scene.project()) as session:
            found = read_ledger(await session.call("mutations", status=word, limit=PAGE))
        if [each.key for each in found] != [held.key]:
            raise Mismatch(f"{held.mail}: the ledger has {len(found)} calls that are {word}, not 1")
        (entry,) = found
        self.page.line(f"The ledger has the call as {entry.status}, which says neither yes nor no:")
        self.page.line(entry.id)
        return (rows[0] if rows else None), entry

    async def _settled(self, session: Session, entry: Entry) -> Entry:
        """Say what became of the call, and how that was found out."""
        now = read_entry(await session.call("mutation", id=entry.id))
        how = "nobody says so" if now.known is None else HOW[now.known]
        self.page.line(f"The ledger has settled the call as {now.status}, attempt {now.attempt}:")
        self.page.line(now.id)
        self.page.line(f"How: {how}.")
        return now

    async def _account(self, session: Session, settled: Entry, row: Row | None) -> None:
        """Count what there is on both sides, and say where they do not agree."""
        self.page.heading("The account, from the table files and the ledger")
        mails = self.scene.mails()
        found = compare_settled(settled, row)
        self.page.line(f"{'workflow':<18} {'mails':>5} {'rows':>5} {'applied':>8}")
        for flow in FLOWS:
            rows = self.scene.rows(flow)
            answer = await session.call("mutations", workflow=flow.name, limit=PAGE)
            ledger = read_ledger(answer)
            applied = sum(each.status is MutationStatus.APPLIED for each in ledger)
            self.page.line(f"{flow.name:<18} {len(mails):>5} {len(rows):>5} {applied:>8}")
            found += [f"{flow.table}: {each}" for each in compare(mails, rows, ledger)]
        if found:
            raise Mismatch("\n".join(["Table and ledger do not agree.", *found]))
        self.page.line("Every mail is exactly one row of each table.")
        await self._view(session)

    async def _view(self, session: Session) -> None:
        """Show what came in and what came of it, as a person sees it (U2)."""
        self.page.heading(f"What came in → what came of it, in {PYTHON.name}")
        inputs: Any = await session.call("inputs", workflow=PYTHON.name, limit=PAGE)
        answer = await session.call("mutations", workflow=PYTHON.name, limit=PAGE)
        rows = {each.id: each.row for each in read_ledger(answer)}
        for each in inputs[:VIEW_MAX]:
            made = [f"row {rows[one['id']]}" for one in each["outputs"] if one["id"] in rows]
            self.page.line(f"{_cut(each['title'], TITLE_CHARS)} → {', '.join(made)}")
        if len(inputs) > VIEW_MAX:
            self.page.line(f"… and {len(inputs) - VIEW_MAX} more.")

    # -- Between them -----------------------------------------------------------------------------

    @contextmanager
    def _host(self) -> Iterator[Process]:
        process = Process(self.scene, self.env)
        try:
            yield process
            process.stop()
        finally:
            # Whoever breaks off need not wait for a call that is held; the host can take it.
            process.end()

    @asynccontextmanager
    async def _session(self, process: Process, heading: str) -> AsyncIterator[Session]:
        self.page.heading(heading)
        self.page.line(f"The host is process {process.pid}.")
        async with process.session() as session:
            yield session

    async def _until(self, process: Process, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Show every new row until it is over; where nothing moves for long, go on as it is."""
        moved_ms = self.env.monotonic_ms()
        while True:
            is_last = await is_over()
            if self._show_rows():
                moved_ms = self.env.monotonic_ms()
            if is_last:
                return
            process.check()
            if self.env.monotonic_ms() - moved_ms > STUCK_S * 1000:
                facts = {"seconds": STUCK_S, "log": str(self.scene.log)}
                raise RequestRefused(code="stuck", subject=str(self.scene.folder), facts=facts)
            await self.env.sleep(LOOK_S)

    def _show_rows(self) -> bool:
        is_new = False
        held = self.scene.signal.told()
        for flow in FLOWS:
            for row in self.scene.rows(flow):
                place = (row.table, row.number)
                # The one that is held is told of when its host is dead.
                if place in self._shown or (held is not None and row.key == held.key):
                    continue
                self._shown.add(place)
                self.page.line(_row(row))
                is_new = True
        return is_new

    async def _are_done(
        self, session: Session, flows: Sequence[Flow], letters: Sequence[Letter]
    ) -> bool:
        """Tell whether every mail has come in and is done with."""
        for flow in flows:
            inputs: Any = await session.call("inputs", workflow=flow.name, limit=PAGE)
            done = sum(each["status"] == InputStatus.DONE for each in inputs)
            if done < len(letters):
                return False
        return True


def _row(row: Row) -> str:
    sender = _cut(row.sender, SENDER_CHARS)
    subject = _cut(row.subject or "(no subject)", SUBJECT_CHARS)
    return f"{row.table:<8} row {row.number:<3} {sender:<{SENDER_CHARS}} {subject}"


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
