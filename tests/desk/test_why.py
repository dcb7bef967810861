"""Why, and what waits for a person: every sentence is read from the store and can be understood."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.registry import VERBS
from duly.config import Policy
from duly.desk.record import Attention, Preview, Why
from duly.errors import Invalid, NotFound
from duly.fact import Offer
from duly.rules.count import Activity, Count
from duly.rules.redaction import Redactor
from duly.rules.standing import Code, Mover
from duly.store.base import Durability
from duly.testing import Fault, Stage
from tests.bus.stand import listen, say
from tests.desk.golden import sheet
from tests.desk.golden import situation as golden
from tests.desk.situation import ASKED, SITUATIONS, ready, run, ungranted
from tests.desk.stand import reception
from tests.engine.stand import CONSUMER, IN, NAME, OUT, TOOL, consumer, flow, opened, plan, producer
from tests.spoken import carry_out, given, long, short
from tests.store import scene
from verification.moves import Call, Return, ref

# What nobody should have to look up (U5).
MACHINERY = re.compile(
    r"\b(runs?|phases?|topics?|ledgers?|reconcil\w*|indeterminate|mutations?|payloads?|handlers?"
    r"|transient|successors?|reserv\w*|consumers?|producers?|events?|messages? ids?|in_flight"
    r"|proposed call|escalat\w*|commit\w*|logic|internal|None|null)\b",
    re.IGNORECASE,
)
QUOTED = re.compile(r"“[^”]*”")
BLOCKED = re.compile(r" “[^”]*” is blocked(; [^.]* waits? behind this)?\.$")
SENTENCE_END = re.compile(r"[.!?](?: |$)")


# -- The golden file ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sheet.BUILDERS)
async def test_what_a_person_is_told_is_what_was_read_and_agreed(
    duly_world: Stage, name: str
) -> None:
    """U7, F8: standing, why, attention and offers of a real host, word for word."""
    assert await sheet.tell(name, duly_world) == sheet.read()[name]


def test_the_golden_file_has_every_situation_and_no_other() -> None:
    """U7: at least forty-five, in the order in which they are played."""
    assert list(sheet.read()) == list(sheet.BUILDERS)
    assert len(sheet.BUILDERS) >= 45


def told() -> list[str]:
    """Every sentence of the golden file."""
    lines = sheet.FILE.read_text(encoding="utf-8").splitlines()
    marks = ("standing ", "why ", "attention ")
    return [line[11:] for line in lines if line.startswith(marks)]


def test_no_sentence_needs_a_word_of_the_machinery() -> None:
    """U5: what others said is in quotation marks; the rest is for everybody."""
    assert len(told()) > 200
    found = {line for line in told() if MACHINERY.search(QUOTED.sub("", line))}
    assert found == set()


def test_a_why_is_one_sentence_or_two_and_what_is_blocked() -> None:
    """U7, F6: short enough to be read."""
    lines = sheet.FILE.read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith(("why ", "attention ")):
            said = QUOTED.sub("X", BLOCKED.sub("", line[11:]))
            assert 1 <= len(SENTENCE_END.findall(said)) <= 2, line
            assert said.endswith("."), line
            assert said[0] == said[0].upper(), line


def test_what_the_check_of_words_must_find_it_finds() -> None:
    """U5: a planted word is found, a quoted one is not."""
    assert MACHINERY.search("The run waits")
    assert not MACHINERY.search(QUOTED.sub("", "It failed: “no such topic”"))


# -- Why ------------------------------------------------------------------------------------------


async def test_why_of_a_proposal_says_everything_there_is(duly_world: Stage) -> None:
    """U7, L11: inputs, claimed, observed, reason, who, when, what can be done."""
    play = await run(duly_world, policy=ASKED)
    row = await play.row()
    why = await play.host.why(row.held_by)
    assert why == Why(
        workflow=NAME,
        reason=why.reason,
        inputs=("Event",),
        claimed="Add a row",
        observed=Preview(TOOL, {"text": "a"}),
        mover=Mover.PERSON,
        at=None,
        offers=why.offers,
    )
    assert (why.reason.code, why.reason.subject) == (Code.NEEDS_APPROVAL, row.id)
    assert short(play.host, why) == (
        "Waiting for you to approve sheet.append (claimed: “Add a row”)"
    )
    approve = Offer("approve", {"mutation": row.id, "seen": row.hash}, "approve")
    assert why.offers[0] == approve
    assert [each.verb for each in why.offers] == [
        "approve", "reject", "skip", "retry", "abandon", "pause",
    ]  # fmt: skip
    assert await play.host.why(row.id) == await play.host.why(NAME) == why


async def test_every_offer_can_be_said_to_a_host_as_it_stands(duly_world: Stage) -> None:
    """U7, R9: a verb of the host, with arguments that fit."""
    play, _ = await golden.many(duly_world)
    (entry,) = await play.host.attention()
    for each in entry.offers:
        verb = VERBS[each.verb]
        assert {*each.args, *each.asks} <= {parameter.name for parameter in verb.parameters}
    reject = next(each for each in entry.offers if each.verb == "reject")
    await carry_out(play.host, reject)
    assert await play.host.attention() == ()


async def test_why_names_the_time_at_which_the_host_goes_on(duly_world: Stage) -> None:
    """U7: backoff, and the next question about an unknown change."""
    play = await SITUATIONS["consumer mutating paused:reconciliation needs_reconcile"](duly_world)
    why = await play.host.why(NAME)
    assert why.at == duly_world.env.now() + timedelta(seconds=10)
    assert why.mover is Mover.RECONCILER
    await play.host.pause(NAME)
    assert (await play.host.why(NAME)).at == why.at


async def test_nothing_follows_in_a_paused_workflow(duly_world: Stage) -> None:
    """U7, F7: whatever would move it on, the resume comes first, and is offered."""
    play, name = await golden.pausing(duly_world, SITUATIONS["consumer preparing paused:transient"])
    why = await play.host.why(name)
    assert (why.mover, why.at) == (Mover.RESUME, None)
    assert why.offers[-1] == Offer("resume", {"workflow": NAME}, "resume")


async def test_a_call_that_was_not_let_through_is_shown(duly_world: Stage) -> None:
    """U7, A1: there is no row of the ledger, and still a person sees what was wanted."""
    play = await ungranted(duly_world)
    why = await play.host.why(NAME)
    assert why.observed == Preview(TOOL, {"text": "a"})
    assert why.claimed == "Add a row"


@pytest.mark.parametrize("can_be_asked", [True, False])
async def test_asking_again_is_offered_only_where_somebody_can_be_asked(
    duly_world: Stage, can_be_asked: bool
) -> None:
    """R9, L10: a tool that can be asked, or sent again safely."""
    play = await opened(duly_world, reconcile=can_be_asked)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE, reconcile=(Fault.UNSURE,) * 6 * can_be_asked)
    await play.deploy(flow())
    await play.publish("a")
    async with play.host.running():
        await duly_world.advance(3600)
    offers = (await play.host.why(NAME)).offers
    answers = [each.args.get("answer", each.verb) for each in offers]
    asking = ["try_again"] if can_be_asked else []
    assert answers == [*asking, "did_not_happen", "happened", "skip", "pause"]
    assert {each.verb for each in offers} == {"settle", "pause"}


async def test_a_paused_workflow_is_asked_for_by_what_it_will_do(duly_world: Stage) -> None:
    """U7: a plan has its time, a pause has none."""
    play, name = await golden.OTHERS["the next check is planned"](duly_world)
    why = await play.host.why(name)
    assert why.at == duly_world.env.now() + timedelta(minutes=5)
    assert why.offers == (Offer("run_now", {"workflow": NAME}, "run_now"),)
    await play.host.pause(NAME)
    assert (await play.host.why(name)).at is None


async def test_an_unknown_id_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    """U7: a run, a mutation or a workflow."""
    async with reception(tmp_path) as desk:
        with pytest.raises(NotFound, match='Did you mean "mail"'):
            await desk.why("mial")
        with pytest.raises(Invalid):
            await desk.why(7)  # type: ignore[arg-type]


async def test_who_restored_a_workflow_is_told_what_it_does_not_know(duly_world: Stage) -> None:
    """U7, H5: it waits for a person, and says since when it is blind."""
    play, name = await golden.resting(duly_world, flow())
    since = play.now - 60_000
    workflow_id = await play.workflow_id()
    await play.store.backend.transact(
        lambda tx: tx.one("blind_workflow", id=workflow_id, since=since, now=play.now),
        Durability.BARRIER,
    )
    assert "restored from a backup of 31 Dec 2025 23:59 UTC" in long(
        play.host, await play.host.why(name)
    )
    (entry,) = await play.host.attention()
    assert (entry.key, entry.offers[0].verb) == ("flow/restored", "resume")


# -- Attention ------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", SITUATIONS)
async def test_attention_lists_exactly_what_only_a_person_can_move_on(
    duly_world: Stage, state: str
) -> None:
    """F8, R9: hours of the host alone do not move what is listed, and all else moves."""
    play = await SITUATIONS[state](duly_world)
    entries = await play.host.attention()
    before = await play.run()
    async with play.host.running():
        await duly_world.advance(5400)
    after = {each.id: each for each in await play.runs()}[before.id]
    is_stuck = bool(after.open) and after.status == before.status
    assert bool(entries) == is_stuck, state


async def test_attention_goes_from_workflow_to_workflow_by_its_key(duly_world: Stage) -> None:
    """F8: pages of any size show the same entries, each once, in order."""
    play = await opened(duly_world, policy=ASKED)
    for name in ("b", "a", "c"):
        await play.deploy(flow({CONSUMER: consumer(golden.DECLINE)}, name=name))
        await play.publish("x", "y", name=name)
    await play.drain()
    await duly_world.advance(golden.DAYS_8)
    for name in ("a", "b"):
        await play.deploy(flow({}, {"poll": producer(every="1d")}, name=name, topics=(OUT,)))
    await play.deploy(flow(name="c"))
    await play.drain()
    whole = await play.host.attention()
    assert [each.key for each in whole] == [
        "a/orphaned/in", "b/orphaned/in", "c/open", "c/stale",
    ]  # fmt: skip
    for size in (1, 2, 3):
        seen: list[Attention] = []
        after: str | None = None
        while page := await play.host.attention(limit=size, after=after):
            assert len(page) <= size
            seen += page
            assert len(seen) <= len(whole)  # a page that repeats would go on for ever
            after = page[-1].key
        assert tuple(seen) == whole


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_page_of_attention_has_its_limits(tmp_path: Path, limit: int) -> None:
    """N: one to a thousand entries."""
    async with reception(tmp_path) as desk:
        with pytest.raises(Invalid, match="from 1 to 1000"):
            await desk.attention(limit=limit)
        assert await desk.attention(limit=1000) == ()


async def test_a_page_of_attention_goes_on_from_a_key(tmp_path: Path) -> None:
    """N: and from nothing else."""
    async with reception(tmp_path, scene.PROPOSED) as desk:
        with pytest.raises(Invalid):
            await desk.attention(after=3)  # type: ignore[arg-type]
        (entry,) = await desk.attention()
        assert await desk.attention(after=entry.key) == ()
        assert await desk.attention(after="nobody/open") == ()


async def test_a_limit_of_the_day_is_never_offered_away(duly_world: Stage) -> None:
    """A1, U7: the limit is left to be chosen, what else was limited stays, also after midnight."""
    play, _ = await golden.used_up(duly_world)
    await play.host.grant(NAME, TOOL, mutations_per_day=1, where={"text": "*"})
    await play.drain()
    args: dict[str, Any] = {"workflow": NAME, "capability": TOOL, "where": {"text": "*"}}
    for _day in range(2):
        (entry,) = await play.host.attention()
        assert entry.reason.code == Code.DAILY_LIMIT_REACHED
        args["seen"] = (await play.host.right(NAME, TOOL)).seen
        assert Offer("grant", args, "grant", ("mutations_per_day",)) in entry.offers
        await duly_world.advance(86_400)
    await play.host.retry((await play.run()).id)
    await play.drain()
    assert await play.host.attention() == ()


@pytest.mark.parametrize(
    ("faults", "where", "code", "limits", "asks"),
    [
        ((), {"text": "b*"}, Code.GRANT_TOO_NARROW, {}, ("where",)),
        ((Fault.FORBID,), {"text": "a*"}, Code.DENIED_OUTSIDE, {"where": {"text": "a*"}}, ()),
    ],
)
async def test_who_is_asked_for_a_grant_hears_what_is_lacking(
    duly_world: Stage,
    faults: tuple[Fault, ...],
    where: dict[str, str],
    code: Code,
    limits: dict[str, Any],
    asks: tuple[str, ...],
) -> None:
    """A1, U7: the reach of the grant, or nothing here, since the outside refused."""
    play = await ready(duly_world, None, *faults)
    await play.host.grant(NAME, TOOL, mutations_per_day=9, where=where)
    await play.drain()
    (entry,) = await play.host.attention()
    assert (entry.reason.code, entry.workflow) == (code, NAME)
    args = {"workflow": NAME, "capability": TOOL, "mutations_per_day": 9, **limits}
    args["seen"] = (await play.host.right(NAME, TOOL)).seen
    assert Offer("grant", args, "grant", asks) in entry.offers


async def test_what_the_bus_gave_up_waits_for_a_person(duly_world: Stage) -> None:
    """F8, B5: one entry before all workflows, with what can be done, until it is done."""
    play = await run(duly_world, policy=ASKED)

    async def fail(event: object) -> None:
        raise ValueError("no luck")

    listen(play.host, subscriber_id="ear", then=fail)
    first, _second = await say(play.host), await say(play.host)
    async with play.host.running():
        await duly_world.advance(1)
    entry, proposal = await play.host.attention()
    assert (entry.workflow, entry.key, proposal.key) == ("", "/bus", f"{NAME}/open")
    assert "2 deliveries, the oldest for “ear”, with “ValueError: no luck”" in long(
        play.host, entry
    )
    assert not MACHINERY.search(QUOTED.sub("", long(play.host, entry)))
    assert given(entry.offers[1]) == ("bus.discard", (first, "ear"))
    assert await play.host.attention(limit=1) == (entry,)
    assert await play.host.attention(after=entry.key) == (proposal,)
    assert await play.host.attention(after=proposal.key) == ()
    for each in entry.offers:
        if each.verb == "bus.discard":
            await carry_out(play.host, each)
    assert await play.host.attention() == (proposal,)


# -- A title that lies ----------------------------------------------------------------------------

LIE = "Add a row"
DELETE = "drive.delete"


class Drive(duly.Connector):
    """What a lying script really calls."""

    name = "drive"

    @duly.mutation(risk="high", lag_s=0)
    async def delete(self, call: duly.Call, file: str, token: str = "") -> dict[str, Any]:
        return {"deleted": file}


def lying(title: str = LIE) -> Any:
    """A script that says it adds a row and deletes a file."""
    prepared = {
        "reservations": [{"topic": IN, "ids": ref("pending.*.id")}],
        "data": {},
        "ui": {"title": title},
    }
    prepare = (Call("peek", (IN,), {"limit": 1}, into="pending"), Return(prepared))
    mutate = (Call(DELETE, (), {"file": "thesis.pdf"}),)
    return flow({CONSUMER: consumer(prepare, mutate, then=None)})


async def lie(stage: Stage, policy: Policy, title: str = LIE) -> Any:
    play = await opened(stage, policy=policy, connectors=(Drive(),))
    await play.deploy(lying(title))
    await play.publish("a")
    await play.drain()
    return play


async def views_of(play: Any) -> dict[str, object]:
    """Every view that shows a call, by its name."""
    host = play.host
    row = await play.row()
    return {
        "approvals": await host.approvals(),
        "mutation": await host.mutation(row.id),
        "mutations": await host.mutations(),
        "inputs": await host.inputs(NAME),
        "input's sentence": short(host, (await host.inputs(NAME))[0]),
        "outputs": await host.outputs(NAME),
        "attention": await host.attention(),
        "attention's sentence": [long(host, each) for each in await host.attention()],
        "why": await host.why(row.id),
        "why's sentence": long(host, await host.why(row.id)),
    }


async def test_a_title_that_lies_stands_beside_what_was_seen_in_every_view(
    duly_world: Stage,
) -> None:
    """L11: a person who reads the claim reads the call in the same place."""
    play = await lie(duly_world, ASKED)
    shown = await views_of(play)
    shown["standing"] = short(play.host, await play.host.workflow(NAME))
    for name, view in shown.items():
        assert LIE in str(view), name
        assert DELETE in str(view), name
    (approval,) = await play.host.approvals()
    await play.host.approve(approval.mutation, approval.hash)
    await play.drain()
    for name, view in (await views_of(play)).items():
        if view not in ((), []):
            assert (LIE in str(view), DELETE in str(view)) == (True, True), name


async def test_a_title_is_marked_as_the_script_s_words(duly_world: Stage) -> None:
    """L11, U1: the call comes first, the claim in quotation marks."""
    play = await lie(duly_world, ASKED)
    said = f"{DELETE} (claimed: “{LIE}”)"
    assert said in short(play.host, await play.host.workflow(NAME))
    assert said in long(play.host, await play.host.why(NAME))
    (output,) = await play.host.outputs(NAME)
    assert (output.claimed, output.observed) == (LIE, Preview(DELETE, {"file": "thesis.pdf"}))


async def test_activity_counts_what_was_done_and_not_what_was_claimed(duly_world: Stage) -> None:
    """L11, U1: a deletion is no row, whatever its title says."""
    play = await lie(duly_world, Policy())
    counts = Activity((Count(1, "input"),), (Count(1, "change", "deleted"),), (*[0] * 23, 1))
    assert (await play.host.workflow(NAME)).activity == counts


async def test_a_title_cannot_close_its_own_quotation_marks(duly_world: Stage) -> None:
    """L11: what it says cannot go on as if it were ours."""
    play = await lie(duly_world, ASKED, "Add a row”). Approved by anna. (“")
    why = long(play.host, await play.host.why(NAME))
    assert '(claimed: “Add a row"). Approved by anna. ("”)' in why


async def test_a_secret_is_in_no_sentence(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: neither as an argument nor as a title."""
    play = await lie(duly_world, ASKED, "Delete with hunter2")
    outside = play.desk.parts.outside
    monkeypatch.setattr(outside, "secrets", lambda: Redactor(("hunter2", "thesis")))
    shown = await views_of(play)
    shown["standing"] = asdict(await play.host.workflow(NAME))
    for name, view in shown.items():
        assert "hunter2" not in str(view), name
        assert "thesis" not in str(view), name
