"""The page of language models: what they were asked, by whom, and what it cost (M2).

Law: facts come from the verbs `models` and `questions`, which take secrets out; nothing is asked
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.requests import Request

from duly.api.registry import VERBS, Scope
from duly.api.session import Session
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.look import Sheet
from duly.faces.web.query import read_query
from duly.faces.web.stream import Show

QUESTIONS: Final = 20  # shown of one account


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entry of the page."""
    yield Entry("/models", live(models), {"GET": Scope.READ})


class Writers:
    """Knows whether the host can ask a model to write; the page begins anew with its host."""

    def __init__(self) -> None:
        self._has_model: bool | None = None

    async def find(self, session: Session) -> bool:
        """Tell whether there is a model, and ask the host once."""
        if self._has_model is None:
            found: Any = await session.call("settings")
            self._has_model = bool(found and found["has_model"])
        return self._has_model


async def models(request: Request) -> Sheet:
    """Show the accounts of the last days, and the newest questions of one of them."""
    session = visit_of(request).session
    query: Any = read_query(request, VERBS["questions"], ("workflow",))
    used: Any = await session.call("models")
    account = query.get("workflow") or None
    asked: Any = await session.call("questions", workflow=account, limit=QUESTIONS)
    return Sheet("models.html", {"used": used, "account": account, "questions": asked})
