"""What a workflow may do: given, limited and taken back, never unseen (A1, A3).

Law: an act that carries what was shown of a right changes nothing if something else stands by now.
The row of the workflow is locked meanwhile, so no two acts look at the same right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from duly.errors import NotFound, RequestRefused, see
from duly.rules.permission import keep_asks, read_grant, write_matching
from duly.rules.right import Right
from duly.rules.value import Json, decode, encode
from duly.store import people, statements
from duly.store.base import Transaction
from duly.store.parameter import as_rows
from duly.store.record import Action

MATCHING_BYTES_MAX: Final = 64 * 1024  # of what stands with a grant


def find_right(tx: Transaction, workflow_id: str, name: str, capability: str) -> Right:
    """Read what stands of one right."""
    (found,) = list_rights(tx, [(workflow_id, name, capability)])
    return found


def list_rights(tx: Transaction, places: Sequence[tuple[str, str, str]]) -> tuple[Right, ...]:
    """Read what stands of rights: of a workflow, its name, and a capability each."""
    return tuple(Right(*row) for row in tx.all("list_rights", places=as_rows(places)))


def grant(
    tx: Transaction,
    workflow_id: str,
    capability: str,
    *,
    mutations_per_day: int | None = None,
    matching: str = "{}",
    keeps_asks: bool = False,
    seen: str | None = None,
    action: Action,
    now: int,
) -> str | None:
    """Allow a capability (A1); an open run that waits for it is due now and answered (F4).

    With `keeps_asks` it asks as the grant asked that it replaces (A3). It is refused if what stands
    is not what was shown (`seen`), unless it is just what is to be given.
    """
    name = statements.look(tx, workflow_id).name
    held = find_right(tx, workflow_id, name, capability)
    wanted = _read_matching(matching)
    if held.matching is not None and keeps_asks:
        wanted |= keep_asks(_read_matching(held.matching))
    if seen not in (None, held.word):
        if _is_given(held, mutations_per_day, wanted):
            return None
        raise _changed(capability, name)
    matching = encode(wanted, "where", limit_bytes=MATCHING_BYTES_MAX)
    _put_grant(tx, workflow_id, capability, mutations_per_day, matching, action.by, now)
    statements.note(tx, action, now, workflow_id=workflow_id, target=capability)
    return _wake(tx, workflow_id, capability, now)


def give_lacking(
    tx: Transaction,
    workflow_id: str,
    name: str,
    given: Mapping[str, str | None],
    *,
    by: str,
    now: int,
) -> tuple[str, ...]:
    """Give capabilities with no limit, each with what was shown of it; return which were lacking.

    One that was given meanwhile keeps its limits, and when it asks (A1, A3).
    """
    found = list_rights(tx, [(workflow_id, name, each) for each in given])
    lacking = [each for each in found if each.matching is None]
    for each in lacking:
        if given[each.capability] not in (None, each.word):
            raise _changed(each.capability, name)
        _put_grant(tx, workflow_id, each.capability, None, "{}", by, now)
        _wake(tx, workflow_id, each.capability, now)
    return tuple(each.capability for each in lacking)


def grant_lacking(
    tx: Transaction,
    workflow_id: str,
    capability: str,
    *,
    seen: str | None = None,
    action: Action,
    now: int,
) -> bool:
    """Allow what a version lacks that is active already; return whether it was lacking (A2)."""
    name = statements.look(tx, workflow_id).name
    if not give_lacking(tx, workflow_id, name, {capability: seen}, by=action.by, now=now):
        return False
    statements.note(tx, action, now, workflow_id=workflow_id, target=capability)
    return True


def choose_asks(
    tx: Transaction,
    workflow_id: str,
    capability: str,
    *,
    asks: Mapping[str, str],
    seen: Mapping[str, str],
    action: Action,
    now: int,
) -> bool:
    """Keep when a person is asked before the changes of a grant, and nothing else of it (A3).

    It is refused if what stands for these tools is not what was shown (`seen`): no choice is taken
    back unseen. Return whether it changed anything.
    """
    name = statements.look(tx, workflow_id).name
    held = people.find_grant(tx, workflow_id, capability)
    if held is None:
        raise _no_grant(capability, name)
    grant = read_grant(capability, held.mutations_per_day, _read_matching(held.matching))
    now_asks = {tool: grant.asks.get(tool, "") for tool in asks}
    if now_asks == asks:
        return False
    if now_asks != seen:
        raise RequestRefused(
            code="chosen_meanwhile",
            subject=capability,
            facts={"workflow": name},
            next=see("grants", workflow=name),
        )
    rules = {tool: word for tool, word in {**grant.asks, **asks}.items() if word}
    matching = encode(
        write_matching(replace(grant, asks=rules)), "asks", limit_bytes=MATCHING_BYTES_MAX
    )
    here = {"workflow_id": workflow_id, "capability": capability}
    tx.change("choose_asks", f"The grant of {capability}", 1, **here, matching=matching)
    statements.note(tx, action, now, workflow_id=workflow_id, target=capability)
    return True


def _is_given(held: Right, mutations_per_day: int | None, wanted: Mapping[str, Json]) -> bool:
    """Tell whether a right stands just as it is to be given: a second click changes nothing."""
    if held.matching is None or held.mutations_per_day != mutations_per_day:
        return False
    return _read_matching(held.matching) == wanted


def _changed(capability: str, workflow: str) -> RequestRefused:
    return RequestRefused(
        code="right_changed",
        subject=capability,
        facts={"workflow": workflow},
        next=see("right", workflow=workflow, capability=capability),
    )


def _wake(tx: Transaction, workflow_id: str, capability: str, now: int) -> str | None:
    woken = tx.one("wake_granted_run", workflow_id=workflow_id, capability=capability, now=now)
    return None if woken is None else str(woken[0])


def _read_matching(text: str) -> dict[str, Json]:
    return cast("dict[str, Json]", decode(text))


def _no_grant(capability: str, workflow: str) -> NotFound:
    facts = {"workflow": workflow}
    return NotFound(
        code="no_grant", subject=capability, facts=facts, next=see("actions", workflow=workflow)
    )


def revoke(tx: Transaction, workflow_id: str, capability: str, *, action: Action, now: int) -> None:
    """Take a capability back."""
    name = statements.look(tx, workflow_id).name
    if not tx.run("drop_grant", workflow_id=workflow_id, capability=capability):
        raise _no_grant(capability, name)
    tx.write("unbind_workflow", id=workflow_id)
    statements.note(tx, action, now, workflow_id=workflow_id, target=capability)


def _put_grant(
    tx: Transaction,
    workflow_id: str,
    capability: str,
    mutations_per_day: int | None,
    matching: str,
    by: str,
    now: int,
) -> None:
    tx.write(
        "put_grant",
        workflow_id=workflow_id,
        capability=capability,
        mutations_per_day=mutations_per_day,
        matching=matching,
        by=by,
        now=now,
    )
