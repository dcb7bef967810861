"""The page of language models: what they were asked, by whom, and what it cost (M2).

Law: facts come from the verbs `models` and `questions`, which take secrets out; nothing is asked
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.requests import Request

from duly.api.registry import VERBS, Scope
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.look import Sheet
from duly.faces.web.query import read_query
from duly.faces.web.stream import Show

QUESTIONS: Final = 20  # shown of one account


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entry of the page."""
    yield Entry("/models", live(models), {"GET": Scope.READ})


async def models(request: Request) -> Sheet:
    """Show the accounts of the last days, and the newest questions of one of them."""
    session = visit_of(request).session
    query: Any = read_query(request, VERBS["questions"], ("workflow",))
    used: Any = await session.call("models")
    account = query.get("workflow") or None
    asked: Any = await session.call("questions", workflow=account, limit=QUESTIONS)
    return Sheet("models.html", {"used": used, "account": account, "questions": asked})
