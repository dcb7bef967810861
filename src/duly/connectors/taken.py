"""Looks at what has the name that a change wanted, after the service has said that it is taken.

    [connectors.crm.operations.create_contact]
    verify = { path = "/contacts/{key}", match = "properties.key" }
    taken = { path = "/contacts/by-email/{email}", shows = { "properties.email" = "email" } }

Law 1: it is asked only after a conflict, and only where nothing was found by the key.
Law 2: it refuses the change only if the answer shows the thing of that name, and at the place of
       the key something else. All else is no answer (K1, L4): the change stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duly.connectors.base import Applied, Call, Verdict
from duly.connectors.conflict import Theirs
from duly.connectors.json_answer import pick
from duly.connectors.key_place import Verify, asking_values
from duly.connectors.rest import FIND_S, Rest
from duly.connectors.template import MISSING, fill_path, fill_query


@dataclass(frozen=True, slots=True)
class TakenName:
    """How the thing of a name is asked for, and by which places of it that name is known again."""

    path: str
    shows: Mapping[str, str]  # the name of an argument, by its place in the answer
    query: Mapping[str, str]


async def look_for(kit: Rest, verify: Verify, taken: TakenName | None, call: Call) -> Verdict:
    """Look after a conflict: for the call, then for what has the name that it wanted."""
    verdict = await kit.find(call, verify)
    if taken is None or isinstance(verdict, Applied):
        return verdict
    return await _look_by_name(kit, call, verify, taken) or verdict


async def _look_by_name(kit: Rest, call: Call, verify: Verify, taken: TakenName) -> Verdict | None:
    """Return whose the thing of that name is; None if that is not certain."""
    values = asking_values(call)
    path, query = fill_path(taken.path, values), fill_query(taken.query, values)
    found: Any = await kit.fetch_one(path, query, timeout_s=FIND_S, is_proof=True)
    is_it = isinstance(found, dict) and all(
        _is_same(pick(found, place), values.get(name)) for place, name in taken.shows.items()
    )
    if not is_it:
        return None
    if pick(found, verify.match) is MISSING:
        return None  # it does not show whose it is
    if verify.is_call(found, call.key):
        result = pick(found, verify.result)
        return Applied(None if result is MISSING else result)
    return Theirs(f"there is one already: {', '.join(map(str, _named(taken, values)))}")


def _named(taken: TakenName, values: Mapping[str, Any]) -> list[Any]:
    return [values.get(name) for name in taken.shows.values()]


def _is_same(found: object, wanted: object) -> bool:
    """Compare names; a service may write an address in small letters."""
    if isinstance(found, str) and isinstance(wanted, str):
        return found.casefold() == wanted.casefold()
    return found is not None and found == wanted
