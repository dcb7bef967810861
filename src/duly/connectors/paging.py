"""How a list says where its next page is: a number, or a header `Link` (RFC 8288)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl, urlencode

from duly.connectors.key_place import Paging
from duly.connectors.response import HttpResponse
from duly.errors import Invalid, Refused
from duly.rules.url import Url, follow_url

NUMBER_CHARS_MAX: Final = 9
LINK_CHARS_MAX: Final = 2_000  # of a header that names the next page
LINK: Final = re.compile(r'<([^<>]*)>((?:[^,"<]|"[^"]*")*)')
REL_NEXT: Final = re.compile(r'(?i);\s*rel\s*=\s*"?(?:[^";]*\s)?next\b')


def page_number(after: str | None) -> int:
    """Return the number of a page, which is its cursor."""
    if after is None:
        return 1
    if not after.isdecimal() or len(after) > NUMBER_CHARS_MAX:
        raise Refused(f"after is {after[:50]!r}, which is no number of a page.")
    return int(after)


def cursor_at_end(paging: Paging, after: str | None, *, has_items: bool) -> str | None:
    """Return the cursor of a last page: none, unless the list only grows at its end (K11)."""
    if after is None or not paging.is_growing:
        return None
    if paging.page is not None and not has_items:
        # What is added later may stand on the last page that had something.
        return str(max(1, page_number(after) - 1))
    return after


def linked_query(
    response: HttpResponse, url: Url, own: Sequence[tuple[str, str]], paging: Paging
) -> str | None:
    """Return what the next page adds to the query; at another place the list cannot go on."""
    for target, rest in LINK.findall((response.header("link") or "")[:LINK_CHARS_MAX]):
        if REL_NEXT.search(rest) is None:
            continue
        try:
            found = follow_url(url, target)
        except Invalid as error:
            raise Refused(f"GET {url.shown}: its next page cannot be used: {error}") from None
        is_there = found.path == url.path or paging.is_elsewhere
        if found.origin != url.origin or not is_there:
            raise Refused(f"GET {url.shown}: its next page is at {found.shown}, another place.")
        fields = parse_qsl(found.query, keep_blank_values=True)
        names = {name for name, _ in own}
        changed = {name for name, _ in {*fields} - {*own} if name in names}
        if changed:
            said = f"its next page has another {min(changed)}, which the operation sets"
            raise Refused(f"GET {url.shown}: {said}. Leave it out of the operation.")
        return urlencode([each for each in fields if each[0] not in names])
    return None
