"""What a version would have done to the past, asked of a real host in both languages (F3)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import duly
from duly.config import Policy, WorkflowPolicy
from duly.errors import RequestRefused
from duly.host import Host
from duly.rules.source import Language
from duly.words import say_difference
from tests.desk.trying import SOURCES, TEXT, House, edited


@pytest.fixture
def house(url: str) -> House:
    return House(url, "m1", "m2")


@pytest.fixture
async def past(house: House) -> AsyncIterator[Host]:
    """Two mails that became two rows."""
    async with house.host() as host:
        await host.deploy(TEXT, grant=True)
        await host.drain()
        assert house.sheets.changes == 2
        yield host


@pytest.mark.parametrize("language", list(SOURCES))
async def test_the_same_text_in_either_language_would_have_done_the_same(
    house: House, past: Host, language: str
) -> None:
    """F3: tried on what was, asking nobody."""
    before = house.dump()
    replayed = await past.what_if("mail-to-row", SOURCES[language])
    assert (replayed.tried, replayed.differences) == (3, ())  # two mails, and the look for them
    assert (house.dump(), house.sheets.changes, house.gmail.asked) == (before, 2, [0])


async def test_another_change_is_told_by_its_input(house: House, past: Host) -> None:
    """F3, L11: what it did, and what it would do."""
    source = edited('values=[prepared["data"]["id"]]', 'values=[prepared["data"]["id"], "new"]')
    replayed = await past.what_if("mail-to-row", source)
    assert [say_difference(each) for each in replayed.differences] == [
        f'For “Mail {mail}” it called sheets.append_row with values ["{mail}"]; '
        f'now it would call it with values ["{mail}","new"].'
        for mail in ("m2", "m1")
    ]
    assert house.sheets.changes == 2


async def test_a_source_of_another_workflow_has_no_past_here(past: Host) -> None:
    """W1: the name is the identity."""
    with pytest.raises(RequestRefused, match='declares "another", not "mail-to-row"'):
        await past.what_if("mail-to-row", edited('"mail-to-row"', '"another"'))


async def test_reads_of_mutate_are_repeated_too(url: str) -> None:
    """C2, F3: under the policy that lets mutate read by id, with and without a call."""
    policy = Policy(workflows={"by-id": WorkflowPolicy(mutate_reads="by_id")})
    book = Book()
    async with Host(url, connectors=[book], policy=policy) as host:
        await host.deploy(duly.Source(Language.PYTHON, BY_ID), grant=True)
        for key in ("a", "b"):
            await host.publish("by-id", "in", message_id=key, title=f"Page {key}")
        await host.drain()
        assert (book.written, book.looked) == (["A"], ["a", "b"])
        replayed = await host.what_if("by-id", duly.Source(Language.PYTHON, BY_ID))
        assert (replayed.tried, replayed.differences) == (2, ())
        assert book.looked == ["a", "b"]


BY_ID = """\
from duly import workflow

flow = workflow("by-id", topics={"in": {"ingress": True}})


@flow.consumer("in")
class copy:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        if not pending:
            return {"reservations": []}
        key = pending[0]["message_id"]
        reservations = [{"topic": "in", "ids": [key]}]
        return {"reservations": reservations, "data": key, "ui": {"title": f"Copy {key}"}}

    async def mutate(self, ctx, prepared):
        text = await ctx.book.look(key=prepared["data"])
        if text == "A":
            await ctx.book.write(text=text)
"""


class Book(duly.Connector):
    """Pages by their keys."""

    name = "book"

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.written: list[str] = []

    @duly.read(by_id=True)
    async def look(self, key: str) -> str:
        self.looked.append(key)
        return key.upper()

    @duly.mutation(lag_s=0)
    async def write(self, call: duly.Call, text: str) -> None:
        self.written.append(text)
