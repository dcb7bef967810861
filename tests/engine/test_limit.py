"""Every limit of a run: what stands at it passes, what is one past it is a logic failure (N)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.config import Limits, Policy
from duly.connectors.base import Connector, read
from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.stand import IN, NOTHING, OUT, PRODUCER, Play, flow, opened, producer, publish
from tests.spoken import short, told
from verification.moves import Call, Each, Let, Move, Return

SMALL = Limits(
    state_bytes=20,
    payload_bytes=20,
    data_bytes=1000,
    result_bytes=20,
    publishes_per_run=3,
    publish_bytes_per_run=40,
    calls_per_step=3,
)


class Tape(Connector):
    """Answers a text of the length that is asked for."""

    name = "tape"

    @read
    async def play(self, chars: int) -> str:
        return "x" * chars


async def produced(stage: Stage, *moves: Move, limits: Limits = SMALL) -> Play:
    """Let a producer make its moves under small limits."""
    play = await opened(stage, policy=Policy(limits=limits), connectors=(Tape(),))
    await play.deploy(flow({}, {PRODUCER: producer(*moves)}))
    await play.drain()
    return play


def many(count: int, move: Move) -> tuple[Move, ...]:
    return (Let("all", list(range(count))), Each("all", "one", (move,)))


EVENT = publish({"$ref": "one"}, payload="x")
# The quotes of a JSON text count: a text of 18 characters is 20 bytes.
CASES: dict[str, tuple[tuple[Move, ...], tuple[Move, ...], str]] = {
    "state": ((Return("x" * 18),), (Return("x" * 19),), "state"),
    "payload": (
        (publish("a", payload="x" * 18),),
        (publish("a", payload="x" * 19),),
        "publish.payload",
    ),
    "tool result": (
        (Call("tape.play", (), {"chars": 18}),),
        (Call("tape.play", (), {"chars": 19}),),
        "tape.play",
    ),
    "publishes": (many(3, EVENT), many(4, EVENT), "at most 3 events"),
    "bytes published": (
        (publish("a", payload="x" * 18), publish("b", payload="x" * 18)),
        (publish("a", payload="x" * 18), publish("b", payload="x" * 18), publish("c", payload=1)),
        "at most 40 bytes",
    ),
    "calls": (
        many(3, Call("tape.play", (), {"chars": 1})),
        many(4, Call("tape.play", (), {"chars": 1})),
        "at most 3 calls",
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_what_stands_at_a_limit_passes_and_one_past_it_fails(
    duly_world: Stage, name: str
) -> None:
    """N, X2: the failure names the limit, and nothing of the run is kept."""
    at, past, says = CASES[name]
    play = await produced(duly_world, *at)
    assert (await play.run()).status == Status.COMMITTED
    kept = await play.statuses()
    await play.deploy(flow({}, {PRODUCER: producer(*past)}))
    await play.host.run_now("flow")
    await play.drain()
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert says in (await play.error())["message"]
    assert await play.statuses() == kept


@pytest.mark.parametrize(("depth", "status"), [(100, "committed"), (101, "failed:logic")])
async def test_a_payload_may_be_a_hundred_levels_deep(
    duly_world: Stage, depth: int, status: str
) -> None:
    """N, T8: whatever it is wrapped in on its way."""
    nested: list[object] = []
    for _ in range(depth - 1):
        nested = [nested]
    limits = replace(SMALL, payload_bytes=1000, publish_bytes_per_run=1000)
    play = await produced(duly_world, publish("a", payload=nested), limits=limits)
    assert (await play.run()).status == status


# -- What a handler may name -----------------------------------------------------------------------


async def test_a_handler_publishes_only_where_it_said_it_would(duly_world: Stage) -> None:
    """W3, W4: a list of its own is enforced, and no topic springs into being."""
    play = await opened(duly_world)
    script = flow({}, {PRODUCER: producer(publish("a", topic=OUT))})
    script.declaration["producers"][PRODUCER]["publishes"] = [IN]
    await play.deploy(script)
    await play.drain()
    assert (await play.run()).status == Status.FAILED_LOGIC
    assert "publishes" in (await play.error())["message"]
    await play.deploy(flow({}, {PRODUCER: producer(publish("a", topic="nowhere"))}))
    await play.drain()
    assert '"nowhere" is not declared' in (await play.error())["message"]


async def test_a_run_keeps_what_it_called_and_why_it_failed(duly_world: Stage) -> None:
    """R1: tool, arguments without secrets, outcome and duration of every call; then the error."""
    tape = Call("tape.play", (), {"chars": 1}, line=7)
    play = await produced(duly_world, tape, Call("tape.play", (), {"chars": -1}), Return(NOTHING))
    run = await play.run()
    assert run.calls == (
        '[{"tool":"tape.play","args":"{\\"chars\\":1}","outcome":"ok","duration_ms":0},'
        '{"tool":"tape.play","args":"{\\"chars\\":-1}","outcome":"ok","duration_ms":0}]'
    )
    wrong = Call("tape.rewind", (), {}, line=9)
    await play.deploy(flow({}, {PRODUCER: producer(wrong)}))
    await play.host.run_now("flow")
    await play.drain()
    error = await play.error()
    assert (error["class"], error["tool"], error["line"]) == ("logic", "tape.rewind", 9)


async def test_a_person_is_told_in_one_sentence_once(duly_world: Stage) -> None:
    """F8: who needs a person says so on the run, in words, and the workflow stands accordingly."""
    play = await produced(duly_world, Call("tape.rewind", (), {}, line=9))
    run = await play.run()
    assert run.escalated is not None
    assert told(run).startswith("The script failed: “There is no tool")
    shown = await play.host.workflow("flow")
    assert (shown.standing, short(play.host, shown)) == ("needs attention", told(run))
