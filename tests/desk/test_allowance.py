"""Several yeses at once, a yes for the next calls, other words, a reason for a no (A3)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly.config import Policy
from duly.connectors.base import Call as Sent
from duly.desk.approval import SEVERAL_MAX
from duly.desk.record import Approval, Approved
from duly.errors import ConfigError, Invalid, NotFound, RequestRefused
from duly.rules.allowance import End
from duly.rules.word import Known
from duly.rules.word import MutationStatus as Row
from duly.testing import Fault, Stage
from tests.engine.stand import CONSUMER, NAME, TOOL, Play, consumer, flow, opened, plan
from verification.moves import Call, ref

ASKED = Policy(approvals={"*": "always"})
ANNA = "anna"


async def waiting(stage: Stage, *events: str, policy: Policy = ASKED, **tool: Any) -> Play:
    """Bring the first of some events before a person."""
    play = await opened(stage, policy=policy, **tool)
    await play.deploy(flow())
    await play.publish(*events)
    await play.drain()
    return play


def soon(stage: Stage, seconds: float = 3600) -> str:
    at = datetime.fromtimestamp(stage.env.now_ms() / 1000, UTC) + timedelta(seconds=seconds)
    return at.isoformat()


async def shown(play: Play) -> Approval:
    (only,) = await play.host.approvals()
    return only


# -- Several at once ------------------------------------------------------------------------------


async def three(stage: Stage) -> tuple[Play, tuple[Approval, ...]]:
    """Let three workflows wait, each for a yes: the calls of `three`, `two` and `one`."""
    play = await opened(stage, policy=ASKED)
    for name in ("one", "two", "three"):
        await play.deploy(flow(name=name))
        await play.publish(name, name=name)
    await play.drain()
    found = {each.workflow: each for each in await play.host.approvals()}
    return play, tuple(found[name] for name in ("three", "two", "one"))


async def test_several_calls_of_one_tool_are_approved_in_one_act(duly_world: Stage) -> None:
    """A3, A6: across workflows, each by its hash, each with its act."""
    play, calls = await three(duly_world)
    answers = await play.host.approve_all({each.mutation: each.hash for each in calls}, by=ANNA)
    assert answers == tuple(Approved(each.mutation) for each in calls)
    await play.drain()
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (3, 3, True)
    acts = [each for each in await play.host.actions() if each.verb == "approve"]
    assert {(each.by, each.target) for each in acts} == {(ANNA, each.mutation) for each in calls}


async def test_of_several_each_is_judged_by_itself(duly_world: Stage) -> None:
    """A3: one refused keeps no other from being sent, and the answer says why."""
    play, (three_, two, one) = await three(duly_world)
    await play.host.reject(two.mutation)
    await play.host.pause("one")
    wanted = {
        three_.mutation: three_.hash,
        two.mutation: two.hash,
        one.mutation: one.hash,
        "mutation_9": "0",
    }
    answers = await play.host.approve_all(wanted)
    refused = {each.mutation: each.refused for each in answers}
    assert refused[three_.mutation] is None
    assert "rejected" in str(refused[two.mutation])
    assert "paused" in str(refused[one.mutation])
    assert "no mutation" in str(refused["mutation_9"])
    await play.drain()
    assert (play.sends(), (await play.store.get_mutation(one.mutation)).status) == (1, Row.PROPOSED)
    assert all(each.crash_count == 0 for each in await play.runs(None))


async def test_one_with_another_hash_among_several_is_not_sent(duly_world: Stage) -> None:
    """A4: a yes is for what was shown, also in the transaction of others."""
    play, (three_, two, one) = await three(duly_world)
    answers = await play.host.approve_all({three_.mutation: three_.hash, two.mutation: one.hash})
    assert [each.refused is None for each in answers] == [True, False]
    await play.drain()
    assert play.sends() == 1
    assert all(each.crash_count == 0 for each in await play.runs(None))


async def test_several_at_once_and_one_alone_send_each_once(duly_world: Stage) -> None:
    """A4: of a double click across both verbs one is taken."""
    play, calls = await three(duly_world)
    wanted = {each.mutation: each.hash for each in calls}
    async with play.host.running():
        await asyncio.gather(
            play.host.approve_all(wanted),
            play.host.approve_all(wanted),
            *(play.host.approve(each.mutation, each.hash) for each in calls),
            return_exceptions=True,
        )
        await duly_world.advance(60)
    assert (duly_world.count(), play.sends(), await play.is_clean()) == (3, 3, True)


async def test_calls_of_two_tools_are_not_approved_together(duly_world: Stage) -> None:
    """A3: one look is for one tool; and there is a limit."""
    play, calls = await three(duly_world)
    play.tamper("update mutation set tool = 'sheet.other' where id = ?", calls[0].mutation)
    with pytest.raises(Invalid, match="one tool at a time"):
        await play.host.approve_all({each.mutation: each.hash for each in calls})
    for many in ({}, {f"m{each}": "0" for each in range(SEVERAL_MAX + 1)}):
        with pytest.raises(Invalid, match=f"1 to {SEVERAL_MAX}"):
            await play.host.approve_all(many)
    assert play.sends() == 0


# -- Allowances -----------------------------------------------------------------------------------


async def allowed(
    stage: Stage, *events: str, calls: int = 2, seconds: float = 3600, **tool: Any
) -> Play:
    """Approve the first event's call, and with it the next ones with any text."""
    play = await waiting(stage, *events, **tool)
    call = await shown(play)
    until = soon(stage, seconds)
    await play.host.allow(call.mutation, call.hash, calls, until, where={"text": "*"}, by=ANNA)
    return play


async def test_an_allowance_covers_so_many_calls_and_the_next_one_asks(duly_world: Stage) -> None:
    """A3, A6: the approved call is not one of them; each row says under which it was sent."""
    play = await allowed(duly_world, "a", "b", "c", "d")
    await play.drain()
    assert (duly_world.count(), play.sends()) == (3, 3)
    assert (await shown(play)).observed.args == {"text": "d"}
    (allowance,) = await play.host.allowances(NAME)
    assert (allowance.used, allowance.calls, allowance.ended) == (2, 2, "calls")
    assert (allowance.given_by, allowance.tool, allowance.where) == (ANNA, TOOL, {"text": "*"})
    rows = await play.rows()
    assert [row.allowance_id for row in rows] == [None, allowance.id, allowance.id, None]
    assert [row.approved_by for row in rows] == [ANNA, ANNA, ANNA, None]
    (act,) = [each for each in await play.host.actions() if each.verb == "allow"]
    assert (act.by, act.target) == (ANNA, allowance.mutation)


async def test_a_call_that_is_sent_again_counts_once(duly_world: Stage) -> None:
    """A3, L7: counted by rows, not by sends."""
    play = await allowed(
        duly_world, "a", "b", "c", "d", idempotent=True, key_lifetime_s=86_400, reconcile=False
    )
    plan(duly_world, Fault.OK, Fault.TIMEOUT_AFTER, Fault.TIMEOUT_AFTER)
    await play.drain()
    await play.pass_by(120)
    assert duly_world.count() == 3
    (allowance,) = await play.host.allowances()
    assert (allowance.used, [row.attempt > 1 for row in await play.rows()][1]) == (2, True)


async def test_what_the_globs_do_not_name_must_be_the_same(duly_world: Stage) -> None:
    """A3: an allowance without globs is for the very same call."""
    play = await waiting(duly_world, "a", "b")
    call = await shown(play)
    await play.host.allow(call.mutation, call.hash, 5, soon(duly_world))
    await play.drain()
    assert (await shown(play)).observed.args == {"text": "b"}
    await play.host.reject((await shown(play)).mutation)
    await play.publish("again", payload="a")
    await play.drain()
    assert (duly_world.count(), await play.host.approvals()) == (2, ())


@pytest.mark.parametrize("how", ["revoked", "time", "version"])
async def test_an_allowance_ends(duly_world: Stage, how: str) -> None:
    """A3: a person takes it back, its time is over, or the script is another one."""
    play = await allowed(duly_world, "a", calls=9)
    await play.drain()
    (allowance,) = await play.host.allowances()
    if how == "revoked":
        await play.host.revoke_allowance(allowance.id, by="bob")
        with pytest.raises(RequestRefused, match="revoked already"):
            await play.host.revoke_allowance(allowance.id)
    elif how == "time":
        await duly_world.advance(3600)
    else:
        await play.deploy(flow({CONSUMER: consumer(subscribe=("in",))}))
    await play.publish("b")
    await play.drain()
    assert (play.sends(), (await shown(play)).observed.args) == (1, {"text": "b"})
    (after,) = await play.host.allowances()
    assert (after.ended, after.revoked_by) == (how, "bob" if how == "revoked" else None)


async def test_an_allowance_revoked_while_a_call_is_made_ready_covers_it_not(
    duly_world: Stage,
) -> None:
    """A3: the transaction of the send looks again, and the call is laid before a person."""
    play = await allowed(duly_world, "a", "b", calls=9)
    send = play.store.send_allowed

    async def revoked_first(*args: Any, **named: Any) -> object:
        (allowance,) = await play.host.allowances()
        await play.host.revoke_allowance(allowance.id)
        return await send(*args, **named)

    object.__setattr__(play.store, "send_allowed", revoked_first)
    await play.drain()
    assert (play.sends(), (await shown(play)).observed.args) == (1, {"text": "b"})
    assert all(each.crash_count == 0 for each in await play.runs())


async def test_an_allowance_ends_with_its_version_for_a_run_that_outlives_it(
    duly_world: Stage,
) -> None:
    """A3: a deploy ends it at once, also for the run that is under way in the old version."""
    play = await allowed(duly_world, "a", "b", calls=9)
    send = play.store.send_allowed

    async def deployed_first(*args: Any, **named: Any) -> object:
        await play.deploy(flow())
        return await send(*args, **named)

    object.__setattr__(play.store, "send_allowed", deployed_first)
    await play.drain()
    assert (play.sends(), (await shown(play)).observed.args) == (1, {"text": "b"})
    (allowance,) = await play.host.allowances()
    assert (allowance.ended, allowance.used) == (End.VERSION, 0)


async def test_a_changed_allowance_covers_nothing(duly_world: Stage) -> None:
    """L11, A3: it is sealed like the call it was given with."""
    play = await allowed(duly_world, "a", "b", calls=1)
    play.tamper("update allowance set calls = 1000")
    await play.drain()
    assert (await shown(play)).observed.args == {"text": "b"}


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_crash_around_an_allowed_send_counts_it_once(
    duly_world: Stage, moment: str
) -> None:
    """A3, L3: the count is written with the row, or not at all."""
    play = await allowed(duly_world, "a", calls=1)
    await play.drain()
    await play.publish("b")
    await play.crash_during(send_allowed=moment)
    await play.drain()
    await play.pass_by(600)
    await play.pass_by(600)
    (allowance,) = await play.host.allowances()
    assert allowance.used == 1
    if moment == "after":  # nothing had left; the fresh call is another row, and asks
        assert (play.sends(), len(await play.host.approvals())) == (1, 1)
    else:
        assert (play.sends(), await play.is_clean()) == (2, True)


async def test_for_high_risk_the_policy_must_allow_an_allowance(duly_world: Stage) -> None:
    """A3: the call alone can always be approved."""
    play = await waiting(duly_world, "a", risk="high")
    call = await shown(play)
    with pytest.raises(RequestRefused, match="high risk"):
        await play.host.allow(call.mutation, call.hash, 1, soon(duly_world))
    assert (await play.row()).status == Row.PROPOSED
    await play.restart(policy=replace(ASKED, allowance_risk_max="high"))
    await play.host.allow(call.mutation, call.hash, 1, soon(duly_world))
    await play.drain()
    assert (play.sends(), len(await play.host.allowances())) == (1, 1)


async def test_a_wrong_allowance_is_refused_by_name(duly_world: Stage) -> None:
    """A3: without an end there is none, and a glob names an argument."""
    play = await waiting(duly_world, "a")
    call = await shown(play)
    allow = play.host.allow
    for calls, until, where, words in (
        (0, soon(duly_world), None, "calls is 0"),
        (1, soon(duly_world, -1), None, "until must"),
        (1, "tomorrow", None, "until must be a time"),
        (1, "2026-01-02T00:00:00", None, "with its zone"),
        (1, "0001-01-01T00:00:00+23:59", None, "until must be a time"),
        (1, "9999-12-31T23:59:59-23:59", None, "until must be a time"),
        (1, soon(duly_world), {"texts": "*"}, 'Did you mean "text"'),
        (1, soon(duly_world), {"text": ""}, "must be a text"),
        (1, soon(duly_world), {"text": "b*"}, "where.text: .* does not match this call"),
    ):
        with pytest.raises(Invalid, match=words):
            await allow(call.mutation, call.hash, calls, until, where=where)
    with pytest.raises(NotFound, match="no allowance"):
        await play.host.revoke_allowance("allowance_9")
    assert ((await play.row()).status, await play.host.allowances()) == (Row.PROPOSED, ())


async def test_an_allowance_does_not_go_beyond_a_grant(duly_world: Stage) -> None:
    """A1, A3: it stands for a yes, and for nothing else."""
    play = await allowed(duly_world, "a", calls=9)
    await play.drain()
    await play.host.revoke(NAME, TOOL)
    await play.publish("b")
    await play.drain()
    assert (play.sends(), (await play.run()).waits) == (1, "grant")


# -- first:n --------------------------------------------------------------------------------------


async def approve_next(play: Play) -> None:
    call = await shown(play)
    await play.host.approve(call.mutation, call.hash)
    await play.drain()


async def test_the_first_calls_of_a_major_version_ask_and_then_no_more(duly_world: Stage) -> None:
    """A3: one that was rejected is no call, and a new version by a person begins anew."""
    policy = Policy(approvals={"*": "first:2"})
    play = await waiting(duly_world, "a", "b", "c", "d", "e", policy=policy)
    await play.host.reject((await shown(play)).mutation)
    await play.drain()
    await approve_next(play)
    await approve_next(play)
    assert (duly_world.count(), await play.is_clean()) == (4, True)
    await play.deploy(flow({CONSUMER: consumer(then=None)}))
    await play.publish("f")
    await play.drain()
    assert (await shown(play)).observed.args == {"text": "f"}


def test_a_policy_says_how_many_calls_come_first() -> None:
    """A3: one past the limit is refused, and so is none."""
    assert Policy(approvals={"*": "first:9999"}).approvals == {"*": "first:9999"}
    for word in ("first:0", "first:10000", "first:", "first:-1", "first"):
        with pytest.raises(ConfigError, match="first:3"):
            Policy(approvals={"*": word})
    with pytest.raises(ConfigError, match="allowance_risk_max"):
        Policy(allowance_risk_max="all")  # type: ignore[arg-type]


# -- Amending -------------------------------------------------------------------------------------


class Post(duly.Connector):
    """Letters whose body a person may change."""

    name = "post"

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    @duly.mutation(
        labels={"to": "To", "copies": "Copies", "body": "Body"}, editable=("body", "copies")
    )
    async def send(
        self, call: Sent, to: str, body: str, copies: int = 1, note: str | None = None
    ) -> str:
        self.sent.append(dict(call.args))
        return "sent"


LETTER = Call("post.send", (), {"to": "a@acme.com", "body": ref("prepared.data.text"), "note": "n"})


async def posting(stage: Stage) -> tuple[Play, Post, Approval]:
    """Bring a letter before a person."""
    post = Post()
    play = await opened(stage, policy=ASKED, connectors=(post,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(LETTER,))}))
    await play.publish("a")
    await play.drain()
    return play, post, await shown(play)


async def test_a_call_is_shown_as_the_form_its_tool_declares(duly_world: Stage) -> None:
    """A3, L11: names and full texts from the observed call; what is not declared comes after."""
    play, _, call = await posting(duly_world)
    assert call.form == (("To", "a@acme.com"), ("Body", "a"), ("Copies", ""), ("note", "n"))
    assert call.editable == ("body", "copies")
    assert (await play.host.mutation(call.mutation)).args == call.observed.args


async def test_a_tool_that_declares_nothing_shows_every_argument(duly_world: Stage) -> None:
    """A3: under its own name."""
    play = await waiting(duly_world, "a")
    assert (await shown(play)).form == (("text", "a"),)
    assert (await shown(play)).editable == ()


async def test_an_amended_call_is_sent_as_the_persons_own(duly_world: Stage) -> None:
    """A3, A4, A6: under its own hash; the row keeps what the script asked for."""
    play, post, call = await posting(duly_world)
    hash_ = await play.host.amend(call.mutation, call.hash, {"body": "Dear A"}, by="bob")
    amended = await shown(play)
    assert (amended.hash, amended.amended_by) == (hash_, "bob")
    assert amended.observed.args == {"to": "a@acme.com", "body": "Dear A", "note": "n"}
    assert amended.proposed == call.observed.args
    with pytest.raises(RequestRefused, match="Look at it again"):
        await play.host.approve(call.mutation, call.hash)
    await play.host.approve(call.mutation, hash_, by=ANNA)
    await play.restart()
    await play.drain()
    assert post.sent == [{"to": "a@acme.com", "body": "Dear A", "note": "n"}]
    row = await play.host.mutation(call.mutation)
    assert (row.amended_by, row.approved_by, row.proposed) == ("bob", ANNA, call.observed.args)
    verbs = [each.verb for each in await play.host.actions()]
    assert verbs[:2] == ["approve", "amend"]


async def test_only_what_the_tool_marks_can_be_amended(duly_world: Stage) -> None:
    """A3: by its type, and to something else."""
    play, post, call = await posting(duly_world)
    for args, words in (
        ({"to": "b@evil.com"}, "Editable: body, copies"),
        ({"body": 7}, "Give string"),
        ({"body": "a"}, "changes nothing"),
        ({}, "args must be"),
    ):
        with pytest.raises(Invalid, match=words):
            await play.host.amend(call.mutation, call.hash, args)
    with pytest.raises(RequestRefused, match="Look at it again"):
        await play.host.amend(call.mutation, "0", {"body": "b"})
    assert await shown(play) == call
    assert post.sent == []


async def test_an_amended_call_is_amended_again_and_keeps_the_first(duly_world: Stage) -> None:
    """A3: what the script asked for stays what it was."""
    play, post, call = await posting(duly_world)
    first = await play.host.amend(call.mutation, call.hash, {"body": "b"})
    second = await play.host.amend(call.mutation, first, {"copies": 2})
    assert (await shown(play)).proposed == call.observed.args
    await play.host.approve(call.mutation, second)
    await play.drain()
    assert [each["body"] for each in post.sent] == ["b"]


async def test_a_changed_proposal_is_not_amended(duly_world: Stage) -> None:
    """L11: an amendment would seal what another program wrote."""
    play, _, call = await posting(duly_world)
    play.tamper("update mutation set args = replace(args, 'a@acme.com', 'b@evil.com')")
    with pytest.raises(RequestRefused, match="changed in the store"):
        await play.host.amend(call.mutation, call.hash, {"body": "b"})


# -- A reason -------------------------------------------------------------------------------------


async def test_a_rejection_keeps_its_reason(duly_world: Stage) -> None:
    """A3, L12, A6: with the row and with the act."""
    play = await waiting(duly_world, "a")
    call = await shown(play)
    await play.host.reject(call.mutation, reason="Not before Monday.", by=ANNA)
    known = (await play.host.mutation(call.mutation)).known
    assert known is not None
    assert (known.how, known.by, known.said) == (Known.UNSENT, ANNA, "Not before Monday.")
    (act,) = [each for each in await play.host.actions() if each.verb == "reject"]
    assert act.detail == "Not before Monday."
    for reason in ("", " ", "x" * 501):
        with pytest.raises(Invalid, match="reason must be a text"):
            await play.host.reject(call.mutation, reason=reason)
