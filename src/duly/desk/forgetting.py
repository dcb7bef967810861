"""Forgetting an input on a person's request (H5, A6).

Law 1: it is erased whole or refused with what is in the way; then nothing was changed.
Law 2: when the act returns, its blobs are gone too, and the log of a SQLite file shows no page from
       before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from duly.desk.base import USER, HasDesk, find_history, find_topic
from duly.desk.sight import Sight
from duly.errors import Invalid, NotFound, see, short
from duly.rules.forgetting import Forgettable, Forgotten
from duly.rules.verb import Scope, act, question
from duly.store import certificate, forgetting, people
from duly.store.base import Transaction
from duly.store.certificate import InputRow
from duly.store.record import WorkflowRow
from duly.store.sqlite import SqliteBackend


class Forgetting(HasDesk):
    """What a person does for another one who asks to be forgotten; `by` says who."""

    @question(scope=Scope.ADMIN, follow=False, example={"id": "42", "workflow": "invoices"})
    async def forgettable(
        self,
        id: str,  # noqa: A002  # as in `certificate`
        *,
        workflow: str | None = None,
        topic: str | None = None,
    ) -> Forgettable:
        """Show what forgetting an input would erase, in counts and titles; nothing is changed.

        It is refused as forgetting would be: while anything of it is open.
        """
        # Rules: H5.
        desk = self._desk()
        sight = Sight.of(desk.parts)

        def look(tx: Transaction) -> Forgettable:
            workflow_id, event = _find(tx, id, workflow, topic)
            found = forgetting.foresee(tx, workflow_id, event.seq, desk.now_ms)
            return replace(
                found,
                title=sight.text(found.title),
                events=tuple(map(sight.text, found.events)),
                changes=tuple(map(sight.text, found.changes)),
            )

        return await desk.ask(look)

    @act(scope=Scope.ADMIN, example={"id": "42", "workflow": "invoices"})
    async def forget(
        self,
        id: str,  # noqa: A002  # as in `certificate`
        *,
        workflow: str | None = None,
        topic: str | None = None,
        by: str = USER,
    ) -> Forgotten:
        """Erase the contents of an input and of everything made from it, for good.

        Name the input by its message id, and its workflow or topic if several have that id. It is
        refused while anything of it is open. Message ids, keys, states and digests stay, so that
        nothing is done again. The answer names copies that Duly cannot reach.
        """
        # Rules: H5, A6, L15, K15.
        desk = self._desk()
        action = desk.action(by, "forget")
        workflow_id, event = await desk.look(lambda tx: _find(tx, id, workflow, topic))
        store = desk.parts.store
        verb = partial(store.forget, workflow_id, event.seq, action=action, now=desk.now_ms)

        async def forget() -> Forgotten:
            forgotten = await verb()
            while await store.drop_blob_parts():
                pass
            if isinstance(store.backend, SqliteBackend):
                await store.backend.forget_log()
            return forgotten

        return await desk.carry_out(forget, workflow_id)


def _find(
    tx: Transaction, message_id: str, workflow: str | None, topic: str | None
) -> tuple[str, InputRow]:
    """Find the one input that is meant; of one that came in and one made from it, the first."""
    if workflow is None:
        homes = people.list_workflows(tx, limit=people.PAGE_ROWS_MAX)
    else:
        homes = (find_history(tx, workflow),)
        if topic is not None:
            find_topic(tx, homes[0], topic)
    found = [(home, each) for home in homes for each in _inputs(tx, home, message_id, topic)]
    if not found:
        code, facts = (
            ("no_input_anywhere", {}) if workflow is None else ("no_input", {"workflow": workflow})
        )
        raise NotFound(code=code, subject=short(message_id), facts=facts, next=see("find"))
    names = sorted({home.name for home, _ in found})
    if len(names) > 1:
        raise Invalid(code="several_workflows", path="workflow", facts={"workflows": names})
    if len(found) > 1:
        topics = [each.topic for _, each in found]
        raise Invalid(code="several_topics", path="topic", facts={"topics": topics})
    ((home, event),) = found
    return home.id, event


def _inputs(
    tx: Transaction, home: WorkflowRow, message_id: str, topic: str | None
) -> tuple[InputRow, ...]:
    names = [each.name for each in people.list_topics(tx, home.id)]
    looked = [each for each in names if topic in (None, each)]
    found = certificate.find_inputs(tx, home.id, looked, message_id)
    if len(found) < 2:
        return found
    own = tuple(each for each in found if not people.list_causes(tx, home.id, each.seq))
    return own or found
