"""What a script can make its host hold: answers wait by bytes, and long sums stop nobody (X2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from duly.config import Limits, Policy
from duly.connectors.base import Connector, read
from duly.engine import live
from duly.engine.together import Together
from duly.rules.redaction import AT_ONCE_CHARS, Redactor
from duly.rules.value import LIGHT_VALUES, is_light
from duly.rules.value import encode as value_text
from duly.rules.word import Status
from duly.sandbox.base import ScriptCall
from duly.testing import Stage, VirtualEnv
from tests.engine.stand import PRODUCER, consumer, flow, opened, producer, publish
from verification.moves import Call, Return, Say, Wait
from verification.scripted import ScriptedScript

# -- Room -----------------------------------------------------------------------------------------


class Asked:
    """Answers calls when it is told to, with as many bytes as it is told."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.told: dict[int, asyncio.Future[int]] = {}

    async def answer(self, call: ScriptCall) -> msgspec.Raw:
        self.begun.append(call.id)
        self.told[call.id] = asyncio.get_running_loop().create_future()
        return msgspec.Raw(b"x" * await self.told[call.id])


def calls(count: int) -> list[ScriptCall]:
    return [ScriptCall(number, "tape.play") for number in range(1, count + 1)]


async def rest() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_call_is_begun_when_there_is_room_for_its_answer() -> None:
    """X2: so many as fit at their largest, in their order; the next when one was handed over."""
    asked = Asked()
    async with Together(asked.answer, lambda call: 10, 35) as together:
        together.ask(calls(6))
        await rest()
        assert (asked.begun, together.held_bytes) == ([1, 2, 3], 30)
        for number in (1, 2, 3):
            asked.told[number].set_result(10)
        await rest()
        assert asked.begun == [1, 2, 3]
        call_id, answer = await together.first()
        assert (call_id, len(answer)) == (1, 10)
        assert asked.begun == [1, 2, 3]  # it is still in our hands
        together.handed()
        await rest()
        assert (asked.begun, together.held_bytes) == ([1, 2, 3, 4], 30)


async def test_a_small_answer_makes_room_for_more() -> None:
    """X2: an answer that is there counts by its size, also while an older one is still out."""
    asked = Asked()
    async with Together(asked.answer, lambda call: 10, 35) as together:
        together.ask(calls(6))
        await rest()
        asked.told[2].set_result(1)
        await rest()
        assert (asked.begun, together.held_bytes) == ([1, 2, 3, 4], 31)
        asked.told[3].set_result(1)
        await rest()
        assert (asked.begun, together.held_bytes) == ([1, 2, 3, 4, 5], 32)


async def test_the_first_is_begun_also_if_it_may_be_larger_than_the_room() -> None:
    """X2: nobody waits for ever; then it is alone."""
    asked = Asked()
    async with Together(asked.answer, lambda call: 100, 35) as together:
        together.ask(calls(3))
        for number in (1, 2, 3):
            await rest()
            assert asked.begun == list(range(1, number + 1))
            asked.told[number].set_result(100)
            assert (await together.first())[0] == number
            together.handed()
        assert together.is_empty
        assert together.held_bytes == 0


async def test_leaving_drops_what_was_not_begun() -> None:
    """C3, X2: nobody is asked for a script that was left."""
    asked = Asked()
    async with Together(asked.answer, lambda call: 10, 20) as together:
        together.ask(calls(5))
        await rest()
        asked.told[1].set_result(1)
    await rest()
    assert asked.begun == [1, 2]


async def test_leaving_ends_what_was_begun() -> None:
    """C3, X2: a read that no script waits for is not left running."""
    asked = Asked()
    async with Together(asked.answer, lambda call: 10, 20) as together:
        together.ask(calls(2))
        await rest()
        assert not together.is_empty
    await rest()
    assert [each.cancelled() for each in asked.told.values()] == [True, True]
    assert together.is_empty


# -- In a run -------------------------------------------------------------------------------------


class Tape(Connector):
    """Answers a text of the length that is asked for, and counts."""

    name = "tape"

    def __init__(self) -> None:
        self.begun = 0

    @read
    async def play(self, chars: int) -> str:
        self.begun += 1
        return "x" * chars


@pytest.mark.parametrize(("chars", "most"), [(18, 5), (3, 20)])
async def test_answers_that_wait_for_a_script_are_bounded_by_bytes(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, chars: int, most: int
) -> None:
    """X2: forty reads at once; of large answers few wait, of small ones more."""
    tape = Tape()
    handed, waiting = [0], [0]
    plain = ScriptedScript.answer

    async def answer(self: ScriptedScript, call_id: int, value: Any) -> Any:
        await rest()
        waiting.append(tape.begun - handed[0])
        handed[0] += 1
        return await plain(self, call_id, value)

    monkeypatch.setattr(ScriptedScript, "answer", answer)
    limits = Limits(result_bytes=20, answers_bytes=100)
    play = await opened(duly_world, policy=Policy(limits=limits), connectors=(tape,))
    reads = [Call("tape.play", (), {"chars": chars}, waits=False) for _ in range(40)]
    await play.deploy(flow({}, {PRODUCER: producer(*reads, Wait())}))
    await play.drain()
    assert (await play.run()).status == Status.COMMITTED
    assert (tape.begun, handed) == (40, [40])
    assert 2 <= max(waiting) <= most


class Distant(Connector):
    """Looks whether its host has marked the script of the call as waiting outside."""

    name = "distant"

    def __init__(self) -> None:
        self.outside = 0
        self.seen: list[int] = []

    @read
    async def look(self) -> None:
        await asyncio.sleep(1)
        self.seen.append(self.outside)

    @read
    async def fail(self) -> None:
        self.seen.append(self.outside)
        raise ValueError("no")


@pytest.mark.parametrize(("tool", "seen"), [("look", [3, 3, 3]), ("fail", [1])])
async def test_a_script_is_marked_while_a_call_of_it_is_outside(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, tool: str, seen: list[int]
) -> None:
    """X2: for every call, and no longer; the sandbox lets others begin meanwhile."""
    distant = Distant()

    @contextmanager
    def waiting_outside(self: ScriptedScript) -> Iterator[None]:
        distant.outside += 1
        try:
            yield
        finally:
            distant.outside -= 1

    monkeypatch.setattr(ScriptedScript, "waiting_outside", waiting_outside)
    play = await opened(duly_world, connectors=(distant,))
    calls = [Call(f"distant.{tool}", (), {}, waits=False) for _ in seen]
    await play.deploy(flow({}, {PRODUCER: producer(*calls, Wait())}))
    await play.drain()
    assert distant.seen == seen
    assert distant.outside == 0


# -- Long sums ------------------------------------------------------------------------------------

MANY: Any = [0] * (LIGHT_VALUES + 1)


def test_a_value_is_light_by_its_parts() -> None:
    """X2: parts are counted up to the limit, also in a value that holds itself."""
    around: list[object] = []
    around.append(around)
    assert is_light([0] * LIGHT_VALUES)
    assert is_light("x" * 1_000_000)
    assert not any(map(is_light, (MANY, {"a": [MANY]}, [[0]] * LIGHT_VALUES, around)))


def test_a_value_is_light_by_the_length_of_its_texts_where_they_are_looked_into() -> None:
    """X2, A5: a stranger who writes one long text must not stop everybody else."""
    assert is_light(["x" * 50, {"x" * 40: "x" * 10}], most_chars=100)
    for each in ("x" * 101, ["x" * 50, "x" * 51], {"x" * 101: None}, {"x" * 50: ["x" * 51]}):
        assert not is_light(each, most_chars=100)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was thought about beside the event loop."""
    told: list[str] = []
    plain = VirtualEnv.compute

    async def compute(self: VirtualEnv, function: Any) -> Any:
        told.append(function.__qualname__.partition(".<locals>")[0])
        return await plain(self, function)

    monkeypatch.setattr(VirtualEnv, "compute", compute)
    return told


async def test_a_large_publish_is_checked_beside_the_loop_and_keeps_its_place(
    duly_world: Stage, computed: list[str]
) -> None:
    """X2, T6: what a script publishes after it does not overtake it."""
    play = await opened(duly_world)
    both = (publish("large", payload=MANY), publish("small"))
    moves = [msgspec.structs.replace(each, waits=False) for each in both]
    await play.deploy(flow({}, {PRODUCER: producer(*moves, Wait())}))
    await play.drain()
    assert [each.message_id for each in await play.events()] == ["large", "small"]
    assert computed == ["Calls._publish"]


async def test_a_large_prepare_result_and_state_are_checked_beside_the_loop(
    duly_world: Stage, computed: list[str]
) -> None:
    """X2: also what the reads of a step answered."""
    play = await opened(duly_world)
    prepare = (Return({"reservations": [], "data": MANY}),)
    await play.deploy(flow({"file": consumer(prepare, None, (Return(MANY),))}))
    await play.publish("a")
    await play.drain()
    assert (await play.run()).status == Status.COMMITTED
    assert computed == ["ask_prepare", "_state_text"]


class Register(Connector):
    """Answers more values than are looked through at once."""

    name = "register"

    @read
    async def list(self) -> Any:
        return MANY


async def test_a_large_answer_is_checked_beside_the_loop(
    duly_world: Stage, computed: list[str]
) -> None:
    """X2: where the connector's room cleans it, and where its size is judged."""
    play = await opened(duly_world, connectors=(Register(),))
    look = Call("register.list", (), {}, into="all")
    await play.deploy(flow({}, {PRODUCER: producer(look, publish("a"))}))
    await play.drain()
    assert (await play.run()).status == Status.COMMITTED
    assert computed == ["Registry.read", "Calls._read", "_reads_text"]


def test_arguments_of_many_values_are_not_looked_through_for_a_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X2, X4: what is kept of a call has 500 characters; a step that asked so is not repeated."""
    looked: list[object] = []

    def encode(value: object, *args: Any, **options: Any) -> str:
        looked.append(value)
        return value_text(value, *args, **options)

    monkeypatch.setattr(live, "encode", encode)
    notes = live.Notes(Limits(), Redactor)
    notes.call("tape.play", {"chars": MANY}, "ok", 1)
    reads = live.Reads()
    reads.keep(1, "tape.play", {"chars": MANY}, "1")
    assert looked == []
    notes.call("tape.play", {"chars": 1}, "ok", 1)
    kept: Any = notes.calls
    assert [each["args"] for each in kept] == [live.MANY_VALUES, '{"chars":1}']
    assert (reads.kept, reads.dropped) == ([], 1)


async def test_a_long_text_is_searched_for_secrets_beside_the_loop(
    duly_world: Stage, computed: list[str]
) -> None:
    """X2, A5: what a connector answers and what a script says may be a stranger's words."""
    play = await opened(duly_world, connectors=(Tape(),))
    read_it = Call("tape.play", (), {"chars": AT_ONCE_CHARS + 1})
    says = [Say("x" * 1000) for _ in range(AT_ONCE_CHARS // 1000 + 1)]
    await play.deploy(flow({}, {PRODUCER: producer(read_it, *says, publish("a"))}))
    await play.drain()
    assert (await play.run()).status == Status.COMMITTED
    assert computed == ["Registry.read", "Calls._note", "_reads_text"]


def test_of_long_arguments_the_beginning_is_shown_without_a_part_of_a_secret() -> None:
    """X2, A5: and how long they were."""
    secret = "sk-live-abcdef0123456789"
    text = "x" * (AT_ONCE_CHARS - 20) + secret
    shown = live.show_args({"text": text}, Redactor([secret]), AT_ONCE_CHARS + 100)
    assert "sk-live" not in shown
    shown = live.show_args({"text": text}, Redactor(), 100)
    assert shown.endswith(f"… ({len(text) + 11} characters)")
    assert live.show_args({"a": secret}, Redactor([secret]), 100) == '{"a":"[redacted]"}'
