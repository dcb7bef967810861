"""A list that keeps a token for what comes later: the delta of OData, as Microsoft Graph has it.

Law 1: the token holds the query of the first look, so nothing else is sent with it.
Law 2: a token that is not known any more begins anew. What was listed before comes again, under the
       ids it has; nothing is lost (K11).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from duly.connectors.base import Page
from duly.connectors.json_answer import pick
from duly.connectors.response import HttpResponse
from duly.connectors.template import flatten
from duly.errors import Invalid, Refused
from duly.rules.url import Url, follow_url
from duly.rules.value import Json

MORE: Final = "@odata.nextLink"
LATER: Final = "@odata.deltaLink"  # what comes later
REMOVED: Final = "@removed"
TOKENS: Final = ("$skiptoken", "$deltatoken")


async def read_delta(
    get: Callable[[Sequence[tuple[str, str]]], Awaitable[HttpResponse | None]],
    read: Callable[[HttpResponse, str], Awaitable[Json]],
    url: Url,
    place: str,
    query: Mapping[str, Json],
    after: str | None,
) -> Page[Any]:
    """Ask for what came since a token; without one for all that the query names."""
    response = await get(flatten(query) if after is None else _token_of(after))
    if response is None and after is not None:
        response = await get(flatten(query))
    answer = None if response is None else await read(response, f"GET {url.shown}")
    items = pick(answer, place)
    if not isinstance(items, list):
        raise Refused(f"GET {url.shown}: there is no list at {place!r}.")
    cursor, is_more = _cursor_of(answer, url)
    there = [each for each in items if not isinstance(each, dict) or REMOVED not in each]
    return Page(there, last_cursor=cursor, has_more=is_more)


def _token_of(after: str) -> list[tuple[str, str]]:
    """Return the one field of a cursor."""
    found = [each for each in parse_qsl(after) if each[0] in TOKENS]
    if len(found) != 1:
        raise Refused(f"after is {after[:50]!r}, which is no cursor of this list.")
    return found


def _cursor_of(answer: Any, url: Url) -> tuple[str, bool]:
    """Return the cursor that a page names, and whether more is there already.

    Graph names the place in another way than it was asked, so only the token of it is taken.
    """
    target = answer.get(MORE) or answer.get(LATER) if isinstance(answer, dict) else None
    if not isinstance(target, str):
        raise Refused(f"GET {url.shown}: the page names no next page and no end.")
    try:
        found = follow_url(url, target)
    except Invalid as error:
        raise Refused(f"GET {url.shown}: its next page cannot be used: {error}") from None
    if found.origin != url.origin:
        raise Refused(f"GET {url.shown}: its next page is at {found.shown}, another place.")
    return urlencode(_token_of(found.query)), bool(answer.get(MORE))
