"""What the address of a page says: filters, and where its list goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request

from duly.api.registry import Verb
from duly.faces.web.body import read_arguments, read_pairs

DID: Final = "did"  # the call that was just decided
ROWS: Final = 50  # of what came in, was done or was found, on one page
NARROWING: Final = ("text", "first_day", "last_day")  # what a search asks for
SOUGHT: Final = (*NARROWING, "after")


def read_query(request: Request, verb: Verb, known: Sequence[str]) -> dict[str, Any]:
    """Read what of a query a page gives on to its question; an empty field says nothing."""
    pairs = read_pairs(request.url.query)
    return read_arguments(verb, [pair for pair in pairs if pair[0] in known and pair[1]])


def older(query: Mapping[str, Any], entries: Sequence[Any], field: str) -> str:
    """Return the query of the next page, if this one is full."""
    if len(entries) < ROWS:
        return ""
    return urlencode({**query, "before": entries[-1][field]})


def further(query: Mapping[str, Any], after: str | None) -> str:
    """Return the query with which a search goes on, if it did not see everything."""
    return "" if after is None else urlencode({**query, "after": after})


def look_empty(place: str | None, *, is_later: bool) -> str:
    """Name what a list with nothing in it means; a search that did not end says so (G13)."""
    if place is not None:
        return "unfinished"
    return "further" if is_later else "match"
