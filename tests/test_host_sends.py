"""A host gives its store back when no send of its is out, wherever that send runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import duly
from duly.env import Loop
from duly.host import Host
from duly.sandbox.base import Sandbox
from tests.engine.stand import CONSUMER, Play, consumer, flow, producer
from verification import moves
from verification.scripted import Scripted, ScriptedSandbox

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0


class Slow(duly.Connector):
    """Its first send hangs where a test says, past its time; it lands when it is let go."""

    name = "slow"

    def __init__(self, where: str) -> None:
        self.where = where
        self.begun = threading.Event()
        self.free = threading.Event()
        self.landed: list[str] = []

    def send(self) -> str:
        self.begun.set()
        assert self.free.wait(PATIENCE_S)
        self.landed.append("post")
        return "done"

    async def stubborn(self) -> str:
        self.begun.set()
        while not self.free.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
        self.landed.append("post")
        return "done"

    @duly.mutation(lag_s=0, timeout_s=0.5)
    async def post(self, call: duly.Call) -> str:
        if self.where == "in_thread":
            return await self.in_thread(self.send)
        if self.where == "to_thread":
            return await asyncio.to_thread(self.send)
        if self.where == "executor":
            return await asyncio.get_running_loop().run_in_executor(None, self.send)
        if self.where == "task":
            return await asyncio.shield(asyncio.ensure_future(self.stubborn()))
        return await self.stubborn()

    @post.reconcile
    async def post_happened(self, call: duly.Call) -> Any:
        return duly.Applied() if self.landed else duly.NotApplied()


class Played(Loop):
    """The real world, but scripts are played: no worker is started."""

    def wrap_sandbox(self, _: Sandbox) -> Sandbox:
        return ScriptedSandbox(self)


POSTS = flow({CONSUMER: consumer(mutate=(moves.Call("slow.post"),))})


async def opened(url: str, *connectors: duly.Connector) -> Play:
    env = Played()
    host = await Host(url, connectors=connectors, env=env).open()
    stage: Any = SimpleNamespace(env=env)
    return Play(stage, host)


async def until(fact: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = fact()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def sending(url: str, slow: Slow) -> AsyncIterator[Host]:
    """Open a host and bring it to where its one send is out, and its time is over."""
    play = await opened(url, slow)
    host = play.host
    try:
        await play.deploy(POSTS)
        await play.publish("1")
        async with host.running():
            await until(slow.begun.is_set)

            async def is_given_up() -> bool:
                return [each.status for each in await host.mutations()] != ["in_flight"]

            await until(is_given_up)
            assert host.sending == ("slow.post",)
        yield host
    finally:
        slow.free.set()
        await host.close()
        play.stage.env.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duly.db"


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.connectors.watch.END_S", 0.05)
    monkeypatch.setattr("duly.host.END_S", 0.05)


@pytest.mark.parametrize("where", ["in_thread", "to_thread", "executor", "task", "coroutine"])
async def test_a_host_keeps_its_store_while_a_send_is_out(url: str, where: str) -> None:
    """L6, H1: closing says what is out and keeps the lock; later it gives the store back."""
    slow = Slow(where)
    async with sending(url, slow) as host:
        with pytest.raises(duly.StillSending, match=r"slow\.post: still being sent") as raised:
            await host.close(wait_s=0)
        assert raised.value.out == ("slow.post",)
        with pytest.raises(duly.StoreInUse):
            await Host(url, connectors=[slow]).open()
        slow.free.set()
        await host.close()
        await host.close()
    assert slow.landed == ["post"]
    # Nothing was taken for a change that did not happen.
    async with Host(url, connectors=[slow]) as after:
        (row,) = await after.mutations()
        assert row.status in ("needs_reconcile", "indeterminate", "applied")


async def test_a_close_that_was_cancelled_can_be_done_again(url: str) -> None:
    """L6: the loop goes on meanwhile, and the wait for a send is limited."""
    slow = Slow("in_thread")
    async with sending(url, slow) as host:
        closing = asyncio.ensure_future(host.close(wait_s=0.05))
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing], timeout=PATIENCE_S)
        assert closing.cancelled()
        assert host.sending == ("slow.post",)
        with pytest.raises(duly.StoreInUse):
            await Host(url).open()
        slow.free.set()
        await host.close()
    async with Host(url):
        pass


async def test_a_question_that_never_ends_holds_no_host(url: str) -> None:
    """L13: a read in a thread that never returns is left behind, and the host closes."""

    class Deaf(duly.Connector):
        name = "deaf"
        free = threading.Event()

        @duly.read(timeout_s=0.05)
        async def look(self) -> None:
            await self.in_thread(self.free.wait, PATIENCE_S)

    deaf = Deaf()
    looks: Scripted = flow({}, {"look": producer(moves.Call("deaf.look"), every="1h")})
    play = await opened(url, deaf)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await play.deploy(looks)
            await play.drain()
            assert (await play.run()).state.status == "paused:transient"
            assert play.host.is_haunted
            await play.host.close()
    finally:
        deaf.free.set()
        play.stage.env.close()
