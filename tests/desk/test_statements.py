"""A page costs a fixed number of statements, however many rows it shows (U6)."""

from __future__ import annotations

from typing import Any

import pytest

from duly.host import Host
from duly.testing import Stage
from tests.engine.stand import IN, NAME, Play, flow, opened

PAGES: dict[str, Any] = {
    "events": lambda host, limit: host.events(NAME, limit=limit),
    "runs": lambda host, limit: host.runs(limit=limit),
    "mutations": lambda host, limit: host.mutations(limit=limit),
    "outputs": lambda host, limit: host.outputs(NAME, limit=limit),
    "find": lambda host, limit: host.find("a", limit=limit),
}


class Counted:
    """A transaction that counts its statements."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        self.count += name in ("all", "one", "run")
        return getattr(self._tx, name)


async def count(play: Play, page: str, limit: int) -> int:
    """Count the statements of one page."""
    backend = play.store.backend
    ask, counts = backend.ask, []

    def counted(body: Any) -> Any:
        def look(tx: Any) -> Any:
            counting = Counted(tx)
            try:
                return body(counting)
            finally:
                counts.append(counting.count)

        return ask(look)

    object.__setattr__(backend, "ask", counted)
    try:
        host: Host = play.host
        shown = await PAGES[page](host, limit)
    finally:
        object.__setattr__(backend, "ask", ask)
    assert len(getattr(shown, "hits", shown)) == limit
    return sum(counts)


@pytest.mark.parametrize("page", PAGES)
async def test_the_statements_of_a_page_do_not_grow_with_its_rows(
    duly_world: Stage, page: str
) -> None:
    """U6: a page of a hundred rows takes as many statements as one of ten."""
    play = await opened(duly_world)
    await play.deploy(flow())
    for number in range(100):
        await play.host.publish(NAME, IN, message_id=f"a-{number}", title="A", payload=number)
    await play.drain()
    assert await count(play, page, 10) == await count(play, page, 100) < 10
