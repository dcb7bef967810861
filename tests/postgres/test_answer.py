"""What a person says of a call at any host, and how old a key is, by the clock of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import duly
from duly.errors import RequestRefused
from duly.host import Host
from duly.rules.schedule import HOUR_MS
from duly.rules.word import MutationStatus
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.test_gone import ask, status_of, the_change
from tests.postgres.world import Place

LAG_S = 0.8


@dataclass
class Mute(Outside):
    """An outside that cannot be asked, and whose answer to a post never comes."""

    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    @duly.mutation(lag_s=LAG_S, timeout_s=0.3, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note, and hang for longer than the call may take."""
        self.posts.append(text)
        ending = asyncio.ensure_future(self.goes_on.wait())
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:
                continue
        raise duly.UnknownOutcome("the line was cut")


@dataclass
class Keyed(Outside):
    """An outside that does a call with a known key once, for thirty hours; at first it hangs up."""

    lifetime_s: float = 30 * 3600.0
    is_cut: bool = True

    @duly.mutation(lag_s=0.1, timeout_s=2, noun="post", idempotent=True, key_lifetime_s=108_000)
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note."""
        self.posts.append(text)
        if self.is_cut:
            raise duly.UnknownOutcome("the line was cut")
        return {}


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


def has_end(url: str) -> bool:
    return bool(ask(url, "select 1 from mutation where ended_clock is not null"))


async def refusal(host: Host, mutation: str) -> str:
    with pytest.raises(RequestRefused) as raised:
        await host.settle(mutation, "did_not_happen")
    return raised.value.code


async def taken(host: Host, mutation: str) -> None:
    """Say that it did not happen until that is believed."""
    while True:
        try:
            return await host.settle(mutation, "did_not_happen")
        except RequestRefused:
            await asyncio.sleep(0.1)


async def test_any_host_judges_by_the_end_of_the_send_on_the_row(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L6, H7: not while the send is out; from its end on, with the lag, and not a moment before."""
    monkeypatch.setattr("duly.rules.ledger.GRACE_MS", 500)  # how long a send may hang unseen
    here = Mute()
    async with opened(url, here) as one, opened(url, Mute()) as two, one.running():
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await until(lambda: status_of(url) == "indeterminate" if here.posts else False, "no answer")
        change = await the_change(two)
        await asyncio.sleep(1.5)  # two renewals
        assert not has_end(url)
        assert await refusal(two, change.id) == "held_elsewhere"
        here.goes_on.set()
        await until(lambda: has_end(url), "the end of the send on its row")
        assert await refusal(two, change.id) == "too_early"
        assert (await one.mutations("notes"))[0].status == MutationStatus.INDETERMINATE
        await taken(two, change.id)
        ((least,),) = ask(
            url,
            "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint) - ended_clock"
            " from mutation order by created_at limit 1",
        )
        assert least >= LAG_S * 1000
        assert status_of(url) == "failed"  # and its holder makes it afresh, after a wait


async def test_a_send_that_began_since_is_not_judged_by_the_end_of_an_earlier_one(url: str) -> None:
    """L6: the end on the row goes when the row is sent again."""
    here = Keyed()
    async with opened(url, here) as one:
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await one.drain()
        assert status_of(url) == "needs_reconcile"
        ask(url, "update mutation set ended_clock = 1, due_at = 1")
        await one.drain()
        assert len(here.posts) > 1
        assert not ask(url, "select 1 from mutation where ended_clock = 1")


async def test_a_restore_or_a_promotion_forgets_the_ends_of_sends(url: str) -> None:
    """L6, H10: a later send of the row may be among what is lost, and the clock is another one."""
    here = Mute()
    here.goes_on.set()
    async with opened(url, here) as one, opened(url, Mute()) as two, one.running():
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await until(lambda: has_end(url), "the end of the send on its row")
        change = await the_change(two)
        ask(url, "update upkeep set at = at + 1 where name = 'timeline'")
        await until(lambda: bool(ask(url, "select 1 from upkeep where name like 'blind %'")), "it")
        assert not ask(url, "select 1 from workflow where blind_since is not null")
        assert not has_end(url)
        assert await refusal(two, change.id) == "held_elsewhere"
        await taken(one, change.id)


async def test_an_end_that_stands_in_the_future_keeps_no_person_waiting(url: str) -> None:
    """L6: the server's clock was set back since; a claim of our own never takes as long as that."""
    here = Mute()
    here.goes_on.set()
    async with opened(url, here) as one, one.running():
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await until(lambda: has_end(url), "the end of the send on its row")
    ask(url, "update mutation set ended_clock = ended_clock + 86400000")
    async with opened(url, Mute()) as two:
        change = await the_change(two)
        assert await refusal(two, change.id) == "too_early"
        async with asyncio.timeout(10):
            await taken(two, change.id)
    assert status_of(url) == "failed"


@pytest.mark.parametrize(("true_hours", "is_young"), [(7, False), (5, True)])
async def test_the_age_of_a_key_is_that_of_the_servers_clock(
    url: str, true_hours: int, is_young: bool
) -> None:
    """L7: the machine that sent first had a clock that was days off; the server is one for all."""
    first, second = Keyed(), Keyed(is_cut=False)
    async with opened(url, first) as one:
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await one.drain()
    assert ask(url, "select 1 from mutation where first_clock is not null")
    off_ms = 300 * HOUR_MS if is_young else 5 * HOUR_MS
    ask(
        url,
        f"update mutation set first_boot = 'another machine', first_sent_at = first_sent_at"
        f" - {off_ms}, first_clock = first_clock - {true_hours * HOUR_MS}, due_at = 1, asks = 0",
    )
    sent = len(first.posts)
    assert sent >= 1
    async with opened(url, second) as two:
        await two.drain()
    assert second.posts == (["a"] if is_young else [])
