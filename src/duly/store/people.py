"""What people look at: rows as they are, in pages (U).

Law: a page is at most a thousand rows and goes on from the last key of the one before, never from
an offset; nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from duly.errors import Invalid, NotFound, short
from duly.store import ledger, statements
from duly.store.base import Transaction
from duly.store.parameter import as_set
from duly.store.record import (
    EventRow,
    HandlerRow,
    MutationRow,
    RunRow,
    VersionRow,
    WorkflowRow,
)

PAGE_ROWS_MAX = 1000
LAST = "\U0010ffff"  # behind every id
TIME_MAX = 2**63 - 1  # behind every moment


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic of a workflow."""

    name: str
    consumer: str | None
    ingress: int
    bus_topic: str | None
    orphaned: int
    worked_until: int  # up to this number its events were work when it lost its consumer (W9)

    def is_work(self, seq: int) -> bool:
        """Tell whether an event of this topic is or was there to be consumed, and no output."""
        return self.consumer is not None or seq <= self.worked_until


@dataclass(frozen=True, slots=True)
class StrayRow:
    """A reserved event whose run is over (R7)."""

    workflow_id: str
    topic: str
    message_id: str
    reserved_by: str
    title: str
    created_at: int


@dataclass(frozen=True, slots=True)
class ActionRow:
    """Something a person or an agent did (A6)."""

    id: str
    at: int
    by: str
    verb: str
    workflow_id: str | None
    target: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """An open run that waits for a person, and for what (F4)."""

    workflow_id: str
    run_id: str
    waits: str
    waits_on: str | None


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret, sealed as it is (A5)."""

    connector: str
    name: str
    sealed: str
    set_at: int = 0


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A capability a workflow has (A1)."""

    capability: str
    mutations_per_day: int | None
    matching: str
    granted_by: str
    granted_at: int


def list_workflows(
    tx: Transaction, *, limit: int = 100, after: str = ""
) -> tuple[WorkflowRow, ...]:
    """Read workflows by name, from behind a name."""
    rows = tx.all("list_workflows", after=after, limit=page(limit))
    return tuple(WorkflowRow(*row) for row in rows)


def find_workflow(tx: Transaction, name: str) -> WorkflowRow | None:
    """Read the workflow that has this name now."""
    found = tx.one("find_workflow", name=name)
    return None if found is None else WorkflowRow(*found)


def find_former_workflow(tx: Transaction, name: str) -> WorkflowRow | None:
    """Read the newest workflow that ever had this name, removed or not (W10)."""
    found = tx.one("find_former_workflow", name=name)
    return None if found is None else WorkflowRow(*found)


def get_workflow(tx: Transaction, workflow_id: str) -> WorkflowRow:
    """Read a workflow, removed or not."""
    return WorkflowRow(*_known(tx.one("get_workflow", id=workflow_id), "no_workflow", workflow_id))


def list_by_ids(tx: Transaction, workflow_ids: Iterable[str]) -> tuple[WorkflowRow, ...]:
    """Read a few workflows, removed ones too, in one statement."""
    rows = tx.all("list_workflows_by_ids", ids=as_set(workflow_ids))
    return tuple(WorkflowRow(*row) for row in rows)


def list_handlers(tx: Transaction, workflow_id: str) -> tuple[HandlerRow, ...]:
    """Read the handlers of a workflow, orphaned ones last."""
    rows = tx.all("list_handlers", workflow_id=workflow_id)
    return tuple(HandlerRow(*row) for row in rows)


def list_topics(tx: Transaction, workflow_id: str) -> tuple[TopicRow, ...]:
    """Read the topics of a workflow."""
    return tuple(TopicRow(*row) for row in tx.all("list_topics", workflow_id=workflow_id))


def list_topics_of(tx: Transaction, workflow_ids: Iterable[str]) -> dict[tuple[str, str], TopicRow]:
    """Read the topics of several workflows, by workflow and name, in one statement."""
    rows = tx.all("survey_topics", ids=as_set(workflow_ids))
    return {(workflow_id, row[0]): TopicRow(*row) for workflow_id, *row in rows}


def list_versions(
    tx: Transaction, workflow_id: str, *, limit: int = 100, before: str | None = None
) -> tuple[VersionRow, ...]:
    """Read the versions of a workflow, newest first, from before a version."""
    known = None if before is None else get_version(tx, workflow_id, before)
    rows = tx.all(
        "list_versions",
        workflow_id=workflow_id,
        before_at=TIME_MAX if known is None else known.created_at,
        before=LAST if known is None else known.version,
        limit=page(limit),
    )
    return tuple(VersionRow(*row) for row in rows)


def get_version(tx: Transaction, workflow_id: str, version: str) -> VersionRow:
    """Read one version."""
    found = tx.one("get_version", workflow_id=workflow_id, version=version)
    return VersionRow(*_known(found, "no_version", version))


def list_events(
    tx: Transaction,
    workflow_id: str,
    *,
    topic: str | None = None,
    status: str | None = None,
    limit: int = 100,
    after: int = -1,
) -> tuple[EventRow, ...]:
    """Read events, oldest first, from behind a number."""
    rows = tx.all(
        "list_events",
        workflow_id=workflow_id,
        topic=topic,
        status=status,
        after=after,
        limit=page(limit),
    )
    return tuple(EventRow(*row) for row in rows)


def list_causes(tx: Transaction, workflow_id: str, seq: int) -> tuple[tuple[str, str], ...]:
    """Read the inputs an event goes back to, as (topic, message id) (T9)."""
    return tuple(
        (row[0], row[1]) for row in tx.all("list_causes", workflow_id=workflow_id, seq=seq)
    )


def list_page_causes(
    tx: Transaction, workflow_id: str, seqs: Iterable[int]
) -> dict[int, tuple[tuple[str, str], ...]]:
    """Read the inputs that each event of a page goes back to, in one statement (T9)."""
    causes: dict[int, list[tuple[str, str]]] = {}
    for seq, topic, message_id in tx.all(
        "list_page_causes", workflow_id=workflow_id, seqs=as_set(seqs)
    ):
        causes.setdefault(seq, []).append((topic, message_id))
    return {seq: tuple(found) for seq, found in causes.items()}


def list_names(tx: Transaction, workflow_ids: Iterable[str]) -> dict[str, str]:
    """Read the name of each workflow, removed ones too, in one statement (W10)."""
    return dict(tx.all("list_names", ids=as_set(workflow_ids)))


def list_effects(tx: Transaction, workflow_id: str, root: int) -> tuple[tuple[str, str], ...]:
    """Read the events an input led to, as (topic, message id) (T9)."""
    rows = tx.all("list_effects", workflow_id=workflow_id, root=root)
    return tuple((row[0], row[1]) for row in rows)


def list_strays(tx: Transaction, *, limit: int = 100) -> tuple[StrayRow, ...]:
    """Read the events that no open run answers for: reported, never released in silence (R7)."""
    return tuple(StrayRow(*row) for row in tx.all("list_strays", limit=page(limit)))


def list_inputs(tx: Transaction, run_id: str) -> tuple[EventRow, ...]:
    """Read the events a run reserved, with the content it was shown (C6)."""
    return tuple(EventRow(*row) for row in tx.all("list_inputs", run_id=run_id))


def list_runs(
    tx: Transaction,
    workflow_id: str | None = None,
    *,
    handler: str | None = None,
    status: str | None = None,
    limit: int = 100,
    before: str | None = None,
) -> tuple[RunRow, ...]:
    """Read runs, newest first."""
    narrow = {"handler": handler, "status": status, "before": before or LAST, "limit": page(limit)}
    if workflow_id is None:
        return tuple(RunRow(*row) for row in tx.all("list_runs", **narrow))
    rows = tx.all("list_workflow_runs", workflow_id=workflow_id, **narrow)
    return tuple(RunRow(*row) for row in rows)


def get_run(tx: Transaction, run_id: str) -> RunRow:
    """Read one run."""
    return statements.read_run(tx, run_id)


def list_mutations(
    tx: Transaction,
    workflow_id: str | None = None,
    *,
    status: str | None = None,
    limit: int = 100,
    before: str | None = None,
) -> tuple[MutationRow, ...]:
    """Read the ledger, newest first."""
    narrow = {"status": status, "before": before or LAST, "limit": page(limit)}
    if workflow_id is None:
        return tuple(MutationRow(*row) for row in tx.all("list_mutations", **narrow))
    rows = tx.all("list_workflow_mutations", workflow_id=workflow_id, **narrow)
    return tuple(MutationRow(*row) for row in rows)


def get_mutation(tx: Transaction, mutation_id: str) -> MutationRow:
    """Read one row of the ledger."""
    return ledger.read_mutation(tx, mutation_id)


def list_proposals(
    tx: Transaction,
    workflow_id: str | None = None,
    *,
    limit: int = 100,
    before: str | None = None,
) -> tuple[MutationRow, ...]:
    """Read the calls that wait for a person, newest first (A3)."""
    rows = tx.all(
        "list_proposals", workflow_id=workflow_id, before=before or LAST, limit=page(limit)
    )
    return tuple(MutationRow(*row) for row in rows)


def list_waiting(tx: Transaction, *, limit: int = 100) -> tuple[WaitingRow, ...]:
    """Read the open runs that wait for a person: approval, connection or grant (F4)."""
    return tuple(WaitingRow(*row) for row in tx.all("list_waiting", limit=page(limit)))


def get_held_mutation(tx: Transaction, run_id: str) -> MutationRow:
    """Read the row of the ledger a run answers for now (L1)."""
    found = ledger.read_held_row(tx, run_id)
    if found is None:
        raise NotFound(code="no_mutation", subject=run_id)
    return found


def find_target_action(
    tx: Transaction, workflow_id: str, target: str, verb: str
) -> ActionRow | None:
    """Read the last time a person or an extension did this to one thing of a workflow (A6)."""
    found = tx.one("find_target_action", workflow_id=workflow_id, target=target, verb=verb)
    return None if found is None else ActionRow(*found)


def find_target_actions(
    tx: Transaction, workflow_id: str, targets: Iterable[str], verb: str
) -> dict[str, ActionRow]:
    """Read who did this last to each of a few things of a workflow (A6)."""
    here = {"workflow_id": workflow_id, "targets": as_set(targets), "verb": verb}
    rows = (ActionRow(*row) for row in tx.all("find_target_actions", **here))
    return {str(row.target): row for row in rows}


def list_target_actions(
    tx: Transaction, workflow_id: str, targets: Iterable[str], *, limit: int = 100
) -> tuple[ActionRow, ...]:
    """Read what was done to each of a few things of a workflow, oldest first (A6)."""
    here = {"workflow_id": workflow_id, "targets": as_set(targets), "limit": page(limit)}
    return tuple(ActionRow(*row) for row in tx.all("list_target_actions", **here))


def find_last_action(
    tx: Transaction, workflow_id: str, verb: str, *, at: int = TIME_MAX
) -> ActionRow | None:
    """Read the last time, up to a moment, that this was done to a workflow (A6)."""
    found = tx.one("find_last_action", workflow_id=workflow_id, verb=verb, at=at)
    return None if found is None else ActionRow(*found)


def list_actions(
    tx: Transaction,
    workflow_id: str | None = None,
    *,
    limit: int = 100,
    before: str | None = None,
) -> tuple[ActionRow, ...]:
    """Read what people and agents did, newest first (A6)."""
    narrow = {"before": before or LAST, "limit": page(limit)}
    if workflow_id is None:
        return tuple(ActionRow(*row) for row in tx.all("list_actions", **narrow))
    rows = tx.all("list_workflow_actions", workflow_id=workflow_id, **narrow)
    return tuple(ActionRow(*row) for row in rows)


def list_capabilities(tx: Transaction) -> tuple[str, ...]:
    """Read the capabilities that some workflow was granted."""
    return tuple(str(row[0]) for row in tx.all("list_capabilities"))


def find_grant(tx: Transaction, workflow_id: str, capability: str) -> GrantRow | None:
    """Read the grant that a workflow has of a capability."""
    rows = list_grants(tx, workflow_id)
    return next((each for each in rows if each.capability == capability), None)


def find_removed(tx: Transaction, name: str) -> ActionRow | None:
    """Read who last took a workflow of this name out of service, if one was (W10, A6)."""
    found = tx.one("find_removed_workflow", name=name)
    return None if found is None else find_last_action(tx, str(found[0]), "remove")


def list_users(
    tx: Transaction, connector: str, capabilities: Iterable[str], *, limit: int = 100
) -> tuple[str, ...]:
    """Name the workflows that were granted one of these, or anything below a connection's name."""
    here = {"connector": connector, "capabilities": as_set(capabilities), "limit": page(limit)}
    return tuple(str(row[0]) for row in tx.all("list_users", **here))


def list_grants(tx: Transaction, workflow_id: str) -> tuple[GrantRow, ...]:
    """Read the envelope of a workflow (A1)."""
    return tuple(GrantRow(*row) for row in tx.all("list_grants", workflow_id=workflow_id))


def get_secret(tx: Transaction, connector: str, name: str) -> SecretRow:
    """Read a secret, sealed as it is (A5)."""
    found = tx.one("get_secret", connector=connector, name=name)
    return SecretRow(*_known(found, "no_secret", f"{connector}.{name}"))


def list_secrets(tx: Transaction) -> tuple[SecretRow, ...]:
    """Read every secret, sealed as they are (A5)."""
    return tuple(SecretRow(*row) for row in tx.all("list_secrets"))


def page(limit: object) -> int:
    """Return the size of a page, or refuse it."""
    if type(limit) is not int or not 1 <= limit <= PAGE_ROWS_MAX:
        raise Invalid(
            code="out_of_range",
            path="limit",
            facts={"given": short(limit), "least": 1, "most": PAGE_ROWS_MAX},
        )
    return limit


def _known(found: tuple[object, ...] | None, code: str, name: str) -> tuple[Any, ...]:
    if found is None:
        raise NotFound(code=code, subject=name)
    return found
