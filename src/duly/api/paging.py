"""How a list goes on: the arguments of the next page, read off what a verb declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.api.registry import Verb
from duly.rules.value import Json

PAGED: Final = ("before", "after")


def next_page(verb: Verb, args: Mapping[str, Json], answer: Json) -> dict[str, Json] | None:
    """Return the arguments of the next page, if this one is full; None if it is the last."""
    fields = verb.declared.cursor
    if not fields:
        return None
    if isinstance(answer, dict):
        place = answer.get(fields[0])
    else:
        assert isinstance(answer, list), verb.name
        limit = args.get("limit", _default(verb, "limit"))
        if not isinstance(limit, int) or not answer or len(answer) < limit:
            return None
        last = answer[-1]
        assert isinstance(last, dict), verb.name
        found = [last[name] for name in fields]
        place = found[0] if len(found) == 1 else found
    if place is None:
        return None
    (name,) = (each.name for each in verb.parameters if each.name in PAGED)
    return {**args, name: place}


def _default(verb: Verb, name: str) -> Json:
    return next((each.default for each in verb.parameters if each.name == name), None)
