"""Hosts whose connectors differ: each takes what its tools can do, and says what waits (H7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import duly
from duly.config import Policy
from duly.host import Host
from duly.rules.lease import MACHINE_GONE_MS
from duly.rules.source import Language, Source
from duly.rules.standing import Code
from duly.store.server import look_at_server
from duly.words import say
from duly.words.phrase import Clock
from tests.postgres.stand import FLOW, KEY, Outside, database, deploy, opened, until
from tests.postgres.test_gone import ask
from tests.postgres.test_local import on
from tests.postgres.world import Place


class Shop(Outside):
    """Another outside, under a name of its own."""

    name = "shop"


class OtherOutside(Outside):
    """The same tools, of another class: a connector with other settings."""


BUYS = FLOW.replace("ctx.outside.post", "ctx.shop.post")
ENDS = """
    async def next(self, ctx, prepared, result, state):
        return state
"""


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


async def publish(host: Host, text: str) -> None:
    await host.publish("notes", "note", title=text, message_id=text)


async def change(host: Host) -> None:
    """Deploy a version that needs another connector."""
    await host.deploy(Source(Language.PYTHON, BUYS.format(name="notes"), "notes.py"))
    await host.grant("notes", "shop.post")


async def test_a_host_without_a_connector_leaves_the_work_to_one_that_has_it(url: str) -> None:
    """H7: it waits with its tool and the hosts that were looked at, until a host comes with it."""
    outside, shop = Outside(), Shop()
    async with opened(url, outside) as able:
        await deploy(able)
    async with opened(url, shop) as unable, unable.running():
        await publish(unable, "a")
        await until(lambda: look_at_server(url).unserved != (), "what no host can do")
        ((name, lack),) = look_at_server(url).unserved
        (host,) = await unable.hosts()
        assert (name, lack.tools, lack.hosts) == ("notes", ("outside.post",), (host.name,))
        reason = (await unable.why("notes")).reason
        assert reason.code == Code.WAITS_FOR_TOOL
        said = say(reason, Clock(0), long=True)
        assert said.startswith("It needs outside.post, and no host has all it needs. Looked at: ")
        assert f"{host.name}" in said
        assert (await unable.workflows())[0].reason.code == Code.WAITS_FOR_TOOL
        ask(url, "update host set name = 'one, two 3 '")
        assert look_at_server(url).unserved[0][1].hosts == ("one, two 3 ",)
        async with opened(url, OtherOutside(posts=outside.posts), shop) as two, two.running():
            await until(lambda: outside.posts == ["a"], "a host that has the tool")
            assert look_at_server(url).unserved == ()
            # A version that both can do; the tool it needed before is not asked for any more.
            await change(two)
            await publish(unable, "b")
            await until(lambda: shop.posts == ["b"], "a run of the version that both can do")
        assert (await unable.why("notes")).reason.code != Code.WAITS_FOR_TOOL


async def test_a_host_hands_over_what_a_new_version_needs_and_it_lacks(url: str) -> None:
    """H7: between two runs, at once; an act at any host is taken and reaches the one that can."""
    outside, shop = Outside(label="one"), Shop(label="two")
    asked = Policy(approvals={"*": "always"})
    async with opened(url, outside) as one, one.running():
        await deploy(one)
        await publish(one, "a")
        await until(lambda: outside.posts == ["a"], "a run at the first host")
        async with opened(url, shop, OtherOutside(), policy=asked) as two, two.running():
            await change(two)
            await publish(one, "b")

            async def waits() -> bool:
                return len(await one.approvals()) == 1

            await until(waits, "a call that waits for a yes")
            (held,) = await one.approvals()
            await one.approve(held.mutation, held.hash)
            await until(lambda: shop.posts == ["b"], "the approved call, at the host that can")
            found = look_at_server(url)
            names = tuple(sorted(each.name or "" for each in await two.hosts()))
            assert found.differing == {"outside": names}
    assert outside.posts == ["a"]


class Cut(Outside):
    """An outside whose answer never comes, and that cannot say yet what became of a call."""

    asked = 0
    is_cut = True

    @duly.mutation(lag_s=0.1, timeout_s=2, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, Any]:
        """Post a note."""
        self.posts.append(text)
        raise duly.UnknownOutcome("the line was cut")

    @post.reconcile
    async def post_happened(self, call: duly.Call) -> Any:
        """Look whether a note is there."""
        self.asked += 1
        return duly.Unsure("not now") if self.is_cut else duly.Applied({})


async def test_only_a_host_with_the_connector_asks_about_a_call(url: str) -> None:
    """H7, L5: the others wait for one, and after ten minutes a person is asked; never too early."""
    cut = Cut()

    def status() -> str:
        return str(ask(url, "select status from mutation")[0][0])

    async with opened(url, cut) as able:
        await deploy(able)
        await publish(able, "a")
        await able.drain()
    since = "select 1 from upkeep where name = 'tool outside.post '"
    shop = Shop()
    async with opened(url, shop) as unable, unable.running():
        await until(lambda: bool(ask(url, since)), "since when no host has the tool")
        assert (await unable.why("notes")).reason.code == Code.WAITS_FOR_TOOL
        (call,) = await unable.mutations("notes")
        ask(url, f"update mutation set updated_at = updated_at - {MACHINE_GONE_MS}")
        ask(url, f"update upkeep set at = at - {MACHINE_GONE_MS - 60_000} where name like 'tool %'")
        await asyncio.sleep(1.5)  # two renewals
        assert status() == "needs_reconcile"
        ask(url, "update upkeep set at = at - 60000 where name like 'tool %'")
        await until(lambda: status() == "indeterminate", "the call to be shown to a person")
        await unable.settle(call.id, "try_again")
        await change(unable)  # what the host that asks lacks does not count until it has asked
        cut.is_cut, asked = False, cut.asked
        async with opened(url, cut) as able, able.running():
            await until(lambda: status() == "applied", "the host that can ask")
            assert not ask(url, since)
            await publish(unable, "b")
            await until(lambda: shop.posts == ["b"], "the host that has all of the new version")
    assert (cut.posts, cut.asked) == (["a"], asked + 1)


async def test_a_call_that_was_out_when_its_host_died_is_asked_about_by_its_tool(url: str) -> None:
    """H7, R7: what else its workflow needs does not count; nor for `next`, which has no tools."""
    cut = Cut()
    async with opened(url, cut) as able:
        await deploy(able)
        await publish(able, "a")
        await able.drain()
    async with opened(url, Shop()) as other:
        text = (BUYS + ENDS).format(name="notes")
        await other.deploy(Source(Language.PYTHON, text, "notes.py"))
    ask(url, "update run set status = 'active', due_at = null")
    ask(url, "update mutation set status = 'in_flight'")
    cut.is_cut = False
    async with opened(url, cut) as able, able.running():
        done = "select 1 from run where status = 'committed'"
        await until(lambda: bool(ask(url, done)), "the host that asks, and goes on to the end")
    assert cut.posts == ["a"]


class LocalCut(Cut):
    """One that only its own machine can reach."""

    local = True


async def test_a_call_is_shown_to_a_person_if_its_own_machine_has_its_tool_no_more(
    url: str,
) -> None:
    """H7: a host elsewhere that has the tool cannot ask about it."""
    here, there = LocalCut(), LocalCut()
    async with opened(url, here, fleet=on("attic")) as able:
        await deploy(able)
        await publish(able, "a")
        await able.drain()
    since = "select name from upkeep where substr(name, 1, 5) in ('gone ', 'tool ')"
    shown = "select error from mutation where status = 'indeterminate'"
    async with (
        opened(url, Shop(), fleet=on("attic")) as one,
        one.running(),
        opened(url, there, fleet=on("cellar")) as two,
        two.running(),
    ):
        await until(lambda: ask(url, since) == [("tool outside.post attic",)], "since when")
        ask(url, f"update mutation set updated_at = updated_at - {MACHINE_GONE_MS}")
        ask(url, f"update upkeep set at = at - {MACHINE_GONE_MS} where name like 'tool %'")
        await until(lambda: bool(ask(url, shown)), "the call to be shown to a person")
        ((said,),) = ask(url, shown)
        assert "no host with its connector has served there" in said
        (call,) = await two.mutations("notes")
        await two.settle(call.id, "happened")
        await until(lambda: ask(url, since) == [], "what no call waits for to be forgotten")
    assert there.asked == 0


async def test_a_host_that_has_not_said_what_it_has_takes_everything(url: str) -> None:
    """H11, H7: as one of the version before does; and a version that it deployed needs nothing."""
    outside = Outside()
    async with opened(url, outside) as able:
        await deploy(able)
    with psycopg.connect(url, autocommit=True) as server:
        async with opened(url, Shop()) as host:
            assert server.execute("select count(*) from offer").fetchall() != [(0,)]
            server.execute("update host set offers = null")
            assert server.execute("select * from lacking").fetchall() == []
            server.execute("update host set offers = '{}'")
            assert server.execute("select tool from lacking").fetchall() == [("outside.post",)]
            server.execute("delete from need")
            assert server.execute("select * from lacking").fetchall() == []
            assert await host.hosts()
        # What a host has said goes with it.
        assert server.execute("select count(*) from offer").fetchall() == [(0,)]
