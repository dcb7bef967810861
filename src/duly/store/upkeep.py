"""Looking after a store: retention, the mark of a copy, secrets that are needed no more (H5).

Law 1: retention goes through the store in turns. A turn is one transaction over a few dozen rows,
       so no caller waits long for it, and a crash between two turns loses nothing.
Law 2: a turn looks at what is there now. What became open since the last turn is left alone.
Law 3: a turn that is taken again finds nothing more to do.

An event goes before the runs that worked on it: its contents are removed, also those only a run was
shown, and it points at content 0, which says that it was removed. A chain of runs goes when none
of its runs pins anything any more. If it made no mutation its rows are deleted; else the ledger
names them, and their skeletons stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from duly.errors import NotFound, RequestRefused, see
from duly.rules import retention
from duly.rules.blind import BlindCause
from duly.rules.deferral import DeferredStatus
from duly.rules.retention import ChainRun, Tidied
from duly.rules.word import MutationStatus
from duly.store import bus, statements
from duly.store.base import Transaction
from duly.store.record import Action

ROWS_PER_TURN: Final = 50  # some five milliseconds
TIDIED: Final = "tidied"
COPIED: Final = "copied"  # this store is a copy, of this moment
LOST: Final = "lost"  # this store has lost its log, and with it what was done after this moment
LOST_LAST: Final = "lost last"  # the same, once everything is paused; kept for those who ask why
BLIND: Final = (
    "blind "  # followed by a cause and a moment: why what is blind since then is so (H10)
)
MET: Final = "met "  # since which start of the server a host has compared what it was told (H10)
TIMELINE: Final = "timeline"  # of the server, as it was seen last (H10)
EVICTED: Final = (
    "evicted "  # followed by the id of a host: since when it is not here any more (H10)
)
LEFT: Final = "left "  # the same of one that has closed
UNSEALED: Final = "unsealed"  # rows of a schema without seals have none yet (L15)
FORGOTTEN: Final = "forgotten"  # followed by no moment: how often (H5)
LOG_LOST: Final = "the log of the store was lost"


class Section(StrEnum):
    """What a turn of retention goes through, in this order for every workflow, then the bus."""

    WORKFLOWS = "workflows"
    EVENTS = "events"
    RUNS = "runs"
    JOURNAL = "journal"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class TidyTurn:
    """Where retention goes on: behind this key, of this workflow where there is one."""

    place: Section = Section.WORKFLOWS
    workflow_id: str = ""
    after: int | str = 0


@dataclass(frozen=True, slots=True)
class Turned:
    """What a turn removed, and the next one; none is left when everything was gone through."""

    tidied: Tidied
    next: TidyTurn | None


def tidy(
    tx: Transaction, turn: TidyTurn, *, before: int, now: int, limit: int = ROWS_PER_TURN
) -> Turned:
    """Take one turn of retention over finished history that ended before a moment."""
    if turn.place is Section.WORKFLOWS:
        return Turned(Tidied(), _next_workflow(tx, turn.workflow_id))
    if turn.place is Section.DEFERRED:
        return _tidy_deferred(tx, before, now, limit)
    return _WALKS[turn.place](tx, turn, before, limit)


def tidied_at(tx: Transaction) -> int | None:
    """Read when retention last went through everything."""
    found = tx.one("get_upkeep", name=TIDIED)
    return None if found is None else int(found[0])


def count_forgotten(tx: Transaction) -> int:
    """Count how often something was forgotten."""
    found = tx.one("get_upkeep", name=FORGOTTEN)
    return 0 if found is None else int(found[0])


def note_act(
    tx: Transaction,
    *,
    target: str | None,
    action: Action,
    now: int,
    forgotten: int | None = None,
) -> None:
    """Write down an act on the store as a whole (A6).

    With `forgotten`, how often that was when a file was begun, a file that may show something that
    was forgotten since is refused: the person was not told of it.
    """
    if forgotten is not None and tx.all("move_forgotten", by=0) != [(forgotten,)]:
        raise RequestRefused(code="forgotten_meanwhile", subject=str(target))
    statements.note(tx, action, now, workflow_id=None, target=target)


def note_restore(
    tx: Transaction,
    *,
    action: Action,
    now: int,
    cause: BlindCause | None = None,
    is_spared: Callable[[str], bool] = lambda _: False,
) -> int | None:
    """Pause every workflow of a store that is a copy, hold back its bus, return what it shows.

    What was done since then is not known here; a store whose log was lost is like a copy. From now
    on it is a store like any other. With a cause its host knows that it has lost something, and
    the store does not (H10); a workflow that `is_spared` is not concerned.
    """
    if cause is not None:
        ((newest,),) = tx.all("newest_moment")
        tx.write("put_upkeep", name=COPIED, at=now if newest is None else min(newest, now))
    copied, lost = (tx.one("get_mark", name=name) for name in (COPIED, LOST))
    times = [int(mark[0]) for mark in (copied, lost) if mark is not None]
    if not times:
        return None
    since = min(times)
    for name in (COPIED, LOST):
        tx.write("drop_upkeep", name=name)
    if copied is None:
        tx.write("put_upkeep", name=LOST_LAST, at=since)
        action = replace(action, detail=LOG_LOST)
    bus.hold(tx, since, now=now)
    if cause is not None:
        put_cause(tx, cause, since)
    # A later send may be among what is lost, also where a workflow is spared (L6).
    tx.write("doubt_ends")
    # One of these may have been taken back since (G6, A3, G11, G12), or proven wrong (K10).
    tx.write("drop_all_gone")
    tx.write("drop_tokens")
    tx.write("drop_pairings")
    tx.write("close_slips", now=now)
    tx.write("doubt_proofs")
    tx.write("drop_hooks")
    tx.write("end_allowances", by=action.by, now=now)
    turn = _next_workflow(tx, "")
    while turn.place is Section.EVENTS:
        workflow_id = turn.workflow_id
        if is_spared(workflow_id):
            turn = _next_workflow(tx, workflow_id)
            continue
        if tx.one("blind_workflow", id=workflow_id, since=since, now=now) is not None:
            tx.write("doubt_approved", workflow_id=workflow_id, since=since, now=now)
            tx.write("doubt_unblocked", workflow_id=workflow_id, now=now)
            own = replace(action, id=f"{action.id}_{workflow_id}")
            statements.note(tx, own, now, workflow_id=workflow_id, target=None)
        turn = _next_workflow(tx, workflow_id)
    return since


def put_cause(tx: Transaction, cause: BlindCause, since: int) -> None:
    """Keep why workflows are blind since a moment, as long as one of them is."""
    if cause is BlindCause.LOST_WRITES and tx.one("get_timeline") != (tx.timeline,):
        cause = BlindCause.STANDBY_BEHIND
    tx.write("drop_blind")
    tx.write("put_upkeep", name=f"{BLIND}{cause} {since}", at=since)


def list_blind(tx: Transaction) -> dict[int, BlindCause]:
    """Return why what is blind since a moment is so; a moment that is missing is of a backup."""
    found: dict[int, BlindCause] = {}
    for name, since in tx.all("list_blind"):
        cause = BlindCause.LOST_LOG if name == LOST_LAST else BlindCause(name.split()[1])
        # What is known to be missing says more than what may be.
        if found.get(since) in (None, BlindCause.PROMOTION):
            found[since] = cause
    return found


def drop_secret(tx: Transaction, connector: str, name: str, *, action: Action, now: int) -> None:
    """Forget a secret (A5)."""
    if not tx.run("drop_secret", connector=connector, name=name):
        raise NotFound(code="no_secret", subject=f"{connector}.{name}", next=see("secrets"))
    statements.note(tx, action, now, workflow_id=None, target=f"{connector}.{name}")


# -- The turns ----------------------------------------------------------------------------------


def _next_workflow(tx: Transaction, after: str) -> TidyTurn:
    found = tx.one("next_workflow", after=after)
    return TidyTurn(Section.JOURNAL) if found is None else TidyTurn(Section.EVENTS, found[0])


def _tidy_events(tx: Transaction, turn: TidyTurn, before: int, limit: int) -> Turned:
    workflow_id = turn.workflow_id
    here = {"workflow_id": workflow_id, "after": turn.after}
    ((upto, since),) = tx.all("event_turn", **here, limit=limit)
    if upto is None or since >= before:
        return Turned(Tidied(), TidyTurn(Section.RUNS, workflow_id, ""))
    horizon = _horizon(tx, workflow_id, before)
    old = tx.all("old_events", **here, upto=upto, horizon=horizon)
    if old:
        tx.write("put_removed", workflow_id=workflow_id, title=retention.REMOVED)
    for seq, content in old:
        tx.write("drop_pinned_payloads", workflow_id=workflow_id, seq=seq)
        tx.write("drop_payload", workflow_id=workflow_id, content=content)
        tx.write("unpin_event", workflow_id=workflow_id, seq=seq)
        tx.write("empty_event", workflow_id=workflow_id, seq=seq, content=content)
    return Turned(Tidied(events=len(old)), replace(turn, after=upto))


def _tidy_runs(tx: Transaction, turn: TidyTurn, before: int, limit: int) -> Turned:
    workflow_id = turn.workflow_id
    here = {"workflow_id": workflow_id, "after": turn.after}
    ((upto, since),) = tx.all("run_turn", **here, limit=limit)
    if upto is None or since >= before:
        return Turned(Tidied(), TidyTurn(Section.WORKFLOWS, workflow_id))
    horizon = _horizon(tx, workflow_id, before)
    tidied = Tidied()
    for (first,) in tx.all("old_chains", **here, upto=upto, horizon=horizon):
        chain = _read_chain(tx, first)
        if retention.is_over(chain, horizon):
            tx.write("tidy_recording", workflow_id=workflow_id, chain=first)
            tidied += (_empty if retention.keeps_skeleton(chain) else _drop)(tx, chain)
    return Turned(tidied, replace(turn, after=upto))


def _tidy_journal(tx: Transaction, turn: TidyTurn, before: int, limit: int) -> Turned:
    ((upto, since),) = tx.all("journal_turn", after=turn.after, limit=limit)
    if upto is None or since >= before:
        return Turned(Tidied(), TidyTurn(Section.DEFERRED))
    old = tx.all("old_journal", after=turn.after, upto=upto, before=before)
    for (event_id,) in old:
        tx.write("drop_deliveries", event_id=event_id)
        tx.write("drop_journal_event", id=event_id)
    return Turned(Tidied(bus_events=len(old)), replace(turn, after=upto))


def _tidy_deferred(tx: Transaction, before: int, now: int, limit: int) -> Turned:
    count = sum(
        tx.run("drop_deferred", status=status, before=before, limit=limit)
        for status in (DeferredStatus.FIRED, DeferredStatus.CANCELLED)
    )
    slips = tx.run("drop_slips", before=before, limit=limit)
    asked = tx.run("drop_questions", before=before, limit=limit)
    if count or slips or asked:
        return Turned(Tidied(deferred=count), TidyTurn(Section.DEFERRED))
    tx.write("put_upkeep", name=TIDIED, at=now)
    return Turned(Tidied(), None)


_Walk = Callable[[Transaction, TidyTurn, int, int], Turned]
_WALKS: Final[dict[Section, _Walk]] = {
    Section.EVENTS: _tidy_events,
    Section.RUNS: _tidy_runs,
    Section.JOURNAL: _tidy_journal,
}


def _horizon(tx: Transaction, workflow_id: str, before: int) -> int:
    ((since,),) = tx.all("open_chain_since", workflow_id=workflow_id)
    return retention.horizon_ms(before, since)


def _read_chain(tx: Transaction, first: str) -> tuple[ChainRun, ...]:
    rows = tx.all("chain_runs", first=first)
    return tuple(
        ChainRun(run_id, bool(is_open), at, bool(pins), MutationStatus(row) if row else None)
        for run_id, is_open, at, pins, row in rows
    )


def _drop(tx: Transaction, chain: tuple[ChainRun, ...]) -> Tidied:
    # A successor names the run it follows, so the last one goes first.
    for run in reversed(chain):
        tx.write("drop_reservations", run_id=run.id)
        tx.write("drop_run", id=run.id)
    return Tidied(runs=len(chain))


def _empty(tx: Transaction, chain: tuple[ChainRun, ...]) -> Tidied:
    mutations = 0
    for run in chain:
        tx.write("empty_run", id=run.id)
        mutations += tx.run(
            "empty_mutation",
            run_id=run.id,
            args=retention.REMOVED_ARGS,
            title=retention.REMOVED,
        )
    return Tidied(runs=len(chain), mutations=mutations)
