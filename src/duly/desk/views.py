"""What a person or an agent can ask a host (U).

Law 1: an answer is of one moment: whatever belongs to it is read in one transaction.
Law 2: a page has at most a thousand entries and goes on from the last key of the page before.
Law 3: what is shown of a call has no secrets in it (A5, L11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from duly.config import Policy
from duly.desk.base import find, find_topic
from duly.desk.deploy import read_findings
from duly.desk.page import PAGE_DEFAULT, check_page, read_names, read_word
from duly.desk.record import Event, LogLine, Mutation, Run, RunError, Workflow
from duly.desk.review import Reviews
from duly.errors import Invalid, NotFound
from duly.rules import schedule, standing
from duly.rules.event import EventStatus
from duly.rules.permission import redact
from duly.rules.schedule import moment
from duly.rules.value import Json, decode, suggest
from duly.rules.word import Kind, MutationStatus, Outcome, Phase, Status
from duly.store import due, people
from duly.store.base import Transaction
from duly.store.record import EventRow, MutationRow, RunRow, WorkflowRow


class Views(Reviews):
    """The questions of a host; workflows go by their names."""

    async def workflows(
        self, *, limit: int = PAGE_DEFAULT, after: str | None = None
    ) -> tuple[Workflow, ...]:
        """List the workflows by name, from behind a name."""
        desk = self._desk()
        check_page(limit, after, str)

        def look(tx: Transaction) -> tuple[Workflow, ...]:
            rows = people.list_workflows(tx, limit=limit, after=after or "")
            return tuple(_workflow(tx, row, desk.parts.policy, desk.now_ms) for row in rows)

        return await desk.ask(look)

    async def workflow(self, name: str) -> Workflow:
        """Show one workflow."""
        desk = self._desk()
        return await desk.ask(
            lambda tx: _workflow(tx, find(tx, name), desk.parts.policy, desk.now_ms)
        )

    async def events(
        self,
        workflow: str,
        *,
        topic: str | None = None,
        status: EventStatus | str | None = None,
        limit: int = PAGE_DEFAULT,
        after: int | None = None,
    ) -> tuple[Event, ...]:
        """List the events of a workflow, oldest first, from behind the event with this `seq`."""
        check_page(limit, after, int)
        word = read_word(EventStatus, status)

        def look(tx: Transaction) -> tuple[Event, ...]:
            found = find(tx, workflow)
            if topic is not None:
                find_topic(tx, found, topic)
            start = -1 if after is None else after
            rows = people.list_events(
                tx, found.id, topic=topic, status=word, limit=limit, after=start
            )
            return tuple(_event(row, people.list_causes(tx, found.id, row.seq)) for row in rows)

        return await self._desk().ask(look)

    async def runs(
        self,
        workflow: str | None = None,
        *,
        handler: str | None = None,
        status: Status | str | None = None,
        limit: int = PAGE_DEFAULT,
        before: str | None = None,
    ) -> tuple[Run, ...]:
        """List runs, newest first, from before the run with this id."""
        check_page(limit, before, str)
        word = read_word(Status, status)

        def look(tx: Transaction) -> tuple[Run, ...]:
            workflow_id = None if workflow is None else find(tx, workflow).id
            if workflow_id is not None and handler is not None:
                _find_handler(tx, workflow_id, handler)
            rows = people.list_runs(
                tx, workflow_id, handler=handler, status=word, limit=limit, before=before
            )
            names = read_names(tx, (row.workflow_id for row in rows))
            return tuple(_run(row, names[row.workflow_id]) for row in rows)

        return await self._desk().ask(look)

    async def run(self, id: str) -> Run:  # noqa: A002  # design §5 calls it so
        """Show one run."""

        def look(tx: Transaction) -> Run:
            row = people.get_run(tx, id)
            return _run(row, people.get_workflow(tx, row.workflow_id).name)

        return await self._desk().ask(look)

    async def logs(self, run: str) -> tuple[LogLine, ...]:
        """Answer what a run's script said, and what the host has to say to its author (X4)."""
        row = await self._desk().parts.store.get_run(run)
        return () if row.logs is None else _logs(row.logs)

    async def mutations(
        self,
        workflow: str | None = None,
        *,
        status: MutationStatus | str | None = None,
        limit: int = PAGE_DEFAULT,
        before: str | None = None,
    ) -> tuple[Mutation, ...]:
        """List the ledger, newest first, from before the mutation with this id."""
        check_page(limit, before, str)
        word = read_word(MutationStatus, status)
        show = self._show()

        def look(tx: Transaction) -> tuple[Mutation, ...]:
            workflow_id = None if workflow is None else find(tx, workflow).id
            rows = people.list_mutations(tx, workflow_id, status=word, limit=limit, before=before)
            names = read_names(tx, (row.workflow_id for row in rows))
            return tuple(_mutation(row, names[row.workflow_id], show) for row in rows)

        return await self._desk().ask(look)

    async def mutation(self, id: str) -> Mutation:  # noqa: A002  # design §5 calls it so
        """Show one row of the ledger."""
        show = self._show()

        def look(tx: Transaction) -> Mutation:
            row = people.get_mutation(tx, id)
            return _mutation(row, people.get_workflow(tx, row.workflow_id).name, show)

        return await self._desk().ask(look)

    def _show(self) -> Callable[[Json], Json]:
        """Answer what takes the secrets out of a value."""
        return partial(redact, secrets=self._desk().parts.outside.secrets())


# -- Questions checked --------------------------------------------------------------------------


def _find_handler(tx: Transaction, workflow_id: str, name: str) -> None:
    known = [each.name for each in people.list_handlers(tx, workflow_id)]
    if name not in known:
        raise NotFound(f'There is no handler "{name}". {suggest(str(name), known)}')


# -- Rows shown ---------------------------------------------------------------------------------


def _workflow(tx: Transaction, row: WorkflowRow, policy: Policy, now_ms: int) -> Workflow:
    assert row.active_version is not None, row
    version = people.get_version(tx, row.id, row.active_version)
    open_run = due.outlook(tx, row.id).open_run
    run = None if open_run is None else people.get_run(tx, open_run.run_id)
    reading = standing.read(_facts(row, run), now_ms)
    producers = [
        each
        for each in people.list_handlers(tx, row.id)
        if each.kind == Kind.PRODUCER and not each.orphaned
    ]
    return Workflow(
        name=row.name,
        version=version.version,
        standing=reading.standing,
        reason=reading.reason,
        schedule=tuple(_schedule(each.schedule, policy.timezone) for each in producers),
        paused=bool(row.paused),
        findings=read_findings(version.findings),
        created_at=moment(row.created_at),
    )


def _facts(row: WorkflowRow, run: RunRow | None) -> standing.Facts:
    if run is None:
        return standing.Facts(paused=bool(row.paused))
    return standing.Facts(
        run=run.state,
        paused=bool(row.paused),
        escalated=run.escalated,
        waits_for=run.waits_on,
        title=_title(run.prepared),
        due_at_ms=run.due_at,
    )


def _title(prepared: str | None) -> str | None:
    """Read what the script says it is doing out of its prepare result."""
    pinned = None if prepared is None else decode(prepared)
    shown = pinned.get("ui") if isinstance(pinned, dict) else None
    title = shown.get("title") if isinstance(shown, dict) else None
    return title if isinstance(title, str) else None


def _schedule(text: str | None, zone: str) -> str:
    return schedule.describe(schedule.parse(None if text is None else decode(text)), zone)


def _event(row: EventRow, causes: tuple[tuple[str, str], ...]) -> Event:
    return Event(
        topic=row.topic,
        message_id=row.message_id,
        title=row.title,
        payload=decode(row.body),
        status=EventStatus(row.status),
        seq=row.seq,
        reserved_by=row.reserved_by,
        created_by=row.created_by,
        caused_by=causes,
        created_at=moment(row.created_at),
    )


def _run(row: RunRow, workflow: str) -> Run:
    return Run(
        id=row.id,
        workflow=workflow,
        version=row.version,
        handler=row.handler,
        kind=Kind(row.kind),
        retry_of=row.retry_of,
        phase=Phase(row.phase),
        status=Status(row.status),
        outcome=None if row.outcome is None else Outcome(row.outcome),
        error=None if row.error is None else _error(row.error),
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
    )


def _logs(text: str) -> tuple[LogLine, ...]:
    """Read what a run logged; how much was left out is said in a last line (X4)."""
    kept = cast("dict[str, Any]", decode(text))
    lines = [LogLine(moment(each["at"]), each["from"], each["text"]) for each in kept["lines"]]
    if kept["dropped"]:
        left_out = f"{kept['dropped']} more lines were left out."
        lines.append(LogLine(lines[-1].at, "duly", left_out))
    return tuple(lines)


def _error(text: str) -> RunError:
    """Read what the engine kept of a failure; what it did not write is shown as it is."""
    try:
        kept = decode(text)
    except Invalid:
        kept = None
    if not isinstance(kept, dict):
        return RunError("", text)
    told = cast("dict[str, Any]", kept)
    return RunError(
        failure=told.get("class", ""),
        message=told.get("message", ""),
        line=told.get("line"),
        tool=told.get("tool"),
        args=told.get("args"),
    )


def _mutation(row: MutationRow, workflow: str, show: Callable[[Json], Json]) -> Mutation:
    return Mutation(
        id=row.id,
        run=row.run_id,
        held_by=row.held_by,
        workflow=workflow,
        tool=row.tool,
        args=show(decode(row.args)),
        title=row.title,
        key=row.key,
        status=MutationStatus(row.status),
        result=None if row.result is None else show(decode(row.result)),
        attempt=row.attempt,
        hash=row.hash,
        sent_at=None if row.sent_at is None else moment(row.sent_at),
    )
