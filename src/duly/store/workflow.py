"""Workflows: deploy, propose, pause, run now, remove and secrets (W, A)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from duly.errors import NotFound, RequestRefused, Stale, see
from duly.rules.lifecycle import Counts, act, is_dropped_by_pause
from duly.rules.rename import Kept, Rename, Renamed, find_rename
from duly.rules.schedule import Schedule, next_run_at_on_deploy, parse, run_now_refusal
from duly.rules.value import decode, nearest
from duly.rules.verb import Scope, check_right, right_to_resume
from duly.rules.word import Act, Kind, Status
from duly.store import people, statements
from duly.store.base import Transaction, stale
from duly.store.granted import give_lacking
from duly.store.ingress import change_ingress, ingress_of
from duly.store.parameter import as_set
from duly.store.proposal import take_proposal
from duly.store.record import (
    Action,
    HandlerSpec,
    JournalEvent,
    Origin,
    TopicSpec,
    VersionSpec,
)
from duly.store.run import end_run, follow_run


@dataclass(frozen=True, slots=True)
class Deployment:
    """A version to activate; `replaces` is the one that must still be active, if there is one.

    `grants` are the capabilities a person gives with it, with no limit, each with the word for what
    was shown of it, if it was (A2). `adopts` is the proposal that it was, which ends with it (M6).
    """

    workflow_id: str
    name: str
    replaces: str | None
    version: VersionSpec
    handlers: tuple[HandlerSpec, ...]
    topics: tuple[TopicSpec, ...]
    grants: Mapping[str, str | None] = field(default_factory=dict)
    timezone: str = "UTC"  # of cron patterns that name none (S2)
    adopts: str | None = None


def deploy(
    tx: Transaction,
    deployment: Deployment,
    *,
    successor_id: str,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> str | None:
    """Activate a version (W8, W9); an open failed:logic run is followed and answered (F3)."""
    workflow_id, version = deployment.workflow_id, deployment.version
    if deployment.replaces is None:
        inserted = tx.one(
            "insert_workflow",
            id=workflow_id,
            name=deployment.name,
            version=version.version,
            now=now,
        )
        statements.must(inserted, f"The name {deployment.name}, which another workflow has,")
    else:
        standing = statements.look(tx, workflow_id)
        if version.origin is Origin.REPAIR:
            _check_repair(tx, workflow_id, standing)
        activated = tx.one(
            "activate_version",
            id=workflow_id,
            version=version.version,
            old_version=deployment.replaces,
        )
        statements.must(activated, f"Workflow {workflow_id}")
    if deployment.adopts is not None:
        take_proposal(tx, deployment.adopts)
    insert_version(tx, workflow_id, version, activated_at=now, now=now)
    declare(tx, deployment, now)
    give_lacking(tx, workflow_id, deployment.name, deployment.grants, by=action.by, now=now)
    statements.note(tx, action, now, workflow_id=workflow_id, target=version.version)
    followed = _follow_failed(tx, workflow_id, version.origin, successor_id, now)
    statements.announce(tx, announce, now)
    return followed


def find_renames(
    tx: Transaction,
    workflow_id: str,
    producers: Collection[str],
    topics: Collection[str],
) -> tuple[Rename, ...]:
    """Say what a version with these producers and worked topics would begin again (W9)."""
    here = {"workflow_id": workflow_id}
    had = (
        Kept(name, not orphaned, bool(has))
        for name, orphaned, has in tx.all("kept_producers", **here)
    )
    held = (
        Kept(name, not orphaned, bool(has), bool(consumer))
        for name, orphaned, consumer, has in tx.all("kept_topics", **here)
    )
    found = (
        find_rename(Renamed.PRODUCER, had, producers),
        find_rename(Renamed.TOPIC, held, topics),
    )
    return tuple(each for each in found if each is not None)


def find_other_name(tx: Transaction, path: str, name: str) -> str | None:
    """Return the active workflow that came from this file before, under another name (W9)."""
    found = tx.one("workflow_of_path", path=path, name=name)
    return None if found is None else str(found[0])


def keep_version(
    tx: Transaction,
    workflow_id: str,
    version: VersionSpec,
    *,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> None:
    """Keep a version that is not active: what a repair proposes to a person (F3)."""
    statements.look(tx, workflow_id)
    insert_version(tx, workflow_id, version, activated_at=None, now=now)
    statements.note(tx, action, now, workflow_id=workflow_id, target=version.version)
    statements.announce(tx, announce, now)


def decline_version(
    tx: Transaction, workflow_id: str, version: str, *, action: Action, now: int
) -> bool:
    """Note that a person turned a proposal down (F3); return whether it was not before."""
    name = statements.look(tx, workflow_id).name
    if people.get_version(tx, workflow_id, version).activated_at is not None:
        raise RequestRefused(
            code="no_proposal",
            subject=version,
            facts={"workflow": name},
            next=see("versions", workflow=name),
        )
    if people.find_target_actions(tx, workflow_id, (version,), "decline"):
        return False
    statements.note(tx, action, now, workflow_id=workflow_id, target=version)
    return True


def set_paused(
    tx: Transaction,
    workflow_id: str,
    *,
    is_paused: bool,
    action: Action,
    now: int,
    right: Scope = Scope.ADMIN,
) -> str | None:
    """Store that a person paused or resumed; return the run that the pause drops (F7).

    `right` is what the caller may do: not everyone resumes what was restored (G4).
    """
    statements.look(tx, workflow_id)
    if not is_paused:
        is_restored = people.get_workflow(tx, workflow_id).blind_since is not None
        check_right(action.verb, right, right_to_resume(is_restored=is_restored))
    tx.write("set_paused", id=workflow_id, paused=int(is_paused), now=now)
    statements.note(tx, action, now, workflow_id=workflow_id, target=None)
    open_run = tx.one("open_run", workflow_id=workflow_id)
    if not is_paused or open_run is None:
        return None
    run = statements.read_run(tx, open_run[0])
    if not is_dropped_by_pause(run.state):
        return None
    end_run(tx, run, act(run.state, Act.PAUSE), now)
    return run.id


def run_now(
    tx: Transaction, workflow_id: str, producer: str | None = None, *, action: Action, now: int
) -> int:
    """Make every producer due now, or the one that is named (S7, W2); return how many are."""
    standing = statements.look(tx, workflow_id)
    if producer is not None:
        names = [name for (name,) in tx.all("list_producers", workflow_id=workflow_id)]
        if producer not in names:
            raise NotFound(
                code="no_producer",
                subject=producer,
                facts={"workflow": standing.name, **nearest(producer, names)},
            )
    has_open_run = tx.one("open_run", workflow_id=workflow_id) is not None
    refusal = run_now_refusal(standing.name, has_open_run, standing.paused)
    if refusal is not None:
        raise refusal
    statements.note(tx, action, now, workflow_id=workflow_id, target=producer)
    return tx.run("run_now", workflow_id=workflow_id, producer=producer, now=now)


def remove(
    tx: Transaction,
    workflow_id: str,
    *,
    action: Action,
    now: int,
    announce: tuple[JournalEvent, ...] = (),
) -> tuple[str, ...]:
    """Take a workflow out of service; its history stays and its name is free (W10).

    Its webhooks are closed with it (G12); return the names of their secrets.
    """
    name = statements.look(tx, workflow_id).name
    if tx.one("open_run", workflow_id=workflow_id) is not None:
        raise RequestRefused(code="has_open_run", subject=name, next=see("why", id=name))
    listening = ingress_of(tx, workflow_id)
    tx.write("remove_workflow", id=workflow_id, now=now)
    tx.write("orphan_handlers", workflow_id=workflow_id)
    tx.write("orphan_topics", workflow_id=workflow_id)
    change_ingress(tx, workflow_id, listening, now=now)
    closed = tuple(each for (each,) in tx.all("drop_hooks_of", prefix=f"{name}/"))
    statements.note(tx, action, now, workflow_id=workflow_id, target=None)
    statements.announce(tx, announce, now)
    return closed


def reconnect(tx: Transaction, connector: str, *, action: Action, now: int) -> tuple[str, ...]:
    """Make every open run that waits for this connection due now (F4); return their ids."""
    statements.note(tx, action, now, workflow_id=None, target=connector)
    return tuple(
        run_id for (run_id,) in tx.all("wake_connected_runs", connector=connector, now=now)
    )


def set_secret(
    tx: Transaction,
    connector: str,
    name: str,
    sealed: str,
    *,
    over: str | None = None,
    action: Action,
    now: int,
) -> int:
    """Keep a sealed secret (A5); what it says is never written down as an action.

    With `over` it takes the place of that one alone, or of none (""). Every open run that waits for
    this connection is due now (F4). Return when it was set: later than the one before it, also when
    the clock was set back.
    """
    here = {"connector": connector, "name": name}
    put = tx.one("put_secret", **here, sealed=sealed, over=over, now=now)
    if put is None:
        raise stale(f"The secret {connector}.{name}")
    statements.note(tx, action, now, workflow_id=None, target=f"{connector}.{name}")
    tx.all("wake_connected_runs", connector=connector, now=now)
    return int(put[0])


def swap_secret(tx: Transaction, connector: str, name: str, before: str, sealed: str) -> bool:
    """Replace a sealed secret if it is still the one that was read; tell whether it was (K9, H12).

    Of two hosts that refresh a token one wins. When it was set does not change: it is the same
    sign-in, so what was proven with it stays proven (K10).
    """
    here = {"connector": connector, "name": name}
    return tx.run("reseal_secret", **here, old_sealed=before, sealed=sealed) == 1


def insert_version(
    tx: Transaction, workflow_id: str, version: VersionSpec, *, activated_at: int | None, now: int
) -> None:
    """Write a version, active or proposed; its number must be free (W8)."""
    inserted = tx.one(
        "insert_version",
        workflow_id=workflow_id,
        version=version.version,
        language=version.language,
        source=version.source,
        hash=version.hash,
        declaration=version.declaration,
        findings=version.findings,
        author=version.author,
        origin=version.origin,
        parent=version.parent,
        path=version.path,
        activated_at=activated_at,
        now=now,
    )
    statements.must(inserted, f"Version {version.version} of workflow {workflow_id}, which exists,")
    put_needs(tx, workflow_id, version)


def put_needs(tx: Transaction, workflow_id: str, version: VersionSpec) -> None:
    """Write which tools a version uses, for the hosts that may claim its workflow (H7)."""
    if version.needs:
        here = {"workflow_id": workflow_id, "version": version.version}
        tx.write("put_needs", **here, tools=as_set(version.needs))


def declare(tx: Transaction, deployment: Deployment, now: int) -> None:
    """Write handlers and topics; what the version no longer has is orphaned, never deleted (W9)."""
    workflow_id = deployment.workflow_id
    listening = ingress_of(tx, workflow_id)
    tx.write("orphan_handlers", workflow_id=workflow_id)
    tx.write("orphan_topics", workflow_id=workflow_id)
    for topic in deployment.topics:
        tx.write(
            "put_topic",
            workflow_id=workflow_id,
            name=topic.name,
            consumer=topic.consumer,
            ingress=int(topic.ingress),
            bus_topic=topic.bus_topic,
        )
    change_ingress(tx, workflow_id, listening, now=now)
    number = statements.take(tx, workflow_id)
    for handler in deployment.handlers:
        tx.write(
            "put_handler",
            workflow_id=workflow_id,
            name=handler.name,
            kind=handler.kind,
            position=handler.position,
            schedule=handler.schedule,
            next_run_at=_next_run_at(tx, workflow_id, handler, deployment.timezone, now),
            changed=number,
            now=now,
        )


def _next_run_at(
    tx: Transaction, workflow_id: str, handler: HandlerSpec, timezone: str, now: int
) -> int | None:
    """Ask the rules when a producer is due under the new version (W9)."""
    if handler.kind is not Kind.PRODUCER:
        return None
    found = tx.one("get_handler", workflow_id=workflow_id, name=handler.name)
    stored, planned = None, None
    if found is not None and found[1] == Kind.PRODUCER:
        stored, planned = _schedule(found[4]), found[6]
    return next_run_at_on_deploy(stored, _schedule(handler.schedule), planned, now, timezone)


def _schedule(text: str | None) -> Schedule:
    return parse(None if text is None else decode(text))


def _check_repair(tx: Transaction, workflow_id: str, standing: statements.WorkflowFacts) -> None:
    """Refuse a repair where a person was faster: it paused, or nothing waits for one (F3, F7)."""
    open_run = tx.one("open_run", workflow_id=workflow_id)
    if standing.paused or open_run is None or open_run[1] != Status.FAILED_LOGIC:
        raise Stale(code="no_repair_wanted", subject=standing.name)


def _follow_failed(
    tx: Transaction, workflow_id: str, origin: Origin, successor_id: str, now: int
) -> str | None:
    """Give an open failed:logic run its successor under the new version (F3)."""
    open_run = tx.one("open_run", workflow_id=workflow_id)
    if open_run is None or open_run[1] != Status.FAILED_LOGIC:
        return None
    run = statements.read_run(tx, open_run[0])
    # Only a person's act lets the counts begin again; a repair was counted when it was asked for.
    counts = run.counts if origin is Origin.REPAIR else Counts()
    follow_run(tx, run, act(run.state, Act.DEPLOY), successor_id, counts, now)
    return run.id
