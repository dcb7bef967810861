"""A call is watched to the end of its last part, and whatever it raises is one plain error."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any

import pytest

from duly.connectors import attach as hooks
from duly.connectors.registry import Registry
from duly.connectors.watch import Watch
from duly.errors import AuthNeeded, NotSent, Refused, UnknownOutcome
from tests.connectors.many import PATIENCE_S, Many, attached, sending, until
from tests.connectors.sheets import make_call

__all__ = ["attached"]

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.connectors.watch.END_S", 0.01)


# -- The end of a call ------------------------------------------------------------------------


async def in_own_thread(many: Many, _: Any) -> Any:
    return await many.in_thread(many.block)


async def to_thread(many: Many, _: Any) -> Any:
    return await asyncio.to_thread(many.block)


async def in_executor(many: Many, _: Any) -> Any:
    pool = ThreadPoolExecutor(1)
    job = asyncio.get_running_loop().run_in_executor(pool, many.block)
    pool.shutdown(wait=False)
    return await job


async def in_a_task(many: Many, _: Any) -> Any:
    async def stubborn() -> str:
        while not many.free.is_set():
            many.begun.set()
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                continue
        return "done"

    return await asyncio.shield(asyncio.ensure_future(stubborn()))


async def in_a_nested_thread(many: Many, _: Any) -> Any:
    async def other() -> Any:
        return await asyncio.to_thread(many.block)

    return await asyncio.gather(asyncio.create_task(other()))


@pytest.mark.parametrize(
    "act", [in_own_thread, to_thread, in_executor, in_a_task, in_a_nested_thread]
)
async def test_a_send_has_ended_when_its_last_part_has(attached: None, act: Any) -> None:
    """L6: that its coroutine was told to stop is no end, wherever its work goes on."""
    many = Many(act)
    watch = sending(many)
    try:
        await until(many.begun.is_set)
        assert await watch.answered(0.01) is None
        assert (watch.is_out, watch.ended_at_ms) == (True, None)
        ended: list[int | None] = []
        watch.on_end(lambda: ended.append(watch.ended_at_ms))
        await asyncio.sleep(0.02)
        assert ended == []
    finally:
        many.free.set()
    assert await watch.settled(PATIENCE_S)
    assert not watch.is_out
    assert ended == [watch.ended_at_ms]


async def test_the_late_answer_of_a_thread_is_the_calls_own(attached: None) -> None:
    """L1, L6: a mutation that only waited for its thread answers with what that answered."""
    many = Many(in_own_thread)
    watch = sending(many)
    await until(many.begun.is_set)
    assert await watch.answered(0.01) is None
    many.free.set()
    assert await watch.settled(PATIENCE_S)
    assert watch.reply is not None
    assert watch.reply.value == "done"


@pytest.mark.parametrize("tool", ["many.change", "many.put"])
async def test_after_its_time_nothing_more_of_a_call_is_begun(attached: None, tool: str) -> None:
    """L7: neither what waited for a thread, nor the next step of who swallows the wish to stop."""
    steps: list[str] = []

    async def act(many: Many, _: Any) -> Any:
        try:
            await many.in_thread(many.block)
        except asyncio.CancelledError:
            steps.append("swallowed")
        for begin in (many.in_thread, asyncio.to_thread):
            try:
                await begin(steps.append, "sent")
            except UnknownOutcome:
                steps.append("refused")

    many = Many(act)
    watch = sending(many, tool)
    await until(many.begun.is_set)
    assert await watch.answered(0.01) is None
    many.free.set()
    assert await watch.settled(PATIENCE_S)
    # One whose late answer is wanted is told to stop again, so it may end before it is refused.
    assert "refused" in steps or tool == "many.change"
    assert "sent" not in steps


async def test_after_its_time_a_job_that_waited_for_a_thread_is_not_begun(attached: None) -> None:
    """L7: nothing leaves after `send_by`, also where the host has not yet looked at the clock."""
    many = Many(in_own_thread)
    watch = Watch("many.change", clock=lambda: 0, timeout_s=0)
    watch.begin(many.change(make_call("many.change")))
    reply = await watch.answered(PATIENCE_S)
    assert reply is not None
    assert isinstance(reply.error, UnknownOutcome)
    assert not many.begun.is_set()


@pytest.mark.parametrize("error", [NotSent("no"), Refused("no"), AuthNeeded("no")])
async def test_a_definite_no_waits_for_what_is_still_at_work(
    attached: None, error: Exception
) -> None:
    """L4, L6: "nothing was done" is not believed while a thread of the call may still do it."""

    async def act(many: Many, _: Any) -> Any:
        many.kept = asyncio.ensure_future(asyncio.to_thread(many.block))  # type: ignore[attr-defined]
        await until(many.begun.is_set)
        raise error

    many = Many(act)
    watch = sending(many)
    await until(lambda: watch.withheld is not None)
    assert await watch.answered(0.01) is None
    assert isinstance(watch.withheld, type(error))
    many.free.set()
    assert await watch.settled(PATIENCE_S)
    assert watch.reply is not None
    assert isinstance(watch.reply.error, type(error))
    assert watch.withheld is None


async def test_an_end_is_taken_back_when_another_part_begins(attached: None) -> None:
    """L6: a timer of the call may begin a task when all else is over."""
    gate = asyncio.Event()

    async def act(many: Many, _: Any) -> Any:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, lambda: loop.create_task(gate.wait()))
        raise UnknownOutcome("?")

    watch = sending(Many(act))
    await watch.answered(PATIENCE_S)
    assert not watch.is_out
    await until(lambda: watch.is_out)
    gate.set()
    assert await watch.settled(PATIENCE_S)
    assert not watch.is_out


async def test_what_a_done_call_leaves_behind_holds_nothing(attached: None) -> None:
    """L9: it was done and said so; a connection it keeps open is no send."""

    async def act(many: Many, _: Any) -> Any:
        many.kept = asyncio.ensure_future(asyncio.Event().wait())  # type: ignore[attr-defined]
        return "done"

    many = Many(act)
    registry = Registry([many])
    watch = registry.send(registry.catalog.find("many.change"), make_call("many.change"))
    reply = await watch.answered(PATIENCE_S)
    assert reply is not None
    assert (reply.value, watch.is_out, registry.sends_out()) == ("done", True, ())
    watch.stop(is_all=True)
    assert await watch.settled(PATIENCE_S)


async def test_a_task_in_a_context_of_its_own_is_no_part(attached: None) -> None:
    """L6: how a connector keeps something going that belongs to no call."""

    async def act(many: Many, _: Any) -> Any:
        loop = asyncio.get_running_loop()
        many.kept = loop.create_task(asyncio.Event().wait(), context=Context())  # type: ignore[attr-defined]
        raise NotSent("no")

    many = Many(act)
    watch = sending(many)
    reply = await watch.answered(PATIENCE_S)
    assert reply is not None
    assert isinstance(reply.error, NotSent)
    assert not watch.is_out
    many.kept.cancel()  # type: ignore[attr-defined]


# -- The loop ---------------------------------------------------------------------------------


async def test_a_loop_is_given_back_as_it_was() -> None:
    """L6: two hosts share a hook, a factory that was there is asked, and goes on being there."""
    loop = asyncio.get_running_loop()
    made: list[str] = []

    def factory(loop: Any, work: Any, **more: Any) -> Any:
        made.append(work.__name__)
        return asyncio.Task(work, loop=loop, **more)

    before = loop.get_task_factory()
    loop.set_task_factory(factory)
    try:
        hooks.attach(loop)
        hooks.attach(loop)
        hooks.detach(loop)
        many = Many(to_thread)
        many.free.set()
        watch = sending(many)
        reply = await watch.answered(PATIENCE_S)
        assert reply is not None
        assert reply.value == "done"
        assert made == ["change"]
        hooks.detach(loop)
        assert loop.get_task_factory() is factory
        assert "run_in_executor" not in vars(loop)
    finally:
        loop.set_task_factory(before)


# -- What is left behind ----------------------------------------------------------------------


async def swallow(many: Many, _: Any) -> Any:
    while not many.free.is_set():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            continue


async def swallow_within(many: Many, _: Any) -> Any:
    other = Many(swallow)
    other.free = many.free
    return await other.look()


@pytest.mark.parametrize("act", [swallow, swallow_within, in_own_thread, to_thread, in_a_task])
async def test_a_question_that_does_not_stop_is_left_behind(attached: None, act: Any) -> None:
    """L13: a read and a reconcile end at their time, whatever their connector does."""
    many = Many(act)
    registry = Registry([many])
    change = registry.catalog.find("many.change")
    try:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(TimeoutError, match="gave no answer"):
                await registry.read(registry.catalog.find("many.look"), {})
            with pytest.raises(TimeoutError, match="gave no answer"):
                await registry.reconcile(change, make_call("many.change"), limit_s=0.01)
        assert registry.is_at_work()
        assert registry.sends_out() == ()
    finally:
        many.free.set()
    await until(lambda: not registry.is_at_work())


async def test_questions_that_hang_keep_no_change_from_its_thread(attached: None) -> None:
    """L13: as many as there are threads hang, and a change still finds one."""
    many = Many(in_own_thread)
    registry = Registry([many])
    look = registry.catalog.find("many.look")
    asking = [asyncio.ensure_future(registry.read(look, {})) for _ in range(20)]
    await until(many.begun.is_set)
    try:
        done: list[str] = []
        many.act = lambda many, _: many.in_thread(done.append, "sent")
        watch = registry.send(registry.catalog.find("many.change"), make_call("many.change"))
        reply = await watch.answered(PATIENCE_S)
        assert (reply is not None and reply.error, done) == (None, ["sent"])
    finally:
        many.free.set()
    await asyncio.gather(*asking, return_exceptions=True)


# A part of a call that was never begun is no part that is at work.


async def in_a_pool_that_is_shut(many: Many, _: Any) -> Any:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    return await asyncio.get_running_loop().run_in_executor(pool, many.block)


async def in_a_thread_of_its_own(many: Many, _: Any) -> Any:
    return await many.in_thread(many.block)


async def in_a_thread_of_the_loop(many: Many, _: Any) -> Any:
    return await asyncio.to_thread(many.block)


@pytest.mark.parametrize(
    "act", [in_a_pool_that_is_shut, in_a_thread_of_its_own, in_a_thread_of_the_loop]
)
async def test_a_job_that_no_thread_takes_is_not_at_work(
    attached: None, act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L6, L13: where no thread can be had the call has ended, and nothing of it is done later."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    many = Many(act)
    many.free.set()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        watch = sending(many)
        reply = await watch.answered(30)
    assert reply is not None
    assert isinstance(reply.error, RuntimeError)
    assert (watch.is_out, watch.parts) == (False, ())
    await many.in_thread(lambda: None)  # a thread that works off what stood in the row
    await asyncio.to_thread(lambda: None)
    assert not many.begun.is_set()
