"""Seals of ledger rows that ended: made in the transaction that ends them, checked later (L15).

Law 1  A row that ends is sealed in the same transaction, unless it was changed before, or the key
       is not here. A row without this seal is named by every check.
Law 2  Retention and successors leave the seal valid: it covers digests, which stay on the row.
Law 3  A check sees what was changed in a row: of an open one its call and the names of its inputs,
       of one that ended all that it tells. It cannot see that a whole row was removed, nor that
       another program removed exactly what retention removes.
Law 4  An answer that comes late changes a row that has ended. The row is sealed again with it, if
       it was whole before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from duly.errors import Invalid, Stale
from duly.rules.ledger import inputs_digest
from duly.rules.seal import (
    EndFacts,
    Flaw,
    Part,
    Texts,
    digest_parts,
    find_changed_parts,
    is_imported,
    judge,
    make_seal,
    observe,
    renew_parts,
)
from duly.rules.value import decode, digest
from duly.store.base import Row, Transaction
from duly.store.parameter import as_set
from duly.store.record import AllowanceRow, MutationRow
from duly.store.tally import note_tool

PAGE_ROWS: Final = 200
SEALED_WITH: Final = (
    "sealed with "  # followed by the name of a key, while the key is being replaced (H12)
)
CONTENTS_CHARS_MAX: Final = 16 * 1024 * 1024  # read at once; a single run may have more

Contents = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Flawed:
    """A row whose seal does not fit; `parts` names what differs from its digest."""

    id: str
    workflow_id: str
    flaw: Flaw
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class EndSeal:
    """The seals of one ended row under another key."""

    id: str
    old: str | None
    digests: str
    begun: str
    end: str


# -- Making seals -------------------------------------------------------------------------------


def seal_end(tx: Transaction, run_id: str) -> None:
    """Seal the row that a run holds, if it has just ended and is whole."""
    found = tx.one("get_held_mutation", held_by=run_id)
    assert found is not None, run_id
    row, key = MutationRow(*found), tx.seal_key
    note_tool(run_id, row.tool)
    if not row.has_ended or key is None:
        return
    contents = _kept_contents(tx, run_id)
    if not _is_whole(tx, key, row, contents):
        return
    digests = digest_parts(_texts(row, contents))
    seal = make_seal(key, end_facts(row, digests))
    here = {"id": row.id, "status": row.status}
    tx.change("seal_end", f"Mutation {row.id}", **here, digests=digests, seal=seal)


def seal_late(tx: Transaction, row: MutationRow, late: str) -> None:
    """Seal an ended row again with what came late, if it was whole before (L1, L15)."""
    key = tx.seal_key
    if key is None or check_rows(tx, key, (row,)):
        return
    digests = renew_parts(str(row.digests), {Part.LATE: late})
    here = {"id": row.id, "old_seal": row.end_seal, "digests": digests, "begun": row.seal}
    seal = make_seal(key, end_facts(row, digests), is_imported=is_imported(row.end_seal))
    tx.change("reseal_end", f"Mutation {row.id}", **here, seal=seal)


def end_facts(row: MutationRow, digests: str) -> EndFacts:
    """Return what the seal of its end covers, with these digests of its texts (L15)."""
    return EndFacts(
        row.facts,
        row.run_id,
        row.created_at,
        row.status,
        bool(row.refused),
        row.attempt,
        row.resends,
        row.first_sent_at,
        row.sent_at,
        row.known_how,
        row.known_at,
        row.known_by,
        row.known_said,
        digests,
    )


def _is_whole(tx: Transaction, key: bytes, row: MutationRow, contents: Contents) -> bool:
    """Tell whether a row is still what the host wrote (L11)."""
    if judge(key, row.facts, row.seal) is not None:
        return False
    found = tx.one("get_prepared", id=row.held_by)
    assert found is not None, row.held_by
    handler, prepared = found
    return _has_its_call(row, prepared) and _has_its_inputs(row, handler, contents)


def _has_its_call(row: MutationRow, prepared: str | None) -> bool:
    """Tell whether the call of a row is still the one its hash was made of (L11)."""
    return observe(row.tool, row.args, prepared) == row.hash


def _has_its_inputs(row: MutationRow, handler: str, contents: Iterable[Row]) -> bool:
    """Tell whether a row still has the inputs that its seal names (L7)."""
    try:
        inputs = ((topic, message_id) for topic, message_id, *_ in contents)
        return inputs_digest(row.workflow_id, handler, inputs) == row.inputs
    except (TypeError, ValueError):  # another program can write what is no text
        return False


def _kept_contents(tx: Transaction, run_id: str) -> Contents:
    rows = tx.all("list_contents", run_ids=as_set([run_id]))
    return tuple((topic, message_id, kept) for _, topic, message_id, kept, *_ in rows)


def _texts(row: MutationRow, contents: Contents | None) -> Texts:
    return Texts(
        row.args,
        row.result,
        row.error,
        contents,
        title=row.title,
        proposed=row.args_proposed,
        promise=(row.lag_ms, row.timeout_ms, row.key_lifetime_ms),
        resent=row.is_resent,
        late=row.late,
    )


# -- Checking seals -----------------------------------------------------------------------------


def find_flaws(tx: Transaction, key: bytes | None, limit: int) -> tuple[Flawed, ...]:
    """Check the seal of every row of the ledger and of every allowance; name those that fail."""
    found: list[Flawed] = []
    for rows in walk(tx):
        found += check_rows(tx, key, rows).values()
        if len(found) >= limit:
            break
    for allowance in (AllowanceRow(*row) for row in tx.all("live_allowances")):
        flaw = Flaw.OTHER_KEY if key is None else judge(key, allowance.facts, allowance.seal)
        if flaw is not None and len(found) < limit:
            found.append(Flawed(allowance.id, allowance.workflow_id, flaw))
    return tuple(found[:limit])


def walk(tx: Transaction) -> Iterator[tuple[MutationRow, ...]]:
    """Go through the whole ledger, a page at a time."""
    after = ""
    while page := tx.all("walk_mutations", after=after, limit=PAGE_ROWS):
        yield tuple(MutationRow(*row) for row in page)
        after = page[-1][0]


def check_rows(
    tx: Transaction, key: bytes | None, rows: Iterable[MutationRow]
) -> dict[str, Flawed]:
    """Check rows: the seals of their call and of their end, and that what they cover is there.

    An open row has no digests yet: its call is compared with its hash. The inputs of every row are
    compared with the name that its seal covers.
    """
    flawed: dict[str, Flawed] = {}
    sealed: dict[str, MutationRow] = {}
    for row in rows:
        flaw = Flaw.OTHER_KEY if key is None else _judge(key, row)
        if flaw is not None:
            flawed[row.id] = Flawed(row.id, row.workflow_id, flaw)
        else:
            sealed[row.held_by] = row
    runs = _read_runs(tx, sealed)
    for run_id, contents in _contents_now(tx, sealed):
        row, (handler, prepared) = sealed[run_id], runs.get(run_id, ("", None))
        parts = _find_changed_parts(row, handler, contents)
        if parts or not (row.has_ended or _has_its_call(row, prepared)):
            flawed[row.id] = Flawed(row.id, row.workflow_id, Flaw.CHANGED, parts)
    return flawed


def _read_runs(tx: Transaction, run_ids: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """Read of each run its handler and, while it is open, what its call was made from."""
    rows = tx.all("list_prepared", run_ids=as_set(run_ids))
    return {run_id: (handler, prepared) for run_id, handler, prepared in rows}


def _find_changed_parts(
    row: MutationRow, handler: str, contents: tuple[Row, ...]
) -> tuple[Part, ...]:
    """Name the parts of a row that differ from what was sealed; of an open one only its inputs."""
    found = set() if _has_its_inputs(row, handler, contents) else {Part.CONTENTS}
    if row.has_ended:
        assert row.digests is not None, row.id
        found |= {*find_changed_parts(_texts(row, _digest_contents(contents)), row.digests)}
    return tuple(each for each in Part if each in found)


def _judge(key: bytes, row: MutationRow) -> Flaw | None:
    flaw = judge(key, row.facts, row.seal)
    if flaw is not None:
        return flaw
    if not row.has_ended:
        # A row that has ended does not begin again, and only its end is sealed like this.
        return None if row.digests is None and row.end_seal is None else Flaw.CHANGED
    if row.digests is None:
        return Flaw.UNSEALED
    return judge(key, end_facts(row, row.digests), row.end_seal)


def _contents_now(tx: Transaction, run_ids: Iterable[str]) -> Iterator[tuple[str, tuple[Row, ...]]]:
    """Read the inputs of each run with their contents, as they are now."""
    wanted = tuple(run_ids)
    for group in _group_by_size(tx, wanted) if wanted else ():
        rows: dict[str, list[Row]] = {each: [] for each in group}
        for run_id, *row in tx.all("list_contents", run_ids=as_set(group)):
            rows[run_id].append(tuple(row))
        yield from ((run_id, tuple(found)) for run_id, found in rows.items())


def _group_by_size(tx: Transaction, run_ids: tuple[str, ...]) -> Iterator[list[str]]:
    """Put together runs whose contents fit into memory together."""
    sizes: dict[str, int] = (
        dict(tx.all("measure_contents", run_ids=as_set(run_ids))) if run_ids else {}
    )
    group: list[str] = []
    size_chars = 0
    for each in run_ids:
        size_chars += sizes.get(each, 0)
        if group and size_chars > CONTENTS_CHARS_MAX:
            yield group
            group, size_chars = [], sizes.get(each, 0)
        group.append(each)
    if group:
        yield group


def _digest_contents(contents: tuple[Row, ...]) -> Contents | None:
    """Digest contents; None, where one was removed: its number is not above zero."""
    if any(content <= 0 for _, _, _, content, _, _ in contents):
        return None
    return tuple(
        (topic, message_id, _digest_content(title, body))
        for topic, message_id, _, _, title, body in contents
    )


def _digest_content(title: str, body: str) -> str:
    try:
        return digest([title, decode(body)])
    except (Invalid, TypeError, ValueError):
        return ""


# -- Another key --------------------------------------------------------------------------------


def put_keys(tx: Transaction, names: Iterable[str], *, now: int) -> None:
    """Note that a key is being replaced: a host needs each of these, until all is sealed (H12)."""
    for name in names:
        tx.write("put_upkeep", name=f"{SEALED_WITH}{name}", at=now)


def list_keys(tx: Transaction) -> frozenset[str]:
    """Name the keys that a host needs; none, if no change of the key is under way (H12)."""
    return frozenset(str(name).removeprefix(SEALED_WITH) for (name,) in tx.all("list_keys"))


def list_ended(
    tx: Transaction, *, old_key: bytes | None, new_key: bytes, has_unsealed: bool, after: str = ""
) -> tuple[tuple[EndSeal, ...], str | None]:
    """Seal a page of ended rows under another key, without writing; return where to go on.

    A row that does not fit the old key stays as it is. `has_unsealed` says that rows without any
    seal come from a schema that had none (L11).
    """
    page = [MutationRow(*row) for row in tx.all("walk_mutations", after=after, limit=PAGE_ROWS)]
    ended = [row for row in page if row.has_ended]
    sealed = [row for row in ended if row.seal is not None or row.end_seal is not None]
    flawed = {row.id for row in sealed} if old_key is None else check_rows(tx, old_key, sealed)
    bare = {row.id for row in ended if row.seal is None and row.end_seal is None}
    made = [
        _seal_anew(tx, row, new_key)
        for row in ended
        if (has_unsealed if row.id in bare else row.id not in flawed)
    ]
    return tuple(made), page[-1].id if page else None


def _seal_anew(tx: Transaction, row: MutationRow, key: bytes) -> EndSeal:
    digests = row.digests
    if digests is None:
        ((_, contents),) = _contents_now(tx, (row.held_by,))
        digests = digest_parts(_texts(row, _digest_contents(contents)))
    mark = is_imported(row.end_seal)
    end = make_seal(key, end_facts(row, digests), is_imported=mark)
    begun = make_seal(key, row.facts, is_imported=mark)
    return EndSeal(row.id, row.end_seal, digests, begun, end)


def reseal_ended(
    tx: Transaction, seals: Iterable[EndSeal], *, keys: Iterable[str] = (), now: int = 0
) -> None:
    """Put new seals in place of those they were checked by.

    Rows are under both `keys` from now on, until `reseal` ends the change of the key (H12).
    """
    put_keys(tx, keys, now=now)
    for each in seals:
        here = {"id": each.id, "old_seal": each.old, "digests": each.digests}
        if not tx.run("reseal_end", **here, begun=each.begun, seal=each.end):
            raise Stale(code="changed_meanwhile", subject=each.id)
