"""Calls of two steps: what the first made is on the disk before the second is sent (L14)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, Verdict, mutation
from duly.errors import Invalid, Stale, UnknownOutcome
from duly.rules.value import Json, decode
from duly.rules.word import MutationStatus as Row
from duly.testing import Stage
from tests.engine.stand import CONSUMER, Play, consumer, flow, opened
from verification.moves import Call as ScriptCall
from verification.moves import ref

LAG_S = 5


class Post(Connector):
    """A service with drafts: a call makes one, and sends it in a second step."""

    name = "post"

    def __init__(self) -> None:
        self.drafts: dict[str, str] = {}
        self.sent: list[str] = []
        self.asked_with: list[Json] = []
        self.calls: list[Json] = []
        self.between: Callable[[Call], Any] = lambda call: None
        self.is_lost = False

    @mutation(lag_s=LAG_S)
    async def send(self, call: Call, text: str) -> str:
        """Send a text."""
        self.calls.append(call.handle)
        draft = str(call.handle or f"draft-{len(self.drafts) + 1}")
        self.drafts.setdefault(draft, text)
        if call.handle is None:
            await call.keep(draft)
        self.between(call)
        self.sent.append(self.drafts.pop(draft))
        if self.is_lost:
            raise UnknownOutcome("the answer was lost")
        return draft

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        """A draft that is gone was sent; without a handle nothing was."""
        self.asked_with.append(call.handle)
        if call.handle is None:
            return NotApplied()
        return Unsure("the draft is here") if str(call.handle) in self.drafts else Applied("sent")


SEND = ScriptCall("post.send", (), {"text": ref("prepared.data.text")})


async def begun(stage: Stage, post: Post) -> Play:
    """Let a consumer be about to send one text."""
    play = await opened(stage, connectors=(post,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(SEND,))}))
    await play.publish("a")
    return play


async def test_a_handle_is_on_the_row_before_the_second_step(duly_world: Stage) -> None:
    """L14: when `keep` returned, the ledger has the handle, under a seal that fits."""
    post = Post()
    seen: list[tuple[Any, ...]] = []

    def look(call: Call) -> None:
        found = play.store.backend.connection.execute("select handle, status from mutation")  # type: ignore[attr-defined]
        seen.append((*found.fetchone(), call.handle))

    post.between = look
    play = await begun(duly_world, post)
    await play.drain()
    assert seen == [('"draft-1"', Row.IN_FLIGHT, "draft-1")]
    row = await play.row()
    assert (row.status, decode(row.handle or "")) == (Row.APPLIED, "draft-1")
    assert (await play.host.verify()).changed == ()


async def test_a_crash_between_the_steps_is_asked_about_with_the_handle(duly_world: Stage) -> None:
    """L14: the host died after `keep`: the next one asks with the handle and sends nothing."""
    post = Post()
    play = await begun(duly_world, post)
    await play.crash_during(keep_handle="after")
    post.asked_with.clear()  # what a host asks when it is dead, no real one does
    assert (post.drafts, post.sent) == ({"draft-1": "a"}, [])
    del post.drafts["draft-1"]  # the second step left after all, as a late request does
    post.sent.append("a")
    await play.drain()
    await play.pass_by(LAG_S + 60)
    assert (post.asked_with[0], post.sent) == ("draft-1", ["a"])
    assert ((await play.row()).status, await play.is_clean()) == (Row.APPLIED, True)


async def test_a_crash_before_the_handle_is_kept_sends_no_second_step(duly_world: Stage) -> None:
    """L14: without a handle the second step never left, and the call is made anew once."""
    post = Post()
    play = await begun(duly_world, post)
    await play.crash_during(keep_handle="before")
    post.asked_with.clear()
    await play.drain()
    await play.pass_by(LAG_S + 60)
    await play.pass_by(60)  # the successor waits like one of any temporary failure
    assert (post.asked_with[0], post.sent) == (None, ["a"])
    assert [each.status for each in await play.rows()] == [Row.FAILED, Row.APPLIED]


async def test_a_lost_answer_is_asked_about_with_the_handle_at_once(duly_world: Stage) -> None:
    """L5, L14: also the question that follows the send itself has the handle."""
    post = Post()
    post.is_lost = True
    play = await begun(duly_world, post)
    await play.drain()
    assert (post.asked_with, post.sent) == (["draft-1"], ["a"])
    assert (await play.row()).status == Row.APPLIED


async def test_a_handle_that_the_store_does_not_take_stops_the_call(duly_world: Stage) -> None:
    """L14, H2: where the row is another host's by now, `keep` raises and nothing more is sent."""
    post = Post()
    play = await begun(duly_world, post)

    async def stale(*args: Any, **named: Any) -> None:
        raise Stale(code="changed_meanwhile", subject="mutation_1")

    object.__setattr__(play.store, "keep_handle", stale)
    await play.drain()
    assert (post.sent, post.asked_with[0]) == ([], None)


@pytest.mark.parametrize("handle", [None, {"big": "x" * 5000}, "with geheim-77 in it"])
async def test_a_handle_is_small_and_has_no_secret(duly_world: Stage, handle: Json) -> None:
    """L14, A5: what cannot be kept raises, and the second step is not sent."""
    post = Post()
    play = await begun(duly_world, post)
    play.desk.parts.outside.remember("geheim-77")
    raised: list[BaseException] = []

    async def send(call: Call, text: str) -> str:
        try:
            await call.keep(handle)
        except Invalid as error:
            raised.append(error)
            raise
        return text

    object.__setattr__(post, "send", send)
    await play.drain()
    assert (len(raised), post.sent) == (1, [])
    assert (await play.row()).handle is None


async def test_a_changed_handle_is_not_used(duly_world: Stage) -> None:
    """L11, L14: a handle that another program wrote asks nothing: a person must look."""
    post = Post()
    play = await begun(duly_world, post)
    await play.crash_during(keep_handle="after")
    post.asked_with.clear()
    play.tamper("""update mutation set handle = '"draft-9"'""")
    await play.drain()
    assert (post.asked_with, post.sent) == ([], [])
    assert (await play.row()).status == Row.INDETERMINATE


async def test_a_reconcile_keeps_nothing() -> None:
    """L14: only a send has something to write down."""
    call = Call("post.send", {}, "key", "flow", 1, datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(Invalid, match="not by a reconcile"):
        await call.keep("x")
