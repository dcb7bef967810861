"""A trial says which reads gave a part only, and how to go on."""

from __future__ import annotations

from typing import Any, Final

import pytest

import duly
from duly.host import Host
from duly.rules.source import Language
from duly.words import Clock, say, say_preview

ROWS: Final = 5
ONE_PAGE: Final = "    rows = (await ctx.books.orders(paid=False))['items']\n    kept = None"
ALL_PAGES: Final = """    rows, after, more = [], 0, True
    while more:
        page = await ctx.books.orders(paid=False, after_id=after)
        rows += page["items"]
        more = page["has_more"]
        after = page["items"][-1]["id"] if more else after
    kept = None"""
A_PAGE_A_RUN: Final = """    after = (state or {}).get("after", 0)
    page = await ctx.books.orders(paid=False, after_id=after)
    rows = page["items"]
    kept = {"after": rows[-1]["id"] if rows else after}"""
TWO_LISTS: Final = """    rows = (await ctx.books.orders(paid=False))["items"]
    rows = (await ctx.books.orders(paid=True))["items"]
    kept = None"""
NESTED: Final = """    rows, narrow, more = [], {}, True
    while more:
        page = await ctx.books.found(narrow=narrow)
        rows += page["items"]
        more = page["has_more"]
        narrow = {"id": {"above": page["items"][-1]["id"]}}
    kept = None"""
OTHER_NUMBER: Final = """    rows = (await ctx.books.bought(customer_id=7))["items"]
    rows = (await ctx.books.bought(customer_id=8))["items"]
    kept = None"""
LARGER_LIMIT: Final = """    rows = (await ctx.books.bought(customer_id=7, limit=2))["items"]
    rows = (await ctx.books.bought(customer_id=7, limit=3))["items"]
    kept = None"""
LARGER_OFFSET: Final = """    rows, more = [], True
    while more:
        page = await ctx.books.bought(customer_id=7, offset=len(rows))
        rows += page["items"]
        more = page["has_more"]
    kept = None"""
WITHOUT: Final = "    rows = (await ctx.books.customers())['items']\n    kept = None"


class Books(duly.Connector):
    """Orders, two at a time."""

    name = "books"

    @duly.read(capability="books.read")
    async def orders(self, *, paid: bool, after_id: int = 0) -> duly.Page[dict[str, Any]]:
        found = [{"id": each} for each in range(1, ROWS + 1) if each > after_id]
        return duly.Page(found[:2], has_more=len(found) > 2)

    @duly.read(capability="books.read")
    async def found(self, *, narrow: dict[str, Any]) -> duly.Page[dict[str, Any]]:
        after = narrow.get("id", {"above": 0})["above"]
        found = [{"id": each} for each in range(1, ROWS + 1) if each > after]
        return duly.Page(found[:2], has_more=len(found) > 2)

    @duly.read(capability="books.read")
    async def bought(
        self, *, customer_id: int, limit: int = 2, offset: int = 0
    ) -> duly.Page[dict[str, Any]]:
        found = [{"id": f"{customer_id}-{each}"} for each in range(ROWS)][offset:]
        return duly.Page(found[:limit], has_more=len(found) > limit)

    @duly.read(capability="books.read")
    async def customers(self) -> duly.Page[dict[str, Any]]:
        return duly.Page([{"id": 1}], has_more=True)


def source(reading: str) -> duly.Source:
    text = f"""\
from duly import workflow

flow = workflow("orders", topics=["order"])


@flow.producer(every="5m")
async def poll(ctx, state):
{reading}
    for row in rows:
        await ctx.publish("order", message_id=row["id"], title=f"Order {{row['id']}}")
    return kept
"""
    return duly.Source(Language.PYTHON, text)


@pytest.mark.parametrize(
    ("reading", "items", "how"),
    [
        (ONE_PAGE, 2, "call it again with another “after_id” until `has_more` is false."),
        (TWO_LISTS, 4, "call it again with another “after_id” until `has_more` is false."),
        (WITHOUT, 1, "it has no argument that says where to go on"),
        (OTHER_NUMBER, 4, "call it again with another “offset” until `has_more` is false."),
        (LARGER_LIMIT, 5, "call it again with another “offset” until `has_more` is false."),
        (ALL_PAGES, None, ""),
        (NESTED, None, ""),
        (LARGER_OFFSET, None, ""),
        (A_PAGE_A_RUN, None, ""),
    ],
    ids=[
        *("one page", "two lists", "no argument", "another number", "a larger limit"),
        *("all pages", "a nested place", "a larger offset", "a page a run"),
    ],
)
async def test_a_trial_says_that_a_read_had_more_that_was_not_asked_for(
    url: str, reading: str, items: int | None, how: str
) -> None:
    """M9: what was never seen is not taken for what is not there."""
    async with Host(url, connectors=[Books()]) as host:
        tried = await host.try_(source(reading), grant=True)
        shown = await host.preview(source(reading), grant=True)
    assert tried.problems == ()
    for said in (say(tried.summary, Clock(0)), say_preview(shown, Clock(0))):
        assert ("left out more, and the script was not seen to ask for it" in said) is (
            items is not None
        )
        assert how in said
        if items is not None:
            assert f"gave {items} item" in said
