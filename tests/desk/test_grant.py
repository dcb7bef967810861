"""What a workflow may do, what it waits for, and how it goes on when a person has seen to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import duly
from duly.config import Policy, WorkflowPolicy
from duly.desk.record import Action
from duly.errors import DulyError, Invalid, NotFound
from duly.rules.reason import read_kept
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Phase, Status
from duly.testing import Fault, Stage
from duly.words import Clock, alert
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    NAME,
    NOTHING,
    PEEK_ONE,
    PRODUCER,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from tests.spoken import short
from verification.moves import Call, Return, When


class Fax(duly.Connector):
    """Two tools of one capability."""

    name = "fax"

    @duly.mutation(capability="fax.out")
    async def send(self, call: duly.Call, text: str) -> None:
        pass

    @duly.mutation(capability="fax.out")
    async def send_all(self, call: duly.Call, text: str) -> None:
        pass


READ = "sheet.read"
FIND = Call("sheet.find")
DAY_S = 86_400
ANNA = "anna"


async def last(play: Play) -> Action:
    return (await play.host.actions(limit=1))[0]


# -- The verbs ------------------------------------------------------------------------------------


async def test_a_grant_has_limits_and_is_recorded(duly_world: Stage) -> None:
    """A1, A6: who gave what, within which limits; granting again replaces them."""
    play = await opened(duly_world)
    await play.deploy(flow(), grant=False)
    assert not await play.host.grant(NAME, TOOL, mutations_per_day=3, where={"text": "a*"}, by=ANNA)
    done = await last(play)
    assert (done.by, done.verb, done.workflow, done.target) == (ANNA, "grant", NAME, TOOL)
    assert done.detail == {"mutations_per_day": 3, "where": {"text": "a*"}}
    await play.host.grant(NAME, TOOL)
    (granted,) = await play.store.list_grants(await play.workflow_id())
    assert (granted.mutations_per_day, granted.matching) == (None, "{}")


async def test_a_revoked_grant_stops_the_next_call(duly_world: Stage) -> None:
    """A1, A6: at any moment; the run waits for the grant and names it."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.host.revoke(NAME, TOOL, by=ANNA)
    done = await last(play)
    assert (done.by, done.verb, done.workflow, done.target) == (ANNA, "revoke", NAME, TOOL)
    await play.publish("b")
    await play.drain()
    run = await play.run()
    assert (run.status, run.waits, run.waits_on) == (Status.PAUSED_APPROVAL, "grant", TOOL)
    assert (play.sends(), len(await play.rows())) == (1, 1)
    assert "allow sheet.append" in short(play.host, await play.host.workflow(NAME))


Ask = Callable[[Play], Awaitable[object]]

REFUSALS: dict[str, tuple[Ask, type[DulyError], str]] = {
    "grant to nobody": (lambda p: p.host.grant("flwo", TOOL), NotFound, 'Did you mean "flow"'),
    "grant of nothing": (
        lambda p: p.host.grant(NAME, "sheet.apend"),
        NotFound,
        'Did you mean "sheet.append"',
    ),
    "a limit below none": (
        lambda p: p.host.grant(NAME, TOOL, mutations_per_day=-1),
        Invalid,
        "whole number",
    ),
    "a limit that is none": (
        lambda p: p.host.grant(NAME, TOOL, mutations_per_day=True),
        Invalid,
        "whole number",
    ),
    "a limit on reads": (
        lambda p: p.host.grant(NAME, READ, mutations_per_day=1),
        Invalid,
        "only reads",
    ),
    "a glob on nothing": (
        lambda p: p.host.grant(NAME, TOOL, where={"txt": "*"}),
        Invalid,
        'Did you mean "text"',
    ),
    "a glob that is none": (
        lambda p: p.host.grant(NAME, TOOL, where={"text": ""}),
        Invalid,
        "1 to 500",
    ),
    "a glob past its length": (
        lambda p: p.host.grant(NAME, TOOL, where={"text": "x" * 501}),
        Invalid,
        "1 to 500",
    ),
    "globs in a list": (
        lambda p: p.host.grant(NAME, TOOL, where=["*"]),  # type: ignore[arg-type]
        Invalid,
        "a glob for each argument",
    ),
    "by nobody": (lambda p: p.host.grant(NAME, TOOL, by=" "), Invalid, "by must be"),
    "revoke of what is not there": (
        lambda p: p.host.revoke(NAME, "sheet.apend"),
        NotFound,
        'Did you mean "sheet.append"',
    ),
    "revoke from nobody": (lambda p: p.host.revoke("no", TOOL), NotFound, "no workflow"),
    "reconnect of nobody": (
        lambda p: p.host.reconnect("sheets"),
        NotFound,
        'Did you mean "sheet"',
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_wish_says_why_and_stores_nothing(duly_world: Stage, name: str) -> None:
    """A1, F4, A6: a wrong word in a limit would look like safety."""
    ask, error, words = REFUSALS[name]
    play = await opened(duly_world)
    await play.deploy(flow())
    granted = await play.store.list_grants(await play.workflow_id())
    done = await play.host.actions()
    with pytest.raises(error, match=words):
        await ask(play)
    assert await play.store.list_grants(await play.workflow_id()) == granted
    assert await play.host.actions() == done


async def test_a_glob_at_its_length_is_taken(duly_world: Stage) -> None:
    """A1: one less than what is refused."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, where={"text": "x" * 500}, mutations_per_day=0)


# -- Limits ---------------------------------------------------------------------------------------


async def test_a_limit_counts_what_was_sent_today(duly_world: Stage) -> None:
    """A1: at the limit the last one is sent, one past it waits; nothing sent, no ledger row."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, mutations_per_day=2)
    await play.publish("a", "b", "c")
    await play.drain()
    run = await play.run()
    assert (play.sends(), len(await play.rows())) == (2, 2)
    assert (run.status, run.waits, run.waits_on) == (Status.PAUSED_APPROVAL, "grant", TOOL)
    assert run.escalated is not None
    alerted = alert(read_kept(run.escalated), Clock(0))
    assert "used twice since midnight UTC" in alerted
    await play.host.grant(NAME, TOOL, mutations_per_day=3)
    await play.drain()
    assert ((await play.store.get_run(run.id)).status, duly_world.count()) == ("committed", 3)


async def test_a_new_day_begins_the_count_anew(duly_world: Stage) -> None:
    """A1: at midnight of UTC; before it the limit holds."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    await play.publish("a", "b")
    await play.drain()
    await duly_world.advance(DAY_S - 1)
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    await play.drain()
    assert play.sends() == 1
    await duly_world.advance(1)
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    await play.drain()
    assert (play.sends(), await play.is_clean()) == (2, True)


async def test_a_limit_is_of_one_workflow_and_of_all_tools_of_a_capability(
    duly_world: Stage,
) -> None:
    """A1: what another workflow sent does not count, what another tool of the capability does."""
    play = await opened(duly_world, connectors=(Fax(),))
    both = consumer(
        mutate=(
            When("prepared.data.text", (Call("fax.send", (), {"text": "x"}),)),
            Call("fax.send_all", (), {"text": "x"}),
        )
    )
    await play.deploy(flow({CONSUMER: both}, name="other"))
    await play.publish("x", "y", name="other")
    await play.deploy(flow({CONSUMER: both}))
    await play.host.grant(NAME, "fax.out", mutations_per_day=1)
    await play.publish("a", payload=True)
    await play.publish("b", payload=False)
    await play.drain()
    assert [each.tool for each in await play.rows()].count("fax.send") == 3
    assert ((await play.run()).waits_on, len(await play.rows())) == ("fax.out", 3)


async def test_what_was_refused_has_used_up_its_place(duly_world: Stage) -> None:
    """A1: whatever left counts, so a limit is never exceeded by guessing."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    await play.publish("a")
    await play.drain()
    await play.pass_by(60)
    assert (play.sends(), (await play.run()).waits) == (1, "grant")


async def test_a_call_that_waited_does_not_stand_in_its_own_way(duly_world: Stage) -> None:
    """A1, F4: the row that is sent again after a sign-in was counted once already."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    await play.publish("a")
    await play.drain()
    assert await play.host.reconnect("sheet") == 1
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_glob_holds_for_every_call(duly_world: Stage) -> None:
    """A1: outside it nothing is sent; a wider one lets the same run go on."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, where={"text": "a*"})
    await play.publish("ab", "ba")
    await play.drain()
    assert (duly_world.count(), (await play.run()).waits_on) == (1, TOOL)
    assert await play.host.grant(NAME, TOOL, where={"text": "*a"})
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (2, True)


# -- A sign-in or a grant is missing, at every step (F4) ------------------------------------------

WAIT = (PEEK_ONE, When("pending", (FIND, Return(RESERVE)), (Return(NOTHING),)))
BY_ID = Policy(workflows={NAME: WorkflowPolicy(mutate_reads="by_id")})
STEPS = ("produce", "prepare", "mutate", "send")


class Book(duly.Connector):
    """A read by id that needs a sign-in as long as a test says so."""

    name = "book"

    def __init__(self) -> None:
        self.is_closed = True

    @duly.read(by_id=True)
    async def look(self, key: str) -> str:
        if self.is_closed:
            raise duly.AuthNeeded("The library is closed.", connect="library")
        return "page"


async def stopped(stage: Stage, step: str, fault: Fault) -> Play:
    """Bring a run to a stop by a missing sign-in or permission of the outside, at one step."""
    play = await opened(stage, policy=BY_ID)
    script = flow()
    if step == "produce":
        script = flow({}, {PRODUCER: producer(FIND, publish("x"), every="1d")})
        stage.plan("sheet.find", fault)
    elif step == "prepare":
        script = flow({CONSUMER: consumer(WAIT)})
        stage.plan("sheet.find", fault)
    else:
        plan(stage, fault)
    await play.deploy(script)
    if step != "produce":
        await play.publish("a")
    await play.drain()
    return play


@pytest.mark.parametrize("step", ["produce", "prepare", "send"])
@pytest.mark.parametrize("fault", [Fault.AUTH, Fault.FORBID])
async def test_the_same_run_goes_on_when_exactly_what_it_waits_for_has_come(
    duly_world: Stage, step: str, fault: Fault
) -> None:
    """F4, R4: not by time, not by another act; then once, to its end."""
    play = await stopped(duly_world, step, fault)
    run, calls = await play.run(), len(duly_world.calls)
    capability = TOOL if step == "send" else READ
    waits = ("connection", "sheet") if fault is Fault.AUTH else ("grant", capability)
    assert (run.status, run.waits, run.waits_on) == (Status.PAUSED_APPROVAL, *waits)
    row = Row.PROPOSED if step == "send" else None
    assert run.row == row
    await play.pass_by(DAY_S)
    other = READ if step == "send" else TOOL
    assert not await play.host.grant(NAME, other)
    if fault is Fault.AUTH:
        assert not await play.host.grant(NAME, capability)
    else:
        assert await play.host.reconnect("sheet") == 0
    await play.drain()
    assert ((await play.run()).id, len(duly_world.calls)) == (run.id, calls)
    if fault is Fault.AUTH:
        assert await play.host.reconnect("sheet") == 1
    else:
        assert await play.host.grant(NAME, capability)
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    assert (duly_world.count(), await play.is_clean()) == (step != "produce", True)
    if step == "send":
        assert ((await play.row()).attempt, len(await play.rows())) == (2, 1)


@pytest.mark.parametrize("step", STEPS)
async def test_a_missing_grant_holds_every_step(duly_world: Stage, step: str) -> None:
    """A1, F4: reads too; nothing was called, there is no row, and the grant lets it go on."""
    play = await opened(duly_world, policy=BY_ID)
    consumers = {CONSUMER: consumer(WAIT if step == "prepare" else (*WAIT[:1], *_plain()))}
    producers = {PRODUCER: producer(FIND, publish("x"), every="1d")} if step == "produce" else {}
    await play.deploy(flow({} if step == "produce" else consumers, producers), grant=False)
    await play.publish("a")
    await play.drain()
    missing = READ if step in ("produce", "prepare") else TOOL
    run = await play.run()
    assert (run.status, run.waits, run.waits_on) == (Status.PAUSED_APPROVAL, "grant", missing)
    assert (duly_world.calls, await play.rows()) == ([], [])
    assert await play.host.grant(NAME, missing)
    await play.host.grant(NAME, TOOL)
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    assert await play.is_clean()


def _plain() -> tuple[Any, ...]:
    return (When("pending", (Return(RESERVE),), (Return(NOTHING),)),)


async def test_a_read_in_mutate_that_lacks_a_sign_in_runs_mutate_again(duly_world: Stage) -> None:
    """F4, C13: without a row the step begins again, with the same clock; the call is sent once."""
    book = Book()
    play = await opened(duly_world, policy=BY_ID, connectors=(book,))
    look = Call("book.look", (), {"key": "k"})
    await play.deploy(flow({CONSUMER: consumer(mutate=(look, APPEND))}))
    await play.publish("a")
    await play.drain()
    run = await play.run()
    assert (run.phase, run.row, run.waits, run.waits_on) == (
        Phase.MUTATING,
        None,
        "connection",
        "library",
    )
    assert "reconnect library" in short(play.host, await play.host.workflow(NAME))
    assert await play.host.reconnect("library") == 1
    await play.drain()
    assert ((await play.run()).id, (await play.run()).waits) == (run.id, "connection")
    book.is_closed = False
    assert await play.host.reconnect("library", by=ANNA) == 1
    done = await last(play)
    assert (done.by, done.verb, done.workflow, done.target) == (ANNA, "reconnect", None, "library")
    await play.drain()
    ended = await play.store.get_run(run.id)
    assert (ended.status, ended.clock_at) == (Status.COMMITTED, run.clock_at)
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_reconnecting_moves_every_workflow_that_waits_for_it(duly_world: Stage) -> None:
    """F4: in all workflows at once, and in no other; a paused one waits for resume."""
    play = await opened(duly_world)
    plan(duly_world, *[Fault.AUTH] * 3)
    for name in ("one", "two", "three"):
        await play.deploy(flow(name=name))
        await play.publish("a", name=name)
    await play.drain()
    await play.host.pause("three")
    assert await play.host.reconnect("sheet") == 3
    await play.drain()
    assert (duly_world.count(), (await play.run("three")).status) == (2, Status.PAUSED_APPROVAL)
    await play.host.resume("three")
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (3, True)
    assert await play.host.reconnect("sheet") == 0


async def test_reconnecting_outlives_a_restart(duly_world: Stage) -> None:
    """F4, S8: what a person said is in the store."""
    play = await stopped(duly_world, "send", Fault.AUTH)
    await play.host.reconnect("sheet")
    await play.restart()
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_call_that_waits_for_a_connection_is_not_sent_without_its_grant(
    duly_world: Stage,
) -> None:
    """A1, F4: the grant was taken back meanwhile, so now it waits for that."""
    play = await stopped(duly_world, "send", Fault.AUTH)
    run = await play.run()
    await play.host.revoke(NAME, TOOL)
    assert await play.host.reconnect("sheet") == 1
    await play.drain()
    waiting = await play.run()
    assert (play.sends(), waiting.id, waiting.waits_on) == (1, run.id, TOOL)
    assert await play.host.grant(NAME, TOOL)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_the_limit_of_a_day_counts_what_was_sent_since_midnight(duly_world: Stage) -> None:
    """A1: an hour later it still counts; on the next day of UTC it does not."""
    play = await opened(duly_world)
    await play.deploy(flow(), grant=False)
    await play.host.grant(NAME, TOOL, mutations_per_day=1)
    async with play.host.running():
        await play.publish("a")
        await duly_world.advance("1h")
        await play.publish("b")
        await duly_world.advance("1h")
        assert duly_world.count(TOOL) == 1
        await duly_world.advance("22h")
        await play.host.grant(NAME, TOOL, mutations_per_day=1)
        await duly_world.advance("1m")
    assert duly_world.count(TOOL) == 2
