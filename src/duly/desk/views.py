"""What a person or an agent can ask a host (U).

Law 1: an answer is of one moment: all of it is read in one transaction.
Law 2: a page has at most a thousand entries and goes on from the last key of the page before.
Law 3: what is shown of a call has no secrets in it (A5, L11).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from duly.desk.account import Accounts, Book
from duly.desk.base import find, find_history, find_topic
from duly.desk.certificate import Certificates
from duly.desk.connection import Connections
from duly.desk.deploy import read_findings
from duly.desk.envelope import Envelopes
from duly.desk.explanation import read_facts
from duly.desk.figure import Figures
from duly.desk.find import Finds
from duly.desk.guide import Authors
from duly.desk.history import Histories
from duly.desk.identity import Identities, find_id, find_place
from duly.desk.inquiry import Inquiries
from duly.desk.member import Members
from duly.desk.model import ModelViews
from duly.desk.oauth import OAuthSignIns
from duly.desk.offer import of_workflow
from duly.desk.page import PAGE_DEFAULT, check_page, read_names, read_word
from duly.desk.plan import Plans
from duly.desk.record import Event, LogLine, Mutation, Run, Workflow
from duly.desk.review import Reviews
from duly.desk.sight import Sight, read_args, show_error, show_log
from duly.errors import NotFound, see
from duly.rules import schedule, standing
from duly.rules.catalog import make_form
from duly.rules.event import EventStatus
from duly.rules.identity import IdKind, MutationId, RunId
from duly.rules.planned import Planned
from duly.rules.schedule import moment
from duly.rules.standing import Standing
from duly.rules.value import decode, nearest
from duly.rules.verb import question
from duly.rules.word import Kind, MutationStatus, Outcome, Phase, Status
from duly.store import people
from duly.store.base import Transaction
from duly.store.people import TopicRow
from duly.store.record import EventRow, HandlerRow, MutationRow, RunRow, WorkflowRow
from duly.store.survey import Survey


class Views(
    Reviews,
    Accounts,
    Authors,
    Histories,
    Envelopes,
    Plans,
    Certificates,
    Figures,
    Finds,
    Inquiries,
    Identities,
    Members,
    ModelViews,
    Connections,
    OAuthSignIns,
):
    """The questions of a host; workflows go by their names."""

    @question(cursor=("name",), example={"limit": 20})
    async def workflows(
        self, *, limit: int = PAGE_DEFAULT, after: str | None = None
    ) -> tuple[Workflow, ...]:
        """List the workflows, by name."""
        check_page(limit, after, str, path="after")
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Workflow, ...]:
            rows = people.list_workflows(tx, limit=limit, after=after or "")
            survey = Survey(tx, rows)
            return tuple(_workflow(survey, row, sight) for row in rows)

        return await self._desk().ask(look)

    @question(example={"name": "invoices"})
    async def workflow(self, name: str) -> Workflow:
        """Show one workflow."""
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> Workflow:
            row = find(tx, name)
            return _workflow(Survey(tx, (row,)), row, sight)

        return await self._desk().ask(look)

    @question(
        cursor=("seq",),
        example={"workflow": "invoices", "topic": "mail.received", "status": "skipped"},
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
        """List the events of a workflow, oldest first."""
        check_page(limit, after, int, path="after")
        word = read_word(EventStatus, status)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Event, ...]:
            found = find_history(tx, workflow)
            if topic is not None:
                find_topic(tx, found, topic)
            start = -1 if after is None else after
            rows = people.list_events(
                tx, found.id, topic=topic, status=word, limit=limit, after=start
            )
            causes = people.list_page_causes(tx, found.id, (row.seq for row in rows))
            topics = {each.name: each for each in people.list_topics(tx, found.id)}
            return tuple(
                _event(row, causes.get(row.seq, ()), sight, topics[row.topic]) for row in rows
            )

        return await self._desk().ask(look)

    @question(cursor=("id",), example={"workflow": "invoices", "status": "failed:logic"})
    async def runs(
        self,
        workflow: str | None = None,
        *,
        handler: str | None = None,
        status: Status | str | None = None,
        limit: int = PAGE_DEFAULT,
        before: RunId | None = None,
    ) -> tuple[Run, ...]:
        """List runs, newest first."""
        check_page(limit, before, str)
        word = read_word(Status, status)

        def look(tx: Transaction) -> tuple[Run, ...]:
            workflow_id = None if workflow is None else find_history(tx, workflow).id
            if workflow_id is not None and handler is not None:
                _find_handler(tx, workflow_id, handler)
            place = find_place(tx, before, IdKind.RUN)
            rows = people.list_runs(
                tx, workflow_id, handler=handler, status=word, limit=limit, before=place
            )
            names = read_names(tx, (row.workflow_id for row in rows))
            return tuple(_run(row, names[row.workflow_id]) for row in rows)

        return await self._desk().ask(look)

    @question(example={"id": "run_019a8b7c0d1e2f30"})
    async def run(self, id: RunId) -> Run:  # noqa: A002  # design §5 calls it so
        """Show one run."""

        def look(tx: Transaction) -> Run:
            row = people.get_run(tx, find_id(tx, id, IdKind.RUN))
            return _run(row, people.get_workflow(tx, row.workflow_id).name)

        return await self._desk().ask(look)

    @question(example={"run": "run_019a8b7c0d1e2f30"})
    async def logs(self, run: RunId) -> tuple[LogLine, ...]:
        """Return what the script of a run logged, and the notes of the host to its author."""
        # Rules: X4.

        def look(tx: Transaction) -> RunRow:
            return people.get_run(tx, find_id(tx, run, IdKind.RUN))

        row = await self._desk().ask(look)
        return () if row.logs is None else show_log(row.logs)

    @question(cursor=("id",), example={"status": "indeterminate"})
    async def mutations(
        self,
        workflow: str | None = None,
        *,
        status: MutationStatus | str | None = None,
        limit: int = PAGE_DEFAULT,
        before: MutationId | None = None,
    ) -> tuple[Mutation, ...]:
        """List the ledger, newest first."""
        check_page(limit, before, str)
        word = read_word(MutationStatus, status)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Mutation, ...]:
            workflow_id = None if workflow is None else find_history(tx, workflow).id
            place = find_place(tx, before, IdKind.MUTATION)
            rows = people.list_mutations(tx, workflow_id, status=word, limit=limit, before=place)
            names = read_names(tx, (row.workflow_id for row in rows))
            return tuple(_mutation(row, names[row.workflow_id], sight) for row in rows)

        return await self._desk().ask(look)

    @question(example={"id": "mutation_019a8b7c0d1e2f30"})
    async def mutation(self, id: MutationId) -> Mutation:  # noqa: A002  # design §5 calls it so
        """Show one row of the ledger."""
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> Mutation:
            row = people.get_mutation(tx, find_id(tx, id, IdKind.MUTATION))
            return _mutation(row, people.get_workflow(tx, row.workflow_id).name, sight)

        return await self._desk().ask(look)


# -- Questions checked --------------------------------------------------------------------------


def _find_handler(tx: Transaction, workflow_id: str, name: str) -> None:
    known = [each.name for each in people.list_handlers(tx, workflow_id)]
    if name not in known:
        raise NotFound(
            code="no_handler", subject=str(name), facts=nearest(str(name), known), next=see("runs")
        )


# -- Rows shown ---------------------------------------------------------------------------------


def _workflow(survey: Survey, row: WorkflowRow, sight: Sight) -> Workflow:
    assert row.active_version is not None, row
    facts = read_facts(survey, sight, row)
    reading = standing.read(facts)
    handlers = [each for each in survey.handlers(row.id) if not each.orphaned]
    producers = [each for each in handlers if each.kind == Kind.PRODUCER]
    book = Book(survey, sight, row)
    return Workflow(
        name=row.name,
        version=row.active_version,
        standing=reading.standing,
        reason=reading.reason,
        schedule=tuple(_planned(each) for each in producers),
        next_check_at=_planned_at(reading.standing, (each.next_run_at for each in producers)),
        wakes_at=_planned_at(reading.standing, (each.wake_at for each in handlers)),
        activity=book.activity(),
        pending=facts.pending or book.pending(),
        stale=sum(book.stale().values()),
        orphaned=sum(book.orphaned().values()),
        paused=bool(row.paused),
        findings=read_findings(survey.findings(row.id)),
        created_at=moment(row.created_at),
        ingress=tuple(
            each.name
            for each in survey.topics(row.id).values()
            if each.ingress and not each.orphaned
        ),
        offers=of_workflow(
            row.name,
            is_paused=bool(row.paused),
            can_be_run=bool(producers) and facts.run is None,
        ),
    )


def _planned_at(how: Standing, times: Iterable[int | None]) -> datetime | None:
    """Return the earliest time; none comes before a person has moved things on (F6, F7)."""
    at_ms = schedule.earliest(times)
    if at_ms is None or how in (Standing.NEEDS_ATTENTION, Standing.STOPPED):
        return None
    return moment(at_ms)


def _planned(handler: HandlerRow) -> Planned:
    text = handler.schedule
    return schedule.plan(handler.name, schedule.parse(None if text is None else decode(text)))


def _event(
    row: EventRow, causes: tuple[tuple[str, str], ...], sight: Sight, topic: TopicRow
) -> Event:
    return Event(
        topic=row.topic,
        message_id=row.message_id,
        title=sight.text(row.title),
        payload=sight.value(decode(row.body)),
        status=EventStatus(row.status),
        seq=row.seq,
        reserved_by=row.reserved_by,
        created_by=row.created_by,
        caused_by=causes,
        created_at=moment(row.created_at),
        dropped=row.dropped,
        is_output=not topic.is_work(row.seq),
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
        error=None if row.error is None else show_error(row.error),
        created_at=moment(row.created_at),
        updated_at=moment(row.updated_at),
    )


def _mutation(row: MutationRow, workflow: str, sight: Sight) -> Mutation:
    args = sight.value(read_args(row.args))
    first = None if row.args_proposed is None else sight.value(decode(row.args_proposed))
    tool = sight.find_tool(row.tool)
    return Mutation(
        id=row.id,
        run=row.run_id,
        held_by=row.held_by,
        workflow=workflow,
        tool=row.tool,
        args=args,
        title=sight.claimed(row),
        key=row.key,
        status=MutationStatus(row.status),
        result=None if row.result is None else sight.value(decode(row.result)),
        attempt=row.attempt,
        hash=row.hash,
        sent_at=None if row.sent_at is None else moment(row.sent_at),
        late=sight.late(row),
        known=sight.ending(row),
        approved_by=row.approved_by,
        allowance=row.allowance_id,
        amended_by=row.amended_by,
        proposed=first,
        form=make_form(tool, args if isinstance(args, dict) else {}),
        proposed_form=make_form(tool, first) if isinstance(first, dict) else (),
    )
