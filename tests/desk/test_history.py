"""What became of things, where there are many of them, or their workflow is gone (U2, W10, H5)."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly.config import Policy
from duly.desk import account
from duly.desk.account import INPUT_OUTPUTS_MAX
from duly.errors import NotFound
from duly.rules.standing import InputStatus
from duly.testing import Stage
from tests.desk.situation import ASKED
from tests.desk.test_account import MIDDLE, relayed, take, tell
from tests.desk.test_upkeep import DAY_S, plain
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    Play,
    consumer,
    flow,
    opened,
    statements,
)
from tests.spoken import carry_out, long, short
from verification.moves import Call, Return, Throw, When

CANARY = "tsivtsiv-secret"
LEAVE = (Call("peek", (MIDDLE,), {"limit": 1}), Return(NOTHING))


# -- Inputs ---------------------------------------------------------------------------------------


async def test_an_input_that_led_to_work_is_not_said_to_need_no_change(duly_world: Stage) -> None:
    """U2: it was looked at, and what came of it waits."""
    play = await opened(duly_world)
    first = consumer(take(IN), mutate=None, then=tell(MIDDLE))
    second = consumer(LEAVE, subscribe=(MIDDLE,))
    await play.deploy(flow({"first": first, "second": second}, topics=(IN, MIDDLE, OUT)))
    await play.publish("a")
    await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert (shown.status, short(play.host, shown)) == (
        InputStatus.PENDING,
        "It was looked at; what came of it is still pending",
    )


async def test_a_change_that_is_done_is_not_all_while_more_waits(duly_world: Stage) -> None:
    """U2: the first change is done, the second was not begun."""
    play = await opened(duly_world)
    first = consumer(take(IN), then=tell(MIDDLE))
    second = consumer(LEAVE, subscribe=(MIDDLE,))
    await play.deploy(flow({"first": first, "second": second}, topics=(IN, MIDDLE, OUT)))
    await play.publish("a")
    await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert short(play.host, shown) == (
        "The call sheet.append (claimed: “Add what came to in”) is done; "
        "what came of it is still pending"
    )


async def test_of_very_many_things_the_one_that_waits_is_not_cut_off(duly_world: Stage) -> None:
    """U2: what is under way is behind a hundred that are done."""
    parts = tuple(
        Call("publish", (MIDDLE,), {"message_id": f"{number:03}", "title": f"Part {number}"})
        for number in range(INPUT_OUTPUTS_MAX + 1)
    )
    play = await opened(duly_world, policy=ASKED)
    first = consumer(take(IN), mutate=None, then=(When("prepared.reservations", parts),))
    second = consumer(take(MIDDLE), then=None, subscribe=(MIDDLE,))
    await play.deploy(flow({"first": first, "second": second}, topics=(IN, MIDDLE, OUT)))
    await play.publish("a")
    await play.drain()
    for _ in range(INPUT_OUTPUTS_MAX):
        (proposed,) = await play.host.approvals()
        await play.host.approve(proposed.mutation, proposed.hash)
        await play.drain()
    (shown,) = await play.host.inputs(NAME)
    assert len(shown.outputs) == INPUT_OUTPUTS_MAX
    assert short(play.host, shown) == (
        "The call sheet.append (claimed: “Add what came to middle”) waits for you, "
        f"and at least {INPUT_OUTPUTS_MAX - 1} more"
    )


async def test_a_long_search_is_of_one_moment(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U2: it looks through many inputs at a time, in one transaction, until its page is full."""
    monkeypatch.setattr(account, "PAGE_ROWS_MAX", 10)
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=None, then=None)}))
    ids = [f"{number:03}" for number in range(101)]
    await play.publish(*ids)
    await play.drain()
    seen = statements(play)
    assert await play.host.inputs(NAME, status=InputStatus.PENDING) == ()
    assert len(seen) == 1
    page = await play.host.inputs(NAME, status=InputStatus.DONE, limit=15)
    assert [each.message_id for each in page] == ids[:-16:-1]
    found = await play.host.inputs(NAME, status=InputStatus.DONE, limit=1000)
    assert [each.message_id for each in found] == ids[::-1]


# -- A workflow that is gone ----------------------------------------------------------------------


async def test_what_a_removed_workflow_did_is_read_by_its_name(duly_world: Stage) -> None:
    """W10: until another one begins under that name."""
    play = await relayed(duly_world, "a")
    await play.drain()
    host = play.host

    async def lengths() -> list[int]:
        ask: tuple[Any, ...] = (
            host.events,
            host.runs,
            host.mutations,
            host.inputs,
            host.outputs,
            host.versions,
        )
        return [len(await each(NAME)) for each in ask]

    before = await lengths()
    await host.remove(NAME, by="anna")
    assert await lengths() == before
    assert (await host.actions(NAME))[0].verb == "remove"
    for asked in (host.workflow(NAME), host.pause(NAME), host.inputs("flew")):
        try:
            await asked
        except NotFound:
            continue
        raise AssertionError(asked)
    await play.deploy(flow())
    assert await host.events(NAME) == ()


# -- Words ----------------------------------------------------------------------------------------


async def test_an_offer_with_any_message_id_can_be_carried_out(duly_world: Stage) -> None:
    """U7: line ends, quotation marks and what turns a line around arrive as they are."""
    message_id = 'a\n"b"\\c\u2028\u202e😀'
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish(message_id)
    await play.drain()
    (entry,) = await play.host.attention()
    (skip,) = (each for each in entry.offers if each.verb == "skip")
    assert await carry_out(play.host, skip)
    assert await play.statuses() == {message_id: "skipped"}


async def test_what_a_script_threw_is_quoted_on_one_plain_line(duly_world: Stage) -> None:
    """F8, U1: it cannot go on as if Duly said it, clear a screen or turn the line around."""
    said = "a\x1b[2J\u202eb. Approve everything\nat once”"
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw(said),))}))
    await play.publish("a")
    await play.drain()
    shown = await play.host.workflow(NAME)
    assert short(play.host, shown) == "The script failed: “a\\x1b[2J\\u202eb”"
    assert long(play.host, await play.host.why(NAME)).startswith(
        "The script failed while working on “Event”: “a\\x1b[2J\\u202eb”. "
    )


class Safe(duly.Connector):
    """Has a secret."""

    name = "safe"

    @duly.read
    async def look(self) -> str:
        return self.secret("token")


async def test_a_secret_that_somebody_publishes_is_in_no_list_of_events(duly_world: Stage) -> None:
    """H5, U2: as in every other view; the message id stays, since it is what is given back."""
    play = await opened(duly_world, connectors=(Safe(),))
    await play.host.set_secret("safe", "token", CANARY)
    await play.deploy(flow())
    await play.host.publish(NAME, IN, title=f"It is {CANARY}", payload={"deep": [CANARY]})
    assert CANARY not in repr(plain(await play.host.events(NAME)))


# -- Retention ------------------------------------------------------------------------------------


def bodies(play: Play) -> set[str]:
    backend: Any = play.store.backend
    return {body for (body,) in backend.connection.execute("select body from payload")}


async def test_contents_that_came_too_late_or_were_replaced_do_not_stay_for_ever(
    duly_world: Stage,
) -> None:
    """H5, T5: nobody points at them, so nothing could remove them later."""
    policy = Policy(approvals={"*": "always"}, retention_days=30)
    play = await opened(duly_world, policy=policy)
    await play.deploy(flow({CONSUMER: consumer(then=None)}))
    await play.publish("a", payload="first")
    await play.drain()
    await play.host.abandon((await play.run()).id)
    await play.publish("a", payload="replaced")
    await play.publish("a", payload="taken")
    assert bodies(play) == {'"first"', '"taken"'}
    await play.drain()
    await play.publish("a", payload="too late")
    (proposed,) = await play.host.approvals()
    await play.host.approve(proposed.mutation, proposed.hash)
    await play.publish("b", payload="skipped")
    await play.drain()
    await play.publish("b", payload="too late as well")
    await play.host.skip(NAME, IN, "b")
    assert bodies(play) == {'"first"', '"taken"', '"skipped"'}
    await duly_world.advance(40 * DAY_S)
    await play.host.tidy()
    assert bodies(play) == {"null"}
    assert (await play.host.verify()).ok
