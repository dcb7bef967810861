"""A machine that does not come back, and a call that only it can ask about (H7, L6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import duly
from duly.engine.claims import Claims
from duly.errors import RequestRefused, StoreUnavailable
from duly.host import Host
from duly.rules.lease import MACHINE_GONE_MS
from duly.rules.word import MutationStatus
from duly.store.base import Fence
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.test_local import on
from tests.postgres.world import Place

NOTE = "a"


@dataclass
class Lost(Outside):
    """An outside of one machine: it posts, and the answer never comes."""

    local = True
    is_cut: bool = False
    asked: int = 0

    @duly.mutation(lag_s=0.1, timeout_s=2, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note."""
        self.posts.append(text)
        if self.is_cut:
            raise duly.UnknownOutcome("the line was cut")
        return {}

    @post.reconcile
    async def post_happened(self, call: duly.Call) -> Any:
        """Look whether a note is there."""
        self.asked += 1
        if self.is_cut:
            return duly.Unsure("the disk is not there")
        return duly.Applied({}) if call.args["text"] in self.posts else duly.NotApplied()


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


def ask(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as server:
        done = server.execute(text.encode())
        return done.fetchall() if done.description is not None else []


def age(url: str, by_ms: int) -> None:
    """Let time pass for the store: since when the machine is gone, and the row is as it is."""
    ask(url, f"update upkeep set at = at - {by_ms} where name = 'gone attic'")
    ask(url, f"update mutation set updated_at = updated_at - {by_ms}")


def status_of(url: str) -> str:
    ((found,),) = ask(url, "select status from mutation")
    return str(found)


def gone_since(url: str) -> bool:
    return bool(ask(url, "select at from upkeep where name = 'gone attic'"))


async def leave_unknown(url: str, here: Lost) -> None:
    """Let the machine send a note whose outcome it does not know, and be gone."""
    here.is_cut = True
    async with opened(url, here, fleet=on("attic")) as one:
        await deploy(one)
        await one.publish("notes", "note", title=NOTE, message_id=NOTE)
        await one.drain()
    assert (status_of(url), here.posts) == ("needs_reconcile", [NOTE])
    here.is_cut = False


@asynccontextmanager
async def elsewhere(url: str, there: Lost) -> AsyncIterator[Host]:
    """Run a host on another machine until it has seen that the first one is gone."""
    async with opened(url, there, fleet=on("cellar")) as two, two.running():
        await until(lambda: gone_since(url), "the other host to write since when it is gone")
        yield two


async def marked(url: str) -> None:
    async def is_shown() -> bool:
        age(url, MACHINE_GONE_MS)  # again: a host that lapsed meanwhile begins to count anew
        await asyncio.sleep(0.5)
        return status_of(url) == "indeterminate"

    await until(is_shown, "the call to be shown to a person")
    free = "select 1 from workflow where holder is null"
    await until(lambda: bool(ask(url, free)), "the workflow to be given back")


async def the_change(host: Host) -> Any:
    (found,) = await host.mutations("notes")
    return found


async def test_a_call_of_a_machine_that_is_gone_is_shown_after_ten_minutes(url: str) -> None:
    """H7: not before; the host elsewhere sends and asks nothing, and says which machine it is."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    async with elsewhere(url, there) as two:
        age(url, MACHINE_GONE_MS - 60_000)
        await asyncio.sleep(2)  # three renewals
        assert status_of(url) == "needs_reconcile"
        await marked(url)
        change = await the_change(two)
        assert change.status == MutationStatus.INDETERMINATE
        assert "attic" in str((await two.why("notes")).reason.facts)
        await two.publish("notes", "note", title="b", message_id="b")
        await asyncio.sleep(1)
        assert (there.posts, there.asked) == ([], 0)
        # The machine comes back late: it sends nothing, asks nothing, and moves nothing.
        asked = here.asked
        async with opened(url, here, fleet=on("attic")) as one, one.running():
            await until(lambda: not gone_since(url), "the machine to be seen")
            await asyncio.sleep(1)
            assert (status_of(url), here.posts, here.asked) == ("indeterminate", [NOTE], asked)
            # A person lets it ask.
            await one.settle(change.id, "try_again")
            await until(lambda: here.posts == [NOTE, "b"], "the next note, on its own machine")
    assert (there.posts, there.asked, here.asked > asked) == ([], 0, True)


async def test_a_person_settles_without_the_machine_and_it_goes_on_there(url: str) -> None:
    """H7, L10: what a person said holds; the run goes on where its files are, and only there."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    async with elsewhere(url, there) as two:
        await marked(url)
        change = await the_change(two)
        await two.settle(change.id, "happened")
        await two.publish("notes", "note", title="b", message_id="b")
        await asyncio.sleep(1)
        assert (status_of(url), there.posts) == ("applied", [])
        async with opened(url, here, fleet=on("attic")) as one, one.running():
            await until(lambda: here.posts == [NOTE, "b"], "the next note, on its own machine")
    assert (there.posts, there.asked) == ([], 0)


async def test_it_did_not_happen_counts_from_a_claim_and_the_terms_of_the_row(url: str) -> None:
    """L6, H7: any host takes it after timeout and lag of the row; the machine sends it afresh."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    async with elsewhere(url, there) as two:
        await marked(url)
        change = await the_change(two)
        with pytest.raises(RequestRefused) as raised:
            await two.settle(change.id, "did_not_happen")
        assert raised.value.code == "too_early"
        here.posts.clear()
        await _settled(two, change.id)
        await asyncio.sleep(1)
        assert there.posts == []
        async with opened(url, here, fleet=on("attic")) as one, one.running():
            await until(lambda: here.posts == [NOTE], "the note, sent once more by its machine")
    assert (there.posts, there.asked) == ([], 0)


async def _settled(host: Host, mutation: str) -> None:
    while True:
        try:
            return await host.settle(mutation, "did_not_happen")
        except RequestRefused:
            await asyncio.sleep(0.2)


async def test_a_person_who_is_too_early_is_told_so_everywhere(url: str) -> None:
    """H7, L6: before the ten minutes no host elsewhere takes the workflow for a person's answer."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    ask(url, "update mutation set status = 'indeterminate', due_at = null")
    async with elsewhere(url, there) as two:
        change = await the_change(two)
        with pytest.raises(RequestRefused) as raised:
            await two.settle(change.id, "did_not_happen")
        assert raised.value.code == "needs_machine"
        assert "notes uses files of one machine, attic" in str(raised.value)


async def test_try_again_waits_for_the_machine_and_is_shown_again_later(url: str) -> None:
    """H7, L10: it is not shown again at once, and no host elsewhere asks."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    async with elsewhere(url, there) as two:
        await marked(url)
        change = await the_change(two)
        await two.settle(change.id, "try_again")
        await asyncio.sleep(2)
        assert status_of(url) == "needs_reconcile"
        await marked(url)
    assert (there.posts, there.asked) == ([], 0)


async def test_a_stand_in_that_could_not_give_back_gives_back_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H7: the machine is back and the call is answered for; the workflow is not held for ever."""
    here, there = Lost(), Lost()
    await leave_unknown(url, here)
    plain, failed = Claims.hand_back, asyncio.Event()

    async def hand_back(self: Claims, fence: Fence) -> None:
        if failed.is_set():
            return await plain(self, fence)
        failed.set()
        raise StoreUnavailable(code="server_unreachable", facts={"cause": "cut"})

    monkeypatch.setattr(Claims, "hand_back", hand_back)
    async with elsewhere(url, there) as two:
        age(url, MACHINE_GONE_MS)
        await failed.wait()
        async with opened(url, here, fleet=on("attic")) as one, one.running():
            await until(lambda: not gone_since(url), "the machine to be seen")
            await two.settle((await the_change(two)).id, "happened")
            await one.publish("notes", "note", title="b", message_id="b")
            await until(lambda: here.posts == [NOTE, "b"], "the next note, on its own machine")
    assert (there.posts, there.asked) == ([], 0)


async def test_a_host_that_died_with_its_call_out_is_recovered_without_its_connector(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7, H7: the run that crashed gets its successor, and only the row's own terms are used."""
    here = Lost()
    await leave_unknown(url, here)
    # As if the host had died before the answer: the run is active, and its call is out.
    ask(url, "update run set status = 'active' where open = 1")
    ask(url, "update mutation set status = 'in_flight', due_at = null")
    async with opened(url, Outside(), fleet=on("cellar")) as two, two.running():
        await until(lambda: gone_since(url), "the other host to write since when it is gone")
        await marked(url)
        runs = await two.runs("notes")
        assert [each.status for each in runs] == ["paused:reconciliation", "crashed"]
    assert here.posts == [NOTE]
