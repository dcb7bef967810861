"""Certificates: all that the ledger knows about one input or one change being made once (L15).

Law 1  A certificate is read from the store in one transaction; nothing of it is remembered.
Law 2  It holds facts, and the seal says of each change whether these facts were changed since.
"""

from __future__ import annotations

from duly.desk.base import HasDesk, find_history, find_topic
from duly.desk.identity import find_id
from duly.desk.proof import Certificate, Made, Seal, Taken
from duly.desk.sight import Sight
from duly.errors import Invalid, NotFound, see, short
from duly.rules.event import EventStatus
from duly.rules.forgetting import ERASED_ARGS
from duly.rules.identity import IdKind, MutationId
from duly.rules.retention import REMOVED_ARGS
from duly.rules.schedule import moment
from duly.rules.seal import is_imported, name_seal_key
from duly.rules.verb import question
from duly.rules.word import MutationStatus
from duly.store import certificate, people, seal, trace
from duly.store.base import Transaction
from duly.store.record import MutationRow, WorkflowRow
from duly.store.seal import Flawed
from duly.store.trace import TraceRow


class Certificates(HasDesk):
    """What a person asks who wants to know whether something was made once."""

    @question(example={"id": "mutation_019a8b7c0d1e2f30"})
    async def certificate(
        self,
        id: MutationId,  # noqa: A002  # design §5 calls it so
        *,
        workflow: str | None = None,
        topic: str | None = None,
    ) -> Certificate:
        """Show all that proves that one change, or what one input caused, was made once.

        Name a change by its id, an input by its message id and its workflow, and by its topic if
        two topics have that message id.
        """
        # Rules: L15.
        desk = self._desk()
        sight = Sight.of(desk.parts)
        if workflow is None and topic is not None:
            raise Invalid(code="missing", path="workflow")

        def look(tx: Transaction) -> Certificate:
            if workflow is None:
                return _of_change(tx, sight, id)
            return _of_input(tx, sight, find_history(tx, workflow), topic, id)

        return await desk.ask(look)


def _of_change(tx: Transaction, sight: Sight, name: str) -> Certificate:
    row = people.get_mutation(tx, find_id(tx, name, IdKind.MUTATION))
    workflow = people.get_workflow(tx, row.workflow_id)
    return _certificate(row.id, workflow, None, None, _list_made(tx, sight, workflow, (row,)))


def _of_input(
    tx: Transaction, sight: Sight, workflow: WorkflowRow, topic: str | None, message_id: str
) -> Certificate:
    if topic is not None:
        find_topic(tx, workflow, topic)
    names = [each.name for each in people.list_topics(tx, workflow.id)]
    looked = names if topic is None else [topic]
    found = certificate.find_inputs(tx, workflow.id, looked, message_id)
    if len(found) > 1:  # of one that came in and one that was made from it, the first is meant
        found = (
            tuple(each for each in found if not people.list_causes(tx, workflow.id, each.seq))
            or found
        )
    if not found:
        raise NotFound(
            code="no_input",
            subject=short(message_id),
            facts={"workflow": workflow.name},
            next=see("events", workflow=workflow.name),
        )
    if len(found) > 1:
        topics = [each.topic for each in found]
        raise Invalid(code="several_topics", path="topic", facts={"topics": topics})
    (event,) = found
    rows = certificate.list_changes(tx, workflow.id, event.seq)
    changes = _list_made(tx, sight, workflow, rows)
    status = EventStatus(event.status)
    return _certificate(message_id, workflow, event.topic, status, changes)


def _certificate(
    name: str,
    workflow: WorkflowRow,
    topic: str | None,
    status: EventStatus | None,
    changes: tuple[Made, ...],
) -> Certificate:
    applied = sum(each.status is MutationStatus.APPLIED for each in changes)
    still_open = sum(not each.seal.is_final for each in changes)
    return Certificate(name, workflow.name, topic, status, applied, still_open, changes)


def _list_made(
    tx: Transaction, sight: Sight, workflow: WorkflowRow, rows: tuple[MutationRow, ...]
) -> tuple[Made, ...]:
    """Read what belongs to several changes, then show each."""
    inputs = trace.list_shown(tx, (row.held_by for row in rows))
    same_key = certificate.list_same_key(tx, (row.id for row in rows))
    flawed = seal.check_rows(tx, tx.seal_key, rows)
    return tuple(
        _made(
            sight,
            workflow,
            row,
            inputs.get(row.held_by, ()),
            same_key.get(row.id, ()),
            _seal(row, flawed.get(row.id)),
        )
        for row in rows
    )


def _made(
    sight: Sight,
    workflow: WorkflowRow,
    row: MutationRow,
    inputs: tuple[TraceRow, ...],
    same_key: tuple[str, ...],
    sealed: Seal,
) -> Made:
    return Made(
        id=row.id,
        workflow=workflow.name,
        tool=row.tool,
        status=MutationStatus(row.status),
        key=row.key,
        hash=row.hash,
        inputs=tuple(Taken(each.topic, each.message_id, sight.text(each.title)) for each in inputs),
        proposed_at=moment(row.created_at),
        sends=row.attempt,
        resends=row.resends,
        first_sent_at=None if row.first_sent_at is None else moment(row.first_sent_at),
        last_sent_at=None if row.sent_at is None else moment(row.sent_at),
        known=sight.ending(row),
        late=sight.late(row),
        needed_approval=bool(row.asked),
        approved_by=row.approved_by,
        allowance=row.allowance_id,
        amended_by=row.amended_by,
        is_emptied=row.args in (REMOVED_ARGS, ERASED_ARGS),
        same_key=same_key,
        seal=sealed,
    )


def _seal(row: MutationRow, flawed: Flawed | None) -> Seal:
    kept = row.end_seal or row.seal
    return Seal(
        is_whole=flawed is None,
        is_final=row.has_ended,
        key_id=None if kept is None else name_seal_key(kept),
        flaw=None if flawed is None else flawed.flaw,
        parts=() if flawed is None else flawed.parts,
        is_imported=is_imported(kept),
    )
