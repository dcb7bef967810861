"""Forgetting one input: its contents and all that came of it are erased in one transaction (H5).

Law 1: everything that came of the input is over, or nothing is erased and the refusal says what is
       not. What came of it is read in the transaction that erases it.
Law 2: rows stay. A row of the ledger that was whole is sealed again without its texts, so that a
       check finds nothing (L15); one that was not whole stays named by every check.
Law 3: what is erased is overwritten in the database (`secure_delete`). The caller sees to the log.

Events point at a content below zero, whose title says when and by whom they were erased. The state
of a handler stays: it decides what is done next. So do the message ids (T5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from duly.errors import NotFound, RequestRefused, see
from duly.fact import Offer
from duly.rules.deferral import DeferredStatus
from duly.rules.delivery import OWN_SOURCE
from duly.rules.forgetting import (
    ERASED_ARGS,
    TITLES_MAX,
    Forgettable,
    Forgotten,
    NotOver,
    OtherCopy,
    as_key,
    blobs_named,
    erased_log,
    erased_payload,
    is_common,
    naming,
    say_erased,
    titling,
)
from duly.rules.retention import FINAL
from duly.rules.seal import Part, is_imported, make_seal, renew_parts
from duly.rules.value import Json
from duly.store import blob, people, seal, statements
from duly.store.base import Transaction
from duly.store.parameter import as_set
from duly.store.record import Action, MutationRow

EVENTS_MAX: Final = 1_000  # of one input
RUNS_MAX: Final = 10_000  # of one input; all are erased in one transaction
BUS_EVENTS_MAX: Final = 1_000
CAUSES_MAX: Final = 32  # rounds along the causes of bus events; a chain of them is shorter (B12)
BACKUPS_MAX: Final = 20
NONE: Final = ""  # a pattern that finds nothing: no text that is kept is empty


@dataclass(frozen=True, slots=True)
class _Traced:
    """An event that came of the input, or the input."""

    seq: int
    topic: str
    message_id: str
    status: str
    content: int
    beside: int | None
    is_work: int


@dataclass(frozen=True, slots=True)
class _Extent:
    """All that is erased together."""

    workflow_id: str
    root: int
    topic: str
    message_id: str
    since: int
    looked: Mapping[str, str]
    events: tuple[_Traced, ...]
    chains: tuple[str, ...]
    runs: tuple[str, ...]
    rows: tuple[MutationRow, ...]
    bus_events: tuple[int, ...]
    deferred: tuple[int, ...]


def forget(
    tx: Transaction,
    workflow_id: str,
    seq: int,
    *,
    action: Action,
    now: int,
    events_max: int = EVENTS_MAX,
    runs_max: int = RUNS_MAX,
) -> Forgotten:
    """Erase the contents of an input and of all that came of it; keys, digests and seals stay."""
    name = statements.look(tx, workflow_id).name
    tx.all("move_forgotten", by=1)  # a file that is being written now does not stay
    extent = _measure(tx, workflow_id, seq, events_max, runs_max)
    _refuse_open(tx, extent, now)
    flawed = _check_key(tx, extent)
    elsewhere = _list_copies(tx, extent)
    before = _find_erased(tx, workflow_id, seq)
    sentence = say_erased(action.by, now)
    tx.write("put_erased", workflow_id=workflow_id, content=-seq, title=sentence)
    ((sentence,),) = tx.all("get_erased", workflow_id=workflow_id, content=-seq)
    digests = _read_blobs(tx, extent)
    for event in extent.events:
        _erase_event(tx, extent, event, now)
    for run_id in extent.runs:
        tx.change("erase_run", f"Run {run_id}", id=run_id, logs=erased_log(sentence, now))
    for row in extent.rows:
        _erase_row(tx, row, sentence, is_whole=row.id not in flawed)
        _erase_words(tx, row, action, now)
    tx.write("erase_recordings", workflow_id=workflow_id)
    asked = {"chains": as_set(extent.chains), "run_ids": as_set(extent.runs)}
    questions = tx.run("erase_questions", workflow_id=workflow_id, **asked)
    _erase_bus(tx, extent, erased_payload(sentence))
    kept = tuple(each for each in sorted(digests) if blob.is_named(tx, workflow_id, each))
    blobs = sum(
        tx.run("erase_blob", workflow_id=workflow_id, digest=each)
        for each in sorted(digests - {*kept})
    )
    target = f"{extent.topic}/{extent.message_id}"
    statements.note(tx, action, now, workflow_id=workflow_id, target=target)
    states = tx.all("list_naming_states", workflow_id=workflow_id, **extent.looked)
    backups = tx.all("list_backups_since", since=extent.since, limit=BACKUPS_MAX)
    return Forgotten(
        name,
        extent.topic,
        extent.message_id,
        events=len(extent.events),
        runs=len(extent.runs),
        mutations=len(extent.rows),
        bus_events=len(extent.bus_events) + len(extent.deferred),
        questions=questions,
        blobs=blobs,
        kept_blobs=len(kept),
        states=tuple(each for (each,) in states),
        elsewhere=elsewhere,
        backups=tuple(each for (each,) in backups),
        is_looked_for=not is_common(extent.message_id),
        erased_before=before,
    )


def foresee(tx: Transaction, workflow_id: str, seq: int, now: int) -> Forgettable:
    """Tell what `forget` would erase at this moment, or refuse as it would; change nothing."""
    name = people.get_workflow(tx, workflow_id).name
    extent = _measure(tx, workflow_id, seq, EVENTS_MAX, RUNS_MAX)
    _refuse_open(tx, extent, now)
    _check_key(tx, extent)
    root, *others = (
        tx.one("get_erased", workflow_id=workflow_id, content=each.content)
        for each in extent.events[: TITLES_MAX + 1]
    )
    return Forgettable(
        name,
        extent.topic,
        extent.message_id,
        "" if root is None else root[0],
        _find_erased(tx, workflow_id, seq),
        len(extent.events),
        len(extent.runs),
        len(extent.rows),
        len(extent.bus_events) + len(extent.deferred),
        tuple(each[0] for each in others if each is not None),
        tuple(each.title or each.tool for each in extent.rows[:TITLES_MAX]),
    )


def _find_erased(tx: Transaction, workflow_id: str, seq: int) -> str | None:
    """Return what stands where an input stood that was erased before."""
    found = tx.one("get_erased", workflow_id=workflow_id, content=-seq)
    return None if found is None else found[0]


# -- What came of it ----------------------------------------------------------------------------


def _measure(
    tx: Transaction, workflow_id: str, seq: int, events_max: int, runs_max: int
) -> _Extent:
    found = tx.one("get_forgettable", workflow_id=workflow_id, seq=seq)
    if found is None:
        raise NotFound(code="no_input", subject=str(seq), facts={"workflow": workflow_id})
    topic, message_id, title, since, bus_event = found
    _refuse_derived(tx, workflow_id, seq, (topic, message_id))
    here = {"workflow_id": workflow_id, "root": seq}
    events = tuple(_Traced(*row) for row in tx.all("list_traced", **here, limit=events_max + 1))
    if len(events) > events_max:
        raise _too_much(message_id, events_max, "events")
    # A text that was erased before is looked for no more.
    is_first = events[0].content > 0
    looked = {
        "naming": naming(message_id),
        "as_key": as_key(message_id),
        "titling": (titling(title) if is_first else None) or NONE,
    }
    known = {**looked, "naming": NONE} if is_common(message_id) else looked
    spoken = tx.all("list_naming_chains", workflow_id=workflow_id, **known)
    chains = tuple(sorted({each for (each,) in (*tx.all("list_traced_chains", **here), *spoken)}))
    runs: list[str] = []
    for chain in chains:
        for run_id, is_open, _, _, status in tx.all("chain_runs", first=chain):
            if is_open:
                raise _still(NotOver.RUN, run_id, message_id, see("run", run=run_id))
            if status is not None and status not in FINAL:
                raise _still(NotOver.MUTATION, run_id, message_id, see("run", run=run_id))
            runs.append(run_id)
        if len(runs) > runs_max:
            raise _too_much(message_id, runs_max, "runs")
    rows = (tx.one("get_made_mutation", run_id=each) for each in runs)
    made = tuple(people.get_mutation(tx, row[0]) for row in rows if row is not None)
    told, put_off = _list_told(tx, runs, bus_event)
    return _Extent(
        workflow_id,
        seq,
        topic,
        message_id,
        since,
        looked,
        events,
        chains,
        tuple(runs),
        made,
        told,
        put_off,
    )


def _refuse_derived(tx: Transaction, workflow_id: str, seq: int, name: tuple[str, str]) -> None:
    """Refuse an event that came of others: of those only one may be meant (T9)."""
    roots = people.list_causes(tx, workflow_id, seq)
    if roots and name not in roots:
        inputs = [f"{topic}/{message_id}" for topic, message_id in roots]
        raise RequestRefused(code="not_an_input", subject=name[1], facts={"inputs": inputs})


def _list_told(
    tx: Transaction, runs: Iterable[str], bus_event: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """List the events of the bus that tell of these runs, what followed them, and the source."""
    here = {"limit": BUS_EVENTS_MAX}
    told = [
        each for (each,) in tx.all("list_told", source=OWN_SOURCE, run_ids=as_set(runs), **here)
    ]
    found, put_off = dict.fromkeys(told), dict[int, None]()
    for _ in range(CAUSES_MAX):
        if not told:
            break
        causes = as_set(f"bus:{each}" for each in told)
        for number, status in tx.all(
            "list_deferred_after", causes=causes, event_ids=as_set(told), **here
        ):
            if status == DeferredStatus.SCHEDULED:
                raise _still(NotOver.DEFERRED, str(number), f"bus:{told[0]}", see("bus.deferred"))
            put_off[number] = None
        after = tx.all("list_told_after", causes=causes, **here)
        told = [each for (each,) in after if each not in found]
        found |= dict.fromkeys(told)
    if bus_event is not None:
        found[bus_event] = None
    return tuple(sorted(found)), tuple(sorted(put_off))


def _refuse_open(tx: Transaction, extent: _Extent, now: int) -> None:
    """Refuse while anything of it is still to be done (law 1)."""
    for event in extent.events:
        if event.is_work:
            here = f"{event.topic}/{event.message_id}"
            raise _still(NotOver.EVENT, here, extent.message_id, see("attention"))
    untold = tx.one("list_untold", event_ids=as_set(extent.bus_events))
    if untold is not None:
        offer = see("bus.deliveries")
        raise _still(NotOver.DELIVERY, f"bus:{untold[0]}", extent.message_id, offer)
    for row in extent.rows:
        for allowance_id, is_live in tx.all("list_allowances_of", mutation_id=row.id, now=now):
            if is_live:
                offer = see("revoke_allowance", allowance=allowance_id)
                raise _still(NotOver.ALLOWANCE, allowance_id, extent.message_id, offer)


def _too_much(message_id: str, limit: int, unit: str) -> RequestRefused:
    facts: dict[str, Json] = {"limit": limit, "unit": unit}
    return RequestRefused(code="too_much_came_of_it", subject=message_id, facts=facts)


def _still(what: NotOver, which: str, message_id: str, offer: Offer) -> RequestRefused:
    facts = {"what": what.value, "which": which}
    return RequestRefused(code="still_open", subject=message_id, facts=facts, next=offer)


def _check_key(tx: Transaction, extent: _Extent) -> dict[str, seal.Flawed]:
    """Return the rows that are not whole now; without the key none could be sealed again."""
    if not extent.rows:
        return {}
    if tx.seal_key is None:
        raise RequestRefused(code="no_key_to_seal", subject=extent.message_id)
    return seal.check_rows(tx, tx.seal_key, extent.rows)


def _list_copies(tx: Transaction, extent: _Extent) -> tuple[OtherCopy, ...]:
    return tuple(
        OtherCopy(*row)
        for each in extent.bus_events
        for row in tx.all(
            "list_other_copies",
            event_id=each,
            workflow_id=extent.workflow_id,
            message_id=f"bus:{each}",
        )
    )


def _read_blobs(tx: Transaction, extent: _Extent) -> frozenset[str]:
    """List the blobs that anything of it names, before its texts are gone (K15)."""
    here = {"workflow_id": extent.workflow_id}
    found: set[str] = set()
    for event in extent.events:
        contents = {each for (each,) in tx.all("list_shown_contents", **here, seq=event.seq)}
        for content in {*contents, event.content, event.beside or event.content}:
            body = tx.one("get_body", **here, content=content)
            found |= blobs_named(body or ())
    for run_id in extent.runs:
        found |= blobs_named(tx.one("get_run_texts", id=run_id) or ())
    for row in extent.rows:
        found |= blobs_named((row.args, row.args_proposed, row.result))
    return frozenset(found)


# -- What is erased -----------------------------------------------------------------------------


def _erase_event(tx: Transaction, extent: _Extent, event: _Traced, now: int) -> None:
    here = {"workflow_id": extent.workflow_id, "seq": event.seq}
    tx.write("drop_pinned_payloads", **here)
    for content in (event.content, event.beside):
        if content is not None and content > 0:
            tx.write("drop_payload", workflow_id=extent.workflow_id, content=content)
    tx.write("erase_pins", **here, erased=-extent.root)
    tx.write("erase_event", **here, erased=-extent.root)
    tx.write("end_output", **here, now=now)


def _erase_row(tx: Transaction, row: MutationRow, sentence: str, *, is_whole: bool) -> None:
    bare = replace(row, title=sentence, known_said=None, late=None, handle=None)
    digests, begun, end = row.digests, row.seal, row.end_seal
    if is_whole:
        key = tx.seal_key
        assert key is not None, row.id
        assert digests is not None, row.id
        digests = renew_parts(digests, {Part.TITLE: sentence, Part.LATE: None})
        mark = is_imported(row.end_seal)
        begun = make_seal(key, bare.facts, is_imported=mark)
        end = make_seal(key, seal.end_facts(bare, digests), is_imported=mark)
    tx.change(
        "erase_mutation",
        f"Mutation {row.id}",
        id=row.id,
        args=ERASED_ARGS,
        title=sentence,
        digests=digests,
        begun=begun,
        seal=end,
        old_seal=row.end_seal,
        old_begun=row.seal,
    )


def _erase_words(tx: Transaction, row: MutationRow, action: Action, now: int) -> None:
    """Erase what people said about a call, and the arguments that an allowance kept."""
    tx.write("erase_details", target=row.id)
    for allowance_id, _ in tx.all("list_allowances_of", mutation_id=row.id, now=now):
        tx.write("erase_allowance", id=allowance_id, by=action.by, now=now)


def _erase_bus(tx: Transaction, extent: _Extent, payload: str) -> None:
    for event_id in extent.bus_events:
        tx.write("erase_deliveries", event_id=event_id)
        tx.write("erase_journal_event", id=event_id, payload=payload)
    for number in extent.deferred:
        tx.write("erase_deferred", id=number, payload=payload)
