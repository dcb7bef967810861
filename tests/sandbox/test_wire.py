"""The wire: every frame of a worker is hostile until it was checked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.sandbox import wire
from duly.sandbox.wire import Channel, Closed, Tally, Turn, Violation, frame, pack, unpack


def call(number: int) -> wire.Call:
    return wire.Call(id=number, path="a.b", args=[], stack="")


PATIENCE_S = 120
ENDED = wire.End(missing=True)
FAULT = wire.Fault(name="", message="x", stack="")


def test_a_turn_survives_the_wire() -> None:
    """X3: what is written is what is read."""
    turn = Turn(calls=(call(1),), logs=(wire.Line(after_ms=3, text="é"),))
    assert unpack(pack(turn), Turn) == turn


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"calls":[],"logs":[],"end":{}}',
        b'{"end":{"missing":true,"stalled":true}}',
        b'{"end":{"value":1,"error":{"name":"","message":"","stack":""}}}',
        b'{"surprise":1}',
        b'{"calls":[{"id":"1","path":"a","args":[],"stack":""}]}',
        b'{"calls":[{"id":1,"path":"a","args":{},"stack":""}]}',
        b'{"calls":[{"id":1,"path":"a","args":[],"stack":""}],"end":{"missing":true}}',
        b'{"logs":[{"after_ms":"soon","text":""}]}',
        b'{"logs":[{"after_ms":0,"text":"\\ud800"}]}',
        b'{"logs":[{"after_ms":0,"text":"\xed\xa0\x80"}]}',
        b'{"end":{"value":NaN}}',
        b'{"end":{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)
def test_what_is_no_turn_is_a_violation(body: bytes) -> None:
    """X3: shape, types and unknown fields are checked, whatever the worker is."""
    with pytest.raises(Violation):
        unpack(body, Turn)


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_violation(body: bytes) -> None:
    """X3: nothing but Violation comes out of hostile bytes."""
    try:
        unpack(body, Turn)
    except Violation:
        return


def test_null_is_a_value_and_missing_is_not() -> None:
    """P2: null and nothing are told apart."""
    assert unpack(b'{"end":{"value":null}}', Turn).end == wire.End(value=None)
    assert unpack(b'{"end":{"missing":true}}', Turn).end == ENDED


def test_a_missing_argument_has_no_value() -> None:
    """P2: the first state is nothing, which is not null."""
    assert pack(wire.Argument()) == b"{}"
    assert pack(wire.Argument(None)) == b'{"value":null}'


def test_calls_are_numbered_without_a_gap() -> None:
    """C8: in the order in which they were made."""
    tally = Tally()
    tally.record(Turn(calls=(call(1), call(2))))
    tally.settle(1)
    tally.record(Turn(calls=(call(3),)))
    assert tally.waiting == {2, 3}


@pytest.mark.parametrize("numbers", [(0,), (2,), (1, 1), (1, 3), (2, 1)])
def test_other_numbers_are_a_violation(numbers: tuple[int, ...]) -> None:
    """C8: a call twice, out of order or out of nowhere breaks the worker."""
    with pytest.raises(Violation):
        Tally().record(Turn(calls=tuple(call(number) for number in numbers)))


def test_returning_before_every_call_was_answered_is_a_violation() -> None:
    """C8: a call the script did not await is still waited for."""
    tally = Tally()
    tally.record(Turn(calls=(call(1),)))
    with pytest.raises(Violation, match="before every call was answered"):
        tally.record(Turn(end=ENDED))


def test_breaking_while_a_call_waits_is_none() -> None:
    """X2: a script may break at any time."""
    tally = Tally()
    tally.record(Turn(calls=(call(1),)))
    tally.record(Turn(end=wire.End(error=FAULT)))


def test_neither_asking_nor_ending_is_a_violation() -> None:
    """X2: it would never be asked again."""
    with pytest.raises(Violation, match="neither asked nor ended"):
        Tally().record(Turn())


# The channel, over a real socket pair.


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


async def test_a_frame_may_come_in_pieces(ends: Ends) -> None:
    """X3: however the kernel cuts it."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    receiving = asyncio.ensure_future(channel.receive(PATIENCE_S))
    for piece in (frame(b"hello")[at : at + 1] for at in range(9)):
        ends[1].send(piece)
        await asyncio.sleep(0)
    assert await receiving == b"hello"


async def test_what_is_sent_is_framed(ends: Ends) -> None:
    """X3: four bytes of length, then the body."""
    await Channel(ends[0], asyncio.get_running_loop()).send(b"hello")
    assert ends[1].recv(100) == b"\x05\0\0\0hello"


async def test_a_cancelled_receive_loses_nothing(ends: Ends) -> None:
    """X2: the watchdog looks and waits again."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello")[:6])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await channel.receive(PATIENCE_S)
    ends[1].send(frame(b"hello")[6:])
    assert await channel.receive(PATIENCE_S) == b"hello"


async def test_a_frame_past_the_limit_is_refused_before_it_is_read(ends: Ends) -> None:
    """X2: one byte past the limit is refused by its announcement."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(wire.LENGTH.pack(wire.FRAME_BYTES_MAX + 1))
    with pytest.raises(Violation, match="the limit is"):
        await channel.receive(PATIENCE_S)


async def test_a_frame_at_the_limit_is_read(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: the limit itself is fine."""
    monkeypatch.setattr(wire, "FRAME_BYTES_MAX", 5)
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello"))
    assert await channel.receive(PATIENCE_S) == b"hello"


async def test_more_than_one_frame_is_a_violation(ends: Ends) -> None:
    """X3: a worker answers once."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello") + b"!")
    with pytest.raises(Violation, match="more than it was asked"):
        await channel.receive(PATIENCE_S)


async def test_a_closed_channel_is_told(ends: Ends) -> None:
    """X2: a worker that is gone is no silence."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello")[:6])
    ends[1].close()
    with pytest.raises(Closed):
        await channel.receive(PATIENCE_S)
    with pytest.raises(Closed):
        await channel.send(b"x")


async def test_who_speaks_without_being_asked_is_not_heard_again(ends: Ends) -> None:
    """X2: not even as the answer to what is asked later."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello"))
    assert await channel.receive(PATIENCE_S) == b"hello"
    ends[1].send(frame(b"unasked"))
    with pytest.raises(Violation, match="more than it was asked"):
        await channel.send(b"question")
    await asyncio.sleep(0.01)
    with pytest.raises(Violation, match="more than it was asked"):
        await channel.receive(PATIENCE_S)


async def test_what_came_while_nobody_waited_is_kept(ends: Ends) -> None:
    """X2: a watchdog that looks at the clock in between loses no turn."""
    channel = Channel(ends[0], asyncio.get_running_loop())
    ends[1].send(frame(b"hello"))
    await asyncio.sleep(0.01)
    assert await channel.receive(PATIENCE_S) == b"hello"


async def test_a_frame_that_does_not_come_in_time_is_none(ends: Ends) -> None:
    """X2: also when an alarm of an earlier wait is still set, for a later time or a sooner one."""
    loop = asyncio.get_running_loop()
    channel = Channel(ends[0], loop)
    ends[1].send(frame(b"hello"))
    assert await channel.receive(PATIENCE_S) == b"hello"
    channel.send_now(b"question")
    begun_s = loop.time()
    assert await channel.receive(0.02) is None
    assert await channel.receive(0.03) is None
    assert 0.05 <= loop.time() - begun_s < PATIENCE_S
    ends[1].send(frame(b"late"))
    assert await channel.receive(0.02) == b"late"
    channel.close()


async def test_short_turns_set_no_timer_each(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """X2: of many frames that come in time, only the first sets an alarm."""
    loop, alarms = asyncio.get_running_loop(), 0
    channel, call_at = Channel(ends[0], loop), loop.call_at

    def counting(*args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        nonlocal alarms
        alarms += 1
        return call_at(*args, **kwargs)

    monkeypatch.setattr(loop, "call_at", counting)
    for _ in range(20):
        loop.call_soon(ends[1].send, frame(b"hello"))
        assert await channel.receive(PATIENCE_S) == b"hello"
        channel.send_now(b"question")
    assert alarms == 1
    channel.close()
