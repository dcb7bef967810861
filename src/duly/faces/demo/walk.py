"""What happens in a demo, in four chapters, shown while it happens.

Law 1  Nothing is shown that was not looked at: rows in the table's file, the rest in the ledger.
Law 2  The crash is no matter of luck. The host dies while exactly one call is out, whose row is
       written and whose result it does not have; the other workflow has nothing left to do.
Law 3  A chapter lasts as long as anything moves, on any machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from duly.api.clock import Env
from duly.api.session import Session, connect
from duly.api.word import InputStatus, Known, MutationStatus
from duly.faces.demo.account import Entry, compare, compare_settled, read_ledger
from duly.faces.demo.folder import FLOWS, JAVASCRIPT, MARK, PYTHON, DemoFolder, Flow, Row
from duly.faces.demo.process import LOOK_S, Process, serving
from duly.faces.demo.table import HELD, HOLD, Hold
from duly.faces.demo.tell import STUCK_S, Mismatch, heading, tell

LATE_MAX: Final = 2  # mails that arrive while there is no host
PAGE: Final = 1000
VIEW_MAX: Final = 7  # inputs that are shown
ASKED: Final = "the table was asked, nothing was sent again"


@dataclass(slots=True)
class Walk:
    """One demo, from an empty folder to the account."""

    folder: DemoFolder
    env: Env
    _shown: set[Row] = field(default_factory=set)

    async def run(self, mails: Mapping[str, bytes]) -> Entry:
        """Walk through all of it; return the call that had to be settled."""
        late_count = min(LATE_MAX, len(mails) // 3)
        early = dict(list(mails.items())[: len(mails) - late_count])
        hold, held = self.folder.path / MARK / HOLD, self.folder.path / MARK / HELD
        self.folder.deliver(early)
        Hold(PYTHON.table, (len(early) + 1) // 2).write(hold)
        heading("Mails become rows")
        async with serving(self.folder, self.env) as (process, session):
            tell(f"The host is process {process.child.pid}.")
            call = await self._fill(process, session, len(early))
            heading("The host is killed, after a change and before its record")
            tell(f"The answer to row {call.row} of {call.table} is held back.")
            tell(f"kill -9 {process.child.pid}")
            process.kill()
            tell(f"Process {process.child.pid} was ended by SIGKILL.")
        row, entry = await self._look(call)
        hold.unlink()
        held.unlink()
        self.folder.deliver(mails)
        if late_count:
            tell(f"{late_count} more mails arrive while no host runs.")
        heading("The host starts again")
        async with serving(self.folder, self.env) as (process, session):
            tell(f"The host is process {process.child.pid}.")
            await self._until(process, lambda: _are_done(session, FLOWS, len(mails)))
            (entry,) = read_ledger([await session.call("mutation", id=entry.id)])
            how = ASKED if entry.how is Known.ASKED else entry.how
            tell(f"The ledger has settled the call as {entry.status}, attempt {entry.attempt}:")
            tell(entry.id, f"How: {how}.")
            await self._account(session, compare_settled(entry, row))
            await _view(session)
        return entry

    async def _fill(self, process: Process, session: Session, count: int) -> Hold:
        """Let mails become rows until the one call is held, and nothing else is left to do."""
        for flow in FLOWS:
            text = (self.folder.path / "workflows" / flow.file).read_text("utf-8")
            source: Any = {"language": flow.language.lower(), "text": text, "name": flow.file}
            await session.call("deploy", source=source, grant=True, strict=True)
            tell(f"{flow.name} ({flow.language}) is deployed; it fills {flow.table}.")

        async def is_held() -> bool:
            return self._held() is not None and await _are_done(session, (JAVASCRIPT,), count)

        await self._until(process, is_held)
        call = self._held()
        assert call is not None
        return call

    async def _look(self, call: Hold) -> tuple[Row | None, Entry]:
        """Look at what the table has and what the ledger knows, now that no host runs."""
        rows = [each for each in self.folder.rows(PYTHON) if each.key == call.key]
        tell("The table has the row:" if rows else "The table has no such row.")
        self._show(rows)
        word = MutationStatus.IN_FLIGHT.value
        async with connect(self.folder.project()) as session:
            found = read_ledger(await session.call("mutations", status=word, limit=PAGE))
        if [each.key for each in found] != [call.key]:
            raise Mismatch(f"{call.mail}: the ledger has {len(found)} calls that are {word}, not 1")
        tell(f"The ledger has the call as {word}, which says neither yes nor no:", found[0].id)
        return (rows[0] if rows else None), found[0]

    async def _account(self, session: Session, found: list[str]) -> None:
        """Count what there is on both sides, and say where they do not agree."""
        heading("The account, from the table files and the ledger")
        mails = self.folder.mails()
        tell(f"{'workflow':<18} {'mails':>5} {'rows':>5} {'applied':>8}")
        for flow in FLOWS:
            rows, ledger = self.folder.rows(flow), await _ledger(session, flow)
            applied = sum(each.status is MutationStatus.APPLIED for each in ledger)
            tell(f"{flow.name:<18} {len(mails):>5} {len(rows):>5} {applied:>8}")
            found += [f"{flow.table}: {each}" for each in compare(mails, rows, ledger)]
        if found:
            raise Mismatch("\n".join(["Table and ledger do not agree.", *found]))
        tell("Every mail is exactly one row of each table.")

    async def _until(self, process: Process, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Show every new row until it is over; refuse to go on where nothing moves for long."""
        moved_ms, is_last = self.env.monotonic_ms(), False
        while not is_last:
            is_last, hold = await is_over(), Hold.read(self.folder.path / MARK / HOLD)
            # The row whose answer is to be held back is shown when its host is dead.
            rows = [row for flow in FLOWS for row in self.folder.rows(flow)]
            hidden = None if hold is None else (hold.table, hold.row)
            if self._show([row for row in rows if (row.table, row.number) != hidden]):
                moved_ms = self.env.monotonic_ms()
            process.check()
            if self.env.monotonic_ms() - moved_ms > STUCK_S * 1000:
                raise self.folder.refusal("stuck", seconds=STUCK_S, log=str(self.folder.log))
            await self.env.sleep(LOOK_S)

    def _held(self) -> Hold | None:
        return Hold.read(self.folder.path / MARK / HELD)

    def _show(self, rows: Sequence[Row]) -> bool:
        """Show the rows that were not shown before; tell whether there was one."""
        new = [row for row in rows if row not in self._shown]
        for row in new:
            subject = _cut(row.subject or "(no subject)", 34)
            tell(f"{row.table:<8} row {row.number:<3} {_cut(row.sender, 24):<24} {subject}")
        self._shown.update(new)
        return bool(new)


async def _view(session: Session) -> None:
    """Show what came in and what came of it, as a person sees it (U2)."""
    heading(f"What came in → what came of it, in {PYTHON.name}")
    inputs: Any = await session.call("inputs", workflow=PYTHON.name, limit=PAGE)
    rows = {each.id: (each.result or {})["row"] for each in await _ledger(session, PYTHON)}
    for each in inputs[:VIEW_MAX]:
        made = [f"row {rows[one['id']]}" for one in each["outputs"] if one["id"] in rows]
        tell(f"{_cut(each['title'], 66)} → {', '.join(made)}")
    if len(inputs) > VIEW_MAX:
        tell(f"… and {len(inputs) - VIEW_MAX} more.")


async def _ledger(session: Session, flow: Flow) -> list[Entry]:
    return read_ledger(await session.call("mutations", workflow=flow.name, limit=PAGE))


async def _are_done(session: Session, flows: Sequence[Flow], count: int) -> bool:
    """Tell whether so many mails have come in and are done with, in each of these workflows."""
    asked: list[Any] = [
        await session.call("inputs", workflow=flow.name, limit=PAGE) for flow in flows
    ]
    return all(sum(e["status"] == InputStatus.DONE for e in each) >= count for each in asked)


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
