"""Late answers are never lost in silence: a full disk, a close, a cancel, a real thread (L1)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from duly.connectors.base import Call, Connector, Unsure, mutation
from duly.connectors.watch import Reply, Watch
from duly.env import Loop
from duly.errors import Refused, RequestRefused, StoreUnavailable, UnknownOutcome
from duly.host import Host
from duly.rules.word import MutationStatus as Row
from duly.sandbox.base import Sandbox
from duly.testing import Stage
from tests.engine.slow import (
    DONE,
    LAG_S,
    OPEN,
    OVERDUE_S,
    TIMEOUT_S,
    UNKNOWN,
    Keyed,
    Mute,
    Slow,
    found,
    hanging,
)
from tests.engine.stand import CONSUMER, Play, consumer, flow, opened
from verification import moves
from verification.scripted import ScriptedSandbox


def failing(
    verb: Callable[..., Awaitable[Any]], is_full: Callable[[], bool]
) -> Callable[..., Awaitable[Any]]:
    """A verb of a store whose disk is full for a while."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        if is_full():
            raise StoreUnavailable("database or disk is full")
        return await verb(*args, **kwargs)

    return call


async def test_a_late_answer_outlasts_a_full_disk(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1, H3: it is written when the disk can take it, and nobody may say no before."""
    slow = Mute()
    play = await hanging(duly_world, slow)
    is_full = True
    late = failing(play.store.record_late, lambda: is_full)
    monkeypatch.setattr(play.store, "record_late", late)
    async with play.host.running():
        await duly_world.advance("1h")
        row = await play.row()
        await slow.end()
        await duly_world.advance("10m")
        assert await found(play) == OPEN
        with pytest.raises(RequestRefused, match="has not returned"):
            await play.host.settle(row.id, "did_not_happen")
        is_full = False
        await duly_world.advance(20)
        assert await found(play) == DONE


async def test_a_late_answer_outlasts_a_close(duly_world: Stage) -> None:
    """L1, L6: a host that closes hears the send to its end, and the next one goes on from there."""
    slow = Slow(Unsure("?"))
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5)
    closing = asyncio.ensure_future(play.host.close())
    await duly_world.advance(1)
    await slow.end()
    await closing
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert await found(play) == DONE
    assert (slow.made, len(slow.sends)) == (1, 1)
    assert [each.crash_count for each in await play.runs()] == [0] * len(await play.runs())


async def test_a_late_answer_of_a_send_again_outlasts_a_close(duly_world: Stage) -> None:
    """L1, L7: a re-send that a stop cuts short is unknown again, and its yes settles it."""
    slow = Keyed()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5)
        assert len(slow.sends) == 2
        await slow.end(1, UnknownOutcome("lost"))
    closing = asyncio.ensure_future(play.host.close())
    await duly_world.advance(1)
    await slow.end(2)
    await closing
    play.host = await duly_world.host(**play.options)
    assert (await play.row()).status == Row.APPLIED
    await play.drain()
    assert await found(play) == DONE
    assert (slow.made, len(slow.sends)) == (1, 2)


async def test_a_late_answer_that_cannot_be_kept_is_in_the_log(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """L1: a host that must end with a full disk says what the answer was."""
    slow = Mute()
    play = await hanging(duly_world, slow)
    monkeypatch.setattr(play.store, "record_late", failing(play.store.record_late, lambda: True))
    async with play.host.running():
        await duly_world.advance("1h")
        await slow.end()
        await duly_world.advance(1)
    caplog.clear()
    await play.host.close()
    assert "a late answer could not be kept: Send 1 of slow.change" in caplog.text
    assert "it was done" in caplog.text


async def test_an_answer_at_the_very_moment_of_a_cancel_is_heard(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1, L3: a caller that is cancelled while the answer is on its way does not take it along."""
    answered, cut = Watch.answered, [True]

    async def cut_off(self: Watch, timeout_s: float | None) -> Reply | None:
        reply = await answered(self, timeout_s)
        if cut and cut.pop():
            raise asyncio.CancelledError
        return reply

    monkeypatch.setattr(Watch, "answered", cut_off)
    play = await opened(duly_world, reconcile=False)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(60)
    assert await found(play) == DONE
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (1, 1, True)


class Halfway(Slow):
    """It answers while a task of its own is still at work."""

    name = "slow"

    @mutation(timeout_s=TIMEOUT_S, lag_s=LAG_S)
    async def change(self, call: Call) -> str:
        self.beside = asyncio.create_task(self._wait_for_ever())
        return await self._change()

    async def _wait_for_ever(self) -> None:
        await asyncio.sleep(1e6)


async def test_a_late_yes_needs_no_end_of_every_part(duly_world: Stage) -> None:
    """L1, L4: a yes is believed at once, a part that hangs beside it or not."""
    slow = Halfway()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(OVERDUE_S + 5)
        await slow.end()
        await duly_world.advance(1)
        assert await found(play) == DONE
        slow.beside.cancel()
        await duly_world.advance(1)
    assert (await play.row()).late is None


async def test_what_a_call_said_is_told_while_a_part_of_it_is_at_work(duly_world: Stage) -> None:
    """L4, L13: a no is not believed before every part has ended; the person sees both."""
    slow = Halfway()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(1)
        await slow.end(1, Refused("no such sheet"))
        await duly_world.advance(TIMEOUT_S)
        assert await found(play) == OPEN
        told = (await play.error())["message"]
        assert "a part of the call was still at work; it had said: no such sheet" in told
        slow.beside.cancel()


async def test_why_the_outside_is_unsure_is_told(duly_world: Stage) -> None:
    """L5, U7: besides what the send itself said."""
    slow = Slow(Unsure("the quota is used up"))
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(1)
        await slow.end(1, UnknownOutcome("connection lost"))
        await duly_world.advance(1)
        assert await found(play) == UNKNOWN
        told = (await play.error())["message"]
        assert ("connection lost" in told, "the quota is used up" in told) == (True, True)


class Threaded(Connector):
    """It blocks in a real thread until the test lets it go."""

    name = "slow"

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.made = 0

    def _block(self) -> str:
        self.begun.set()
        assert self.go.wait(60)
        self.made += 1
        return "done"

    @mutation(timeout_s=0.05, lag_s=0)
    async def change(self, call: Call) -> str:
        return await self.in_thread(self._block)


class RealEnv(Loop):
    """The machine's own clocks and threads; only scripts are played."""

    def wrap_sandbox(self, _: Sandbox) -> Sandbox:
        return ScriptedSandbox(self)


@dataclass
class RealStage:
    """As much of a stage as a play asks for."""

    env: Loop


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition, with a limit no machine needs."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110  # the store has no event for it
            await asyncio.sleep(0.01)


def test_a_real_thread_is_heard_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L1, L6: shown as still out, refused a no, and its own answer is taken at last."""
    monkeypatch.setattr("duly.rules.ledger.GRACE_MS", 0)
    slow = Threaded()
    env = RealEnv()

    async def story() -> None:
        async with Host(f"sqlite:///{tmp_path / 'duly.db'}", connectors=[slow], env=env) as host:
            play = Play(cast(Stage, RealStage(env)), host)
            await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("slow.change"),))}))
            await play.publish("a")
            async with host.running():

                async def stands(row: Row) -> bool:
                    return [each.status for each in await play.rows()] == [row]

                await until(lambda: stands(Row.INDETERMINATE))
                row = await play.row()
                with pytest.raises(RequestRefused, match="has not returned"):
                    await host.settle(row.id, "did_not_happen")
                slow.go.set()
                await until(lambda: stands(Row.APPLIED))
                await until(play.is_clean)
            assert (await play.payloads())["a"] == {"status": "applied", "result": "done"}

    try:
        asyncio.run(story())
    finally:
        slow.go.set()
        env.close()
    assert slow.made == 1


# A run that could not be laid down at the stop is laid down before its late answer is awaited.


@pytest.mark.parametrize("slow", [Mute(), Keyed()], ids=["first send", "send again"])
async def test_a_late_answer_outlasts_a_stop_with_a_full_disk(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, slow: Slow
) -> None:
    """L1, R7, H3: the disk is full while the host stops, and is not any more when it closes."""
    monkeypatch.setattr("duly.engine.scheduler.STOP_S", 1.0)
    play = await hanging(duly_world, slow)
    is_full = False
    for verb in ("succeed_run", "move_run"):
        real = getattr(play.store, verb)
        monkeypatch.setattr(play.store, verb, failing(real, lambda: is_full))
    again = isinstance(slow, Keyed)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5 if again else 5)
        is_full = True
    assert (await play.row()).status == Row.IN_FLIGHT
    is_full = False
    closing = asyncio.ensure_future(play.host.close())
    await duly_world.advance(1)
    await slow.end(len(slow.sends))
    if again:
        await slow.end(1)
    await closing
    play.host = await duly_world.host(**play.options)
    assert (await play.row()).status == Row.APPLIED
