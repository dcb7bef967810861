"""The guide for a language model: shown to be copied, and offered as a file.

Law: it is the text of `duly guide --for llm`, with the tools of this host. Only its end says what
     to do on the page, because a chat, and a person who has the page alone, can type no command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.registry import VERBS, Scope
from duly.api.word import Language
from duly.faces.web.guard import Entry, visit_of
from duly.faces.web.look import Sheet
from duly.faces.web.query import read_query
from duly.faces.web.stream import still

MARKDOWN: Final = "text/markdown; charset=utf-8"
NAME: Final = "duly-guide.md"


def list_entries() -> Iterator[Entry]:
    """Make the entries of the page and of its file."""
    yield Entry("/guide", still(guide), {"GET": Scope.READ})
    yield Entry("/guide.md", download, {"GET": Scope.READ})


async def guide(request: Request) -> Sheet:
    """Show the guide, for one language or for both."""
    query = _read(request)
    text = await visit_of(request).session.call("guide", **query, on_page=True)
    languages = [*map(str, Language)]
    return Sheet("guide.html", {"text": text, "query": query, "languages": languages})


async def download(request: Request) -> Response:
    """Offer the guide as a file (G16)."""
    text = str(await visit_of(request).session.call("guide", **_read(request), on_page=True))
    headers = {"Content-Disposition": f'attachment; filename="{NAME}"'}
    return Response(text, headers=headers, media_type=MARKDOWN)


def _read(request: Request) -> dict[str, Any]:
    return read_query(request, VERBS["guide"], ("language",))
