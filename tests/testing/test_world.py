"""The outside of a test: it counts what happened, and goes wrong exactly as planned."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.registry import Registry
from duly.errors import (
    AuthNeeded,
    ConfigError,
    Invalid,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.catalog import JsonType, Tool
from duly.testing.env import START, VirtualEnv
from duly.testing.fault import Fault
from duly.testing.loop import VirtualLoop
from duly.testing.world import World

TOOL = "sheets.append_row"
ROW: dict[str, Any] = {"spreadsheet_id": "S1", "values": ["a", 1]}


@pytest.fixture
def world(env: VirtualEnv) -> World:
    return World(env)


class Hand:
    """Calls a tool the way an engine does: through the registry."""

    def __init__(self, world: World) -> None:
        self._registry = Registry(world.connectors)

    def tool(self, name: str = TOOL) -> Tool:
        return self._registry.catalog.find(name)

    async def change(self, key: str = "k1", name: str = TOOL, **args: Any) -> Any:
        async with asyncio.timeout(self.tool(name).timeout_s):
            return await self._registry.send(self.tool(name), self.call(key, name, args)).result()

    async def reconcile(self, key: str = "k1", name: str = TOOL) -> Any:
        return await self._registry.reconcile(self.tool(name), self.call(key, name, {}))

    async def read(self, name: str, **args: Any) -> Any:
        return await self._registry.read(self.tool(name), args)

    def call(self, key: str, name: str, args: dict[str, Any]) -> Call:
        return Call(name, args or ROW, key, "w", 1, datetime(2026, 1, 1, tzinfo=UTC))


def test_an_effect_is_recorded_with_tool_arguments_key_and_time(
    runner: asyncio.Runner, env: VirtualEnv, world: World
) -> None:
    sheet = world.sheet()
    hand = Hand(world)

    async def play() -> Any:
        await env.sleep(60)
        return await hand.change()

    assert runner.run(play()) == {"rowId": 1, "row_id": 1}
    (effect,) = world.effects
    assert (effect.tool, effect.args, effect.key) == (TOOL, ROW, "k1")
    assert effect.at == START + timedelta(seconds=60)
    assert sheet.rows == [["a", 1]]


def test_effects_are_counted_by_tool_and_key(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    world.connector("chat", mutations={"post": lambda text: None})
    hand = Hand(world)

    async def play() -> None:
        await hand.change("k1")
        await hand.change("k1")
        await hand.change("k2")
        await hand.change("k2", "chat.post", text="hello")

    runner.run(play())
    assert (world.count(), world.count(TOOL), world.count(key="k2")) == (4, 3, 2)
    assert (world.count("chat.post", "k2"), world.count("chat.post", "k1")) == (1, 0)


def test_parameters_and_types_are_those_of_the_function(world: World) -> None:
    def post(channel: str, text: str = "", *, times: int = 1) -> None: ...

    world.connector("chat", mutations={"post": post}, reads={"look": lambda channel: channel})
    hand = Hand(world)
    found = {each.name: (each.required, each.types) for each in hand.tool("chat.post").parameters}
    assert found == {
        "channel": (True, frozenset({JsonType.STRING})),
        "text": (False, frozenset({JsonType.STRING})),
        "times": (False, frozenset({JsonType.INTEGER})),
    }
    assert [each.name for each in hand.tool("chat.look").parameters] == ["channel"]


def test_a_function_without_named_parameters_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="name its parameters"):
        world.connector("chat", mutations={"post": lambda **anything: None})


def test_what_the_connector_promises_is_what_was_asked_for(world: World) -> None:
    world.sheet(reconcile=False, idempotent=True, key_lifetime_s=60, lag_s=5, timeout_s=7)
    tool = Hand(world).tool()
    assert (tool.reconciles, tool.idempotent, tool.key_lifetime_s) == (False, True, 60)
    assert (tool.lag_s, tool.timeout_s, tool.noun) == (5, 7, "row")


FAULTS: list[tuple[Fault, type[BaseException], int]] = [
    (Fault.TIMEOUT_BEFORE, TimeoutError, 0),
    (Fault.TIMEOUT_AFTER, TimeoutError, 1),
    (Fault.AMBIGUOUS, UnknownOutcome, 1),
    (Fault.AMBIGUOUS_BEFORE, UnknownOutcome, 0),
    (Fault.MALFORMED, Invalid, 1),
    (Fault.ERROR, RuntimeError, 0),
    (Fault.ERROR_AFTER, RuntimeError, 1),
    (Fault.LATE(60), UnknownOutcome, 0),
    (Fault.SLOW(31), TimeoutError, 0),
    (Fault.RATE_LIMIT(9), Transient, 0),
    (Fault.REFUSE, Refused, 0),
    (Fault.REFUSE_REMEMBERED, Refused, 0),
    (Fault.NOT_SENT, NotSent, 0),
    (Fault.AUTH, AuthNeeded, 0),
    (Fault.FORBID, PermissionDenied, 0),
    (Fault.CRASH_BEFORE, TimeoutError, 0),
    (Fault.CRASH_AFTER, TimeoutError, 1),
]


@pytest.mark.parametrize(
    ("fault", "error", "effects"), FAULTS, ids=[fault.name for fault, _, _ in FAULTS]
)
def test_a_fault_strikes_one_call_and_then_all_is_well(
    runner: asyncio.Runner, world: World, fault: Fault, error: type[BaseException], effects: int
) -> None:
    world.sheet()
    world.plan(TOOL, fault)
    hand = Hand(world)

    async def play() -> None:
        with pytest.raises(error) as caught:
            await hand.change()
        assert caught.type is error
        assert world.count() == effects
        await hand.change("k2")
        assert world.count(key="k2") == 1
        await world.cancel_landings()

    runner.run(play())


def test_every_fault_of_a_call_is_tried_here() -> None:
    planned = {name for name in Fault.__annotations__ if name.isupper()}
    tried = {fault.name for fault, _, _ in FAULTS}
    assert planned - tried == {"OK", "UNSURE", "NOT_YET_VISIBLE", "WRONG"}


def test_a_fault_carries_what_the_host_must_know(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    world.plan(TOOL, Fault.RATE_LIMIT(9), Fault.REFUSE_REMEMBERED, Fault.AUTH)
    hand = Hand(world)

    async def caught() -> Any:
        try:
            await hand.change()
        except Exception as error:
            return error

    async def play() -> list[Any]:
        return [await caught() for _ in range(3)]

    limited, refused, signed_out = runner.run(play())
    assert (limited.retry_after_s, limited.outcome) == (9, "refused")
    assert (refused.remembered, signed_out.connect) == (True, "sheets")


def test_a_late_effect_lands_when_it_says(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    world.plan(TOOL, Fault.LATE(60))
    hand = Hand(world)

    async def play() -> list[int]:
        with pytest.raises(UnknownOutcome):
            await hand.change()
        counts = []
        for _ in range(3):
            await world.env.sleep(29.999)
            counts.append(world.count())
        return counts

    assert runner.run(play()) == [0, 0, 1]
    assert world.effects[0].at == START + timedelta(seconds=60)


def test_a_slow_call_lands_although_nobody_waits_any_more(
    runner: asyncio.Runner, loop: VirtualLoop, world: World
) -> None:
    world.sheet(timeout_s=5)
    world.plan(TOOL, Fault.SLOW(4), Fault.SLOW(6))
    hand = Hand(world)

    async def play() -> None:
        assert await hand.change("k1") == {"rowId": 1, "row_id": 1}
        assert loop.time() == 4
        with pytest.raises(TimeoutError):
            await hand.change("k2")
        assert (loop.time(), world.count(key="k2")) == (9, 0)
        await world.env.sleep(1.5)
        assert world.count(key="k2") == 1

    runner.run(play())


def test_an_idempotent_tool_does_a_thing_once_and_remembers_its_answer(
    runner: asyncio.Runner, world: World
) -> None:
    world.sheet(idempotent=True)
    world.plan(TOOL, Fault.LATE(10), Fault.OK)
    hand = Hand(world)

    async def play() -> list[Any]:
        with pytest.raises(UnknownOutcome):
            await hand.change("k1")
        answers = [await hand.change("k1"), await hand.change("k1"), await hand.change("k2")]
        await world.env.sleep(20)
        return answers

    first, again, other = runner.run(play())
    assert first == again != other
    assert (world.count(key="k1"), world.count(key="k2")) == (1, 1)


def test_two_calls_at_once_under_one_key_are_one_effect(
    runner: asyncio.Runner, world: World
) -> None:
    async def slowly(text: str) -> str:
        await asyncio.sleep(1)
        return text

    world.connector("chat", mutations={"post": slowly}, idempotent=True)
    hand = Hand(world)

    async def play() -> list[Any]:
        calls = [hand.change("k1", "chat.post", text="hello") for _ in range(2)]
        return await asyncio.gather(*calls)

    assert runner.run(play()) == ["hello", "hello"]
    assert world.count() == 1


def test_a_tool_that_is_not_idempotent_does_it_again(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    hand = Hand(world)

    async def play() -> None:
        await hand.change("k1")
        await hand.change("k1")

    runner.run(play())
    assert world.count(key="k1") == 2


def test_a_function_that_refuses_leaves_no_effect(runner: asyncio.Runner, world: World) -> None:
    def post(text: str) -> None:
        raise Refused("too long")

    world.connector("chat", mutations={"post": post})
    with pytest.raises(Refused, match="too long"):
        runner.run(Hand(world).change("k1", "chat.post", text="x"))
    assert world.count() == 0


def test_reconcile_answers_by_the_truth_about_this_key(
    runner: asyncio.Runner, world: World
) -> None:
    world.sheet()
    hand = Hand(world)

    async def play() -> list[Any]:
        await hand.change("k1")
        return [await hand.reconcile("k1"), await hand.reconcile("k2")]

    assert runner.run(play()) == [Applied({"rowId": 1, "row_id": 1}), NotApplied()]


def test_reconcile_lies_only_as_planned(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    lies = [Fault.UNSURE, Fault.NOT_YET_VISIBLE, Fault.WRONG, Fault.WRONG, Fault.ERROR]
    world.plan(TOOL, reconcile=lies)
    hand = Hand(world)

    async def play() -> list[Any]:
        await hand.change("k1")
        answers = [await hand.reconcile("k1") for _ in range(3)]
        answers.append(await hand.reconcile("k2"))
        with pytest.raises(RuntimeError):
            await hand.reconcile("k1")
        return [*answers, await hand.reconcile("k1")]

    unsure, *answers = runner.run(play())
    assert isinstance(unsure, Unsure)
    truth = Applied({"rowId": 1, "row_id": 1})
    assert answers == [NotApplied(), NotApplied(), Applied(), truth]
    assert world.calls == [TOOL, *[f"{TOOL} reconcile"] * 6]


def test_a_plan_for_a_call_leaves_its_reconcile_alone(runner: asyncio.Runner, world: World) -> None:
    world.sheet()
    world.plan(TOOL, Fault.TIMEOUT_AFTER, reconcile=[Fault.TIMEOUT_BEFORE])
    hand = Hand(world)

    async def play() -> Any:
        with pytest.raises(TimeoutError):
            await hand.change()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await hand.reconcile()
        return await hand.reconcile()

    assert runner.run(play()) == Applied({"rowId": 1, "row_id": 1})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fault.SLOW(-1), "none takes less than 0"),
        (lambda: Fault.REFUSE(5), "only LATE, RATE_LIMIT, SLOW take"),
    ],
)
def test_seconds_that_make_no_sense_are_refused(make: Callable[[], Fault], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make()


def test_a_plan_that_cannot_be_carried_out_is_refused(world: World) -> None:
    with pytest.raises(ConfigError, match=r"as in Fault\.LATE\(5\)"):
        world.plan(TOOL, Fault.LATE)
    with pytest.raises(ConfigError, match=r"reconcile=\[Fault\.UNSURE\]"):
        world.plan(TOOL, Fault.UNSURE)


def test_a_mailbox_is_read_in_pages_of_a_hundred(runner: asyncio.Runner, world: World) -> None:
    box = world.mailbox(201)
    hand = Hand(world)

    async def play() -> list[Any]:
        pages, after = [], None
        for _ in range(4):
            page = await hand.read("gmail.search", query="newer_than:1d", after=after)
            after = page["last_cursor"]
            pages.append(page)
        return pages

    pages = runner.run(play())
    assert [len(page["items"]) for page in pages] == [100, 100, 1, 0]
    assert [mail for page in pages for mail in page["items"]] == box.mails
    assert pages[-1]["last_cursor"] == "m201"
    assert {"id", "from", "subject", "date"} <= box.mails[0].keys()


def test_a_mail_that_comes_later_is_found_after_the_cursor(
    runner: asyncio.Runner, world: World
) -> None:
    box = world.mailbox([{"id": "a"}])
    box.deliver(id="b", subject="Invoice")
    hand = Hand(world)
    page = runner.run(hand.read("gmail.search", after="a"))
    assert [(mail["id"], mail["subject"]) for mail in page["items"]] == [("b", "Invoice")]


def test_an_empty_mailbox_answers_an_empty_page(runner: asyncio.Runner, world: World) -> None:
    world.mailbox()
    page = runner.run(Hand(world).read("gmail.search"))
    assert (page["items"], page["last_cursor"]) == ([], None)


def test_a_read_meets_its_faults_too(runner: asyncio.Runner, world: World) -> None:
    world.mailbox(1)
    world.plan("gmail.search", Fault.TIMEOUT_BEFORE, Fault.NOT_SENT)
    hand = Hand(world)

    async def play() -> Any:
        outcomes: list[tuple[type[Exception], Awaitable[Any]]] = [
            (TimeoutError, hand.read("gmail.search")),
            (NotSent, hand.read("gmail.search")),
        ]
        for error, reading in outcomes:
            with pytest.raises(error):
                await reading
        return await hand.read("gmail.search")

    assert len(runner.run(play())["items"]) == 1
    assert world.count() == 0
