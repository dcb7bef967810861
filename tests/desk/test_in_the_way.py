"""One thing that stands still holds up its whole workflow: everybody who asks is told so (F6)."""

from __future__ import annotations

import re

import pytest

import duly
from duly.config import Policy
from duly.fact import Offer
from duly.rules.count import Activity, Count
from duly.rules.standing import InputStatus
from duly.testing import Stage
from duly.words import DOES, say_offer
from tests.desk.golden import sheet
from tests.desk.situation import ASKED, LOSE, THROW, run
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    OUT,
    PRODUCER,
    RESERVE,
    Play,
    consumer,
    flow,
    opened,
    producer,
)
from tests.spoken import carry_out, long, short
from verification.moves import Call, Return, Throw, When, ref

BEHIND = " “flow” is blocked; 2 inputs wait behind this."
MACHINERY = re.compile(r"\b(runs?|topics?|mutations?|events?|ledger|handlers?|None)\b")


async def sentence_of(play: Play, message_id: str) -> str:
    shown = await play.host.inputs(NAME, status=InputStatus.PENDING)
    return next(short(play.host, each) for each in shown if each.message_id == message_id)


# -- What waits behind it -------------------------------------------------------------------------


async def test_an_approval_says_what_waits_behind_it(duly_world: Stage) -> None:
    """F6, U7, F8: in why and in attention; when it is given, nobody waits any more."""
    play = await run(duly_world, policy=ASKED)
    assert "blocked" not in long(play.host, await play.host.why(NAME))
    assert await sentence_of(play, "a") != "It is pending"
    await play.publish("b", "c")
    assert long(play.host, await play.host.why(NAME)).endswith(BEHIND)
    (entry,) = await play.host.attention()
    assert long(play.host, entry).endswith(BEHIND)
    assert await sentence_of(play, "b") == "It is pending behind “Event”, which waits for you"
    await play.host.abandon((await play.run()).id)
    await play.deploy(flow({CONSUMER: consumer((Return({"reservations": []}),))}))
    await play.drain()
    assert await sentence_of(play, "b") == "It is pending"


async def test_what_the_host_tries_again_is_in_the_way_and_asks_nobody(duly_world: Stage) -> None:
    """F6, U2: no sentence sends a person to help who cannot."""
    play = await run(duly_world, flow({CONSUMER: consumer(mutate=LOSE)}))
    await play.publish("b", "c")
    said = long(play.host, await play.host.why(NAME))
    assert "nothing is needed from you" in said
    assert said.endswith(BEHIND)
    assert await sentence_of(play, "b") == "It is pending behind “Event”, which is not done yet"


async def test_what_nobody_has_taken_up_waits_for_the_workflow(duly_world: Stage) -> None:
    """F6, U2: a script that failed before it took anything names nothing to wait behind."""
    play = await run(duly_world, flow({CONSUMER: consumer(prepare=THROW)}))
    told = "It is pending until its workflow continues, which waits for you"
    assert await sentence_of(play, "a") == told


@pytest.mark.parametrize(
    ("more", "said"), [((), "its schedule waits"), (("b",), "1 input and its schedule wait")]
)
async def test_a_schedule_that_waits_behind_a_question_is_said(
    duly_world: Stage, more: tuple[str, ...], said: str
) -> None:
    """F6, U7: also where no input waits; a schedule that moves, or none, is not spoken of."""
    script = flow(producers={PRODUCER: producer(every="1h"), "by_hand": producer()})
    play = await run(duly_world, script, policy=ASKED)
    await play.publish(*more)
    why = await play.host.why(NAME)
    assert long(play.host, why).endswith(f" “flow” is blocked; {said} behind this.")
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    if not more:
        assert "behind this" not in long(play.host, await play.host.why(NAME))


async def test_what_is_about_to_begin_is_not_said_to_be_held_up(duly_world: Stage) -> None:
    """F6, U2: an active run is no obstacle."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    assert await sentence_of(play, "a") == "It is pending"
    await play.crash_during(prepare_run="before")
    assert await sentence_of(play, "a") == "It is pending"


# -- What it may have failed over -----------------------------------------------------------------

FIRST = Call("peek", (IN,), {"limit": 1}, into="pending")
POISONED = flow(
    {
        CONSUMER: consumer(
            prepare=(
                FIRST,
                When("pending.0.payload.bad", (Throw("no text"),)),
                When("pending", (Return(RESERVE),), (Return({"reservations": []}),)),
            )
        )
    }
)


async def test_the_cure_of_a_poisoned_input_is_offered_and_cures(duly_world: Stage) -> None:
    """U3, U7, R9: as a possibility; a person who says it is rid of it, and the rest goes on."""
    play = await opened(duly_world)
    await play.deploy(POISONED)
    await play.publish("x", payload={"bad": True})
    await play.drain()
    await play.publish("y", payload={"bad": False})
    (entry,) = await play.host.attention()
    assert "; if “Event” is the cause, skip it." in long(play.host, entry)
    assert [each.verb for each in entry.offers] == ["skip", "deploy", "retry", "abandon"]
    cure = entry.offers[0]
    args = {"workflow": NAME, "topic": IN, "message_id": "x"}
    assert cure == Offer("skip", args, "skip_suspect")
    assert say_offer(cure).startswith("only if it is the cause")
    await carry_out(play.host, cure)
    await play.drain()
    assert await play.host.attention() == ()
    assert await play.statuses() == {"x": "skipped", "y": "consumed"}


async def test_only_what_it_was_offered_is_suspected(duly_world: Stage) -> None:
    """U3: what came later, or to another workflow, did no harm."""
    play = await opened(duly_world)
    other = consumer(prepare=(Return({"reservations": []}),), subscribe=(OUT,))
    await play.deploy(flow({CONSUMER: consumer(prepare=THROW), "other": other}))
    await play.publish("o", topic=OUT)
    await play.drain()
    await play.publish("late")
    why = await play.host.why(NAME)
    assert [each.verb for each in why.offers] == ["deploy", "retry", "abandon", "pause"]
    assert "is the cause" not in long(play.host, why)


# -- What each offer does -------------------------------------------------------------------------


async def test_every_offer_says_what_comes_of_it(duly_world: Stage) -> None:
    """U5, R9: half a sentence from the one table, without a word of the machinery."""
    play = await run(duly_world, policy=ASKED)
    offers = (await play.host.why(NAME)).offers
    assert {each.verb: each.does for each in offers} == {
        "approve": "approve",
        "reject": "reject",
        "skip": "skip",
        "retry": "retry_asks",
        "abandon": "abandon",
        "pause": "pause",
    }
    assert "  # \n" not in sheet.FILE.read_text(encoding="utf-8")
    for said in DOES.values():
        assert not MACHINERY.search(said), said
        assert said == said.strip(" .")
        assert len(said) <= 72  # so that it fits below a command


@pytest.mark.parametrize(
    ("policy", "does", "asks"),
    [
        (ASKED, "retry_asks", 1),
        (Policy(approvals={"*": "first:1"}), "retry_sometimes", 1),
        (Policy(approvals={"*": "after_model"}), "retry_sometimes", 0),
        (Policy(), "retry_makes", 0),
    ],
)
async def test_a_retry_says_whether_it_asks_by_the_rules_of_now(
    duly_world: Stage, policy: Policy, does: str, asks: int
) -> None:
    """R9, A3: a proposal that is withdrawn is asked about again only if a rule still asks."""
    play = await run(duly_world, policy=ASKED)
    await play.restart(policy=policy)
    (offered,) = [each for each in (await play.host.why(NAME)).offers if each.verb == "retry"]
    assert offered.does == does
    await carry_out(play.host, offered)
    await play.drain()
    assert len(await play.host.approvals()) == asks
    assert play.stage.count() == 1 - asks


async def test_a_retry_that_an_allowance_may_cover_does_not_promise_to_ask(
    duly_world: Stage,
) -> None:
    """R9, A3: until the allowance is revoked."""
    play = await run(duly_world, policy=ASKED)
    (shown,) = await play.host.approvals()
    await play.host.allow(shown.mutation, shown.hash, 9, "2026-06-01T00:00:00Z")
    await play.drain()
    await play.publish("b")
    await play.drain()

    async def told() -> str:
        return next(e.does for e in (await play.host.why(NAME)).offers if e.verb == "retry")

    assert await told() == "retry_sometimes"
    await play.host.revoke_allowance((await play.host.allowances())[0].id)
    assert await told() == "retry_asks"


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("consumer emitting failed:logic applied applied", "abandon_applied"),
        ("consumer emitting failed:logic rejected skipped", "abandon_skipped"),
        ("consumer emitting failed:logic skipped skipped", "abandon_skipped"),
        ("consumer mutating failed:logic", "abandon"),
    ],
)
async def test_what_giving_up_leaves_is_said_by_what_was_done(
    duly_world: Stage, name: str, does: str
) -> None:
    """R9: a change that was made stays made, and nobody reads that it comes up again."""
    play, _ = await sheet.BUILDERS[name](duly_world)
    offers = (await play.host.why(NAME)).offers
    assert next(each.does for each in offers if each.verb == "abandon") == does


# -- Counts ---------------------------------------------------------------------------------------


class Rows(duly.Connector):
    """A second place for rows."""

    name = "rows"

    @duly.mutation(noun="change")
    async def append(self, call: duly.Call, text: str) -> None:
        pass


async def test_the_same_done_by_two_tools_is_one_count(duly_world: Stage) -> None:
    """U1: a person who has two places for rows still has three rows."""
    play = await opened(duly_world, connectors=(Rows(),))
    await play.deploy(
        flow(
            {
                CONSUMER: consumer(),
                "other": consumer(
                    prepare=(
                        Call("peek", (OUT,), {"limit": 1}, into="pending"),
                        When("pending", (Return(TAKE_OUT),), (Return({"reservations": []}),)),
                    ),
                    mutate=(Call("rows.append", (), {"text": "x"}),),
                    then=(),
                    subscribe=(OUT,),
                ),
            }
        )
    )
    await play.publish("a", "b")
    await play.drain()
    shown = await play.host.workflow(NAME)
    counts = Activity((Count(2, "input"),), (Count(4, "change", "added"),), (*[0] * 23, 4))
    assert shown.activity == counts


TAKE_OUT = {"reservations": [{"topic": OUT, "ids": ref("pending.*.id")}], "data": {}}
