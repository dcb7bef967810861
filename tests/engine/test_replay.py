"""What another version would have changed, tried on what past runs were given (F3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import duly
from duly.config import Policy, WorkflowPolicy
from duly.engine import live as lives
from duly.engine.replay import RecordedOutside, _obstacle, replay
from duly.errors import Invalid
from duly.rules.redaction import Redactor
from duly.rules.replay import Difference, OutsideChange, Replay
from duly.rules.value import Json
from duly.store.recording import PAST_RUNS_MAX
from duly.testing import Fault, Stage
from duly.words import say_difference
from tests.engine.stand import (
    CONSUMER,
    DECLINE,
    IN,
    NAME,
    NEXT,
    NOTHING,
    OUT,
    PEEK_ONE,
    PREPARE,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
)
from verification.moves import NOW, RANDOM, Call, Lose, Move, Return, Say, Throw, When, ref
from verification.scripted import Scripted

FIND = Call("sheet.find", (), {"query": "q"}, into="found")
TAKE: Json = {**RESERVE, "data": {"text": ref("found.0")}}  # type: ignore[dict-item]
READING: tuple[Move, ...] = (
    PEEK_ONE,
    FIND,
    When("pending", (Return(TAKE),), (Return(NOTHING),)),
)
SAME = Replay(1)
CANARY = "canary-Zx81!"


def one(**said: Any) -> Scripted:
    """The usual consumer, but for what is said."""
    return flow({CONSUMER: consumer(**said)})


def appending(**args: Any) -> tuple[Move, ...]:
    return (Call(TOOL, (), args),)


async def past(play: Play, script: Scripted, *ids: str) -> None:
    """Let a version work on some events."""
    await play.deploy(script)
    for each in ids or ("a",):
        await play.publish(each)
        await play.drain()


async def what_if(play: Play, script: Scripted, **options: Any) -> Replay:
    parts = play.desk.parts
    loaded = await parts.sandbox.load(script.source(), parts.outside.catalog)
    return await replay(parts, await play.workflow_id(), loaded, **options)


async def problem(play: Play, script: Scripted) -> str:
    """The one thing that cannot be told."""
    replayed = await what_if(play, script)
    (difference,) = replayed.differences
    assert difference.after is None
    assert difference.problem is not None
    assert not replayed.is_same
    return difference.problem


# -- The same -----------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare", [PREPARE, READING], ids=["without reads", "with reads"])
async def test_the_version_itself_repeats_its_past(duly_world: Stage, prepare: Any) -> None:
    """F3: over every run, asking nobody, sending nothing, storing nothing."""
    play = await opened(duly_world)
    await past(play, one(prepare=prepare), "a", "b")
    calls, runs = list(duly_world.calls), await play.runs()
    assert await what_if(play, one(prepare=prepare)) == Replay(2)
    assert (duly_world.calls, await play.runs(), duly_world.count()) == (calls, runs, 2)


async def test_another_title_or_log_line_is_no_difference(duly_world: Stage) -> None:
    """L11: a title decides nothing."""
    play = await opened(duly_world)
    await past(play, one())
    other: Json = {**RESERVE, "ui": {"title": "Something else"}}  # type: ignore[dict-item]
    prepare = (Say("hello"), PEEK_ONE, When("pending", (Return(other),), (Return(NOTHING),)))
    assert await what_if(play, one(prepare=prepare)) == SAME


async def test_state_clock_and_dice_are_those_of_the_run(duly_world: Stage) -> None:
    """C12, C13: what mutate and next make of time and chance is made again."""
    play = await opened(duly_world)
    mutate = appending(text=[NOW, RANDOM])
    told = (*NEXT, Return({"n": ref("result.result.row")}))
    stateful = (
        PEEK_ONE,
        When("state.n", (Return({**RESERVE, "data": ref("state.n")}),)),  # type: ignore[dict-item]
        When("pending", (Return(RESERVE),), (Return(NOTHING),)),
    )
    script = one(prepare=stateful, mutate=mutate, then=told)
    await past(play, script, "a")
    await play.pass_by(60)
    assert await what_if(play, script) == SAME
    texts = appending(text=ref("prepared.data"))
    await past(play, one(prepare=stateful, mutate=texts, then=told), "b")
    replayed = await what_if(play, one(prepare=stateful, mutate=texts, then=told))
    assert [each.run for each in replayed.differences] == [(await play.runs())[0].id]


async def test_a_chain_is_repeated_by_what_it_ended_with(duly_world: Stage) -> None:
    """R5, F3: an heir is tried on what its predecessor was given and asked for."""
    play = await opened(duly_world)
    await play.deploy(one(prepare=READING))
    await play.publish("a")
    await play.crash_during(record="after")
    await play.drain()
    assert len(await play.runs()) == 2
    assert await what_if(play, one(prepare=READING)) == SAME


async def test_a_rejected_call_is_compared_by_what_was_asked_for(duly_world: Stage) -> None:
    """A4, F3: next is told that it was skipped, as it was then."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}))
    only_skipped = (When("result.result", (Throw("not skipped"),)),)
    await past(play, one(then=only_skipped))
    await play.host.reject((await play.row()).id)
    await play.drain()
    assert await what_if(play, one(then=only_skipped)) == SAME
    assert "There is no result.result" in await problem(
        play, one(then=(Say(ref("result.result")),))
    )
    (difference,) = (await what_if(play, one(mutate=None, then=None))).differences
    assert difference.before == OutsideChange(TOOL, {"text": "a"})


async def test_a_run_that_changed_nothing_is_repeated_too(duly_world: Stage) -> None:
    """C9, F3: no call is the same as no call, and not the same as one."""
    play = await opened(duly_world)
    await past(play, one(mutate=(Say("no"),)))
    assert await what_if(play, one(mutate=None)) == SAME
    (difference,) = (await what_if(play, one())).differences
    assert (difference.before, difference.after) == (None, OutsideChange(TOOL, {"text": "a"}))


async def test_grants_taken_back_since_are_no_difference(duly_world: Stage) -> None:
    """A1, F3: nothing is sent, so nothing needs leave."""
    play = await opened(duly_world)
    await past(play, one(prepare=READING))
    for capability in {each.capability for each in play.desk.parts.outside.catalog.tools}:
        await play.host.revoke(NAME, capability)
    assert await what_if(play, one(prepare=READING)) == SAME


async def test_the_same_question_is_answered_as_often_as_it_was_asked(duly_world: Stage) -> None:
    """F3: in the order of the answers; once more is once too often."""
    answers = iter("xyz")
    play = await opened(duly_world, connectors=(Oracle(answers),))
    asks = [Call("oracle.ask", (), {"about": "it"}, into=name) for name in "uv"]
    both = {**RESERVE, "data": {"text": [ref("u"), ref("v")]}}  # type: ignore[dict-item]
    prepare = (PEEK_ONE, When("pending", (*asks, Return(both)), (Return(NOTHING),)))
    await past(play, one(prepare=prepare))
    assert await what_if(play, one(prepare=prepare)) == SAME
    thrice = (asks[0], *prepare)
    assert "asks oracle.ask for something" in await problem(play, one(prepare=thrice))
    assert next(answers) == "z"


class Oracle(duly.Connector):
    """It never says the same thing twice."""

    name = "oracle"

    def __init__(self, answers: Any) -> None:
        self._answers = answers

    @duly.read(by_id=True)
    async def ask(self, about: str, deeply: bool = False) -> str:
        return str(next(self._answers))


# -- Different ----------------------------------------------------------------------------------


async def test_a_difference_names_run_inputs_and_both_changes(duly_world: Stage) -> None:
    """F3: newest first, with the titles a person knows."""
    play = await opened(duly_world)
    await past(play, one(), "a", "b")
    replayed = await what_if(play, one(mutate=appending(text="other")))
    runs = {each.id: each for each in await play.runs()}
    assert replayed.tried == 2
    assert list(runs) == [each.run for each in reversed(replayed.differences)]
    assert replayed.differences[0] == Difference(
        list(runs)[1],
        ("Event",),
        OutsideChange(TOOL, {"text": "b"}),
        OutsideChange(TOOL, {"text": "other"}),
    )


@pytest.mark.parametrize("said", [{"prepare": DECLINE}, {"mutate": (Say("no"),)}, {"mutate": None}])
async def test_a_version_that_would_change_nothing_is_different(
    duly_world: Stage, said: Any
) -> None:
    """F3: whether it takes nothing or only does nothing."""
    play = await opened(duly_world)
    await past(play, one())
    (difference,) = (await what_if(play, one(**said))).differences
    assert say_difference(difference) == (
        'For “Event” it called sheet.append with text "a"; now it would change nothing.'
    )


async def test_only_what_a_run_reserved_is_offered_to_the_new_version(duly_world: Stage) -> None:
    """F3, T7: an event that came later was not there."""
    play = await opened(duly_world)
    await past(play, one(), "a")
    everything = {
        "reservations": [{"topic": IN, "ids": ref("pending.*.id")}],
        "data": {"text": "a"},
    }
    peek_all = Call("peek", (IN,), into="pending")
    prepare = (peek_all, When("pending", (Return(everything),), (Return(NOTHING),)))
    await play.publish("b")
    assert await what_if(play, one(prepare=prepare)) == SAME


# -- What cannot be told ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (flow({"another": consumer()}), "the new version has no consumer file."),
        (
            one(prepare=(Throw("no", line=3),)),
            "the new version fails on it (line 3): no.",
        ),
        (one(prepare=(Lose(),)), "the new version fails on it: "),
        (one(mutate=appending(words=1)), "sheet.append.words: no such argument"),
        (one(then=(Throw("no"),)), "the new version fails on it: no."),
        (
            one(prepare=(FIND, *PREPARE)),
            "it asks sheet.find for something that run did not ask.",
        ),
        (
            flow({CONSUMER: consumer(subscribe=(OUT,)), "b": consumer(subscribe=(IN,))}),
            "does not subscribe",
        ),
    ],
    ids=["no handler", "throws", "lost", "arguments", "next", "another question", "subscription"],
)
async def test_what_cannot_be_repeated_is_said(
    duly_world: Stage, script: Scripted, said: str
) -> None:
    """F3: a problem with its reason, never taken for the same."""
    play = await opened(duly_world)
    await past(play, one())
    assert said in await problem(play, script)
    assert play.sends() == 1


@pytest.mark.parametrize(
    "find",
    [Call("sheet.find", (), {"query": "other"}, into="found"), Call("sheet.find", into="found")],
)
async def test_a_question_with_other_arguments_is_another_question(
    duly_world: Stage, find: Call
) -> None:
    """F3: by tool and full arguments."""
    play = await opened(duly_world)
    await past(play, one(prepare=READING))
    prepare = (PEEK_ONE, find, *READING[2:])
    assert "asks sheet.find" in await problem(play, one(prepare=prepare))


async def test_the_order_of_arguments_makes_no_other_question(duly_world: Stage) -> None:
    """F3: canonical arguments."""
    play = await opened(duly_world, connectors=(Oracle(iter("xy")),))

    def asking(**args: Any) -> Scripted:
        ask = Call("oracle.ask", (), args)
        return one(prepare=(PEEK_ONE, When("pending", (ask, Return(RESERVE)), (Return(NOTHING),))))

    await past(play, asking(about="it", deeply=True))
    assert await what_if(play, asking(deeply=True, about="it")) == SAME


@pytest.mark.parametrize(("over", "is_kept"), [(0, True), (1, False)])
async def test_a_run_that_read_too_much_is_not_replayed(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, over: int, is_kept: bool
) -> None:
    """N, F3: one byte past the limit it cannot be told."""
    size_bytes = len('{"query":"q"}') + len('["found"]')
    limited = lives.Reads.__init__

    def limit(self: Any, **given: Any) -> None:
        limited(self, **{"limit_bytes": size_bytes - over, **given})

    monkeypatch.setattr(lives.Reads, "__init__", limit)
    play = await opened(duly_world)
    await past(play, one(prepare=READING))
    if is_kept:
        assert await what_if(play, one(prepare=READING)) == SAME
    else:
        assert "too large to be kept" in await problem(play, one(prepare=READING))


async def test_a_run_whose_inputs_were_removed_is_not_repeated(duly_world: Stage) -> None:
    """H5, F3: less than it was given would be another run."""
    play = await opened(duly_world)
    await past(play, one())
    (kept,) = await play.store.list_past(await play.workflow_id())
    parts = play.desk.parts
    loaded = await parts.sandbox.load(one().source(), parts.outside.catalog)
    outside = RecordedOutside(parts.outside.catalog, (), Redactor())
    assert _obstacle(loaded, kept, outside) is None
    assert _obstacle(loaded, replace(kept, inputs=()), outside) is not None


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "known since"])
async def test_a_question_is_known_again_without_the_secret_in_it(
    duly_world: Stage, is_known: bool
) -> None:
    """A5, F3: whether it was kept without the secret, or the secret became known since."""
    play = await opened(duly_world, connectors=(Keyed(),))
    find = Call("sheet.find", (), {"query": CANARY}, into="found")
    prepare = (PEEK_ONE, find, *READING[2:])
    if is_known:
        await play.host.set_secret("keyed", "token", CANARY)
    await past(play, one(prepare=prepare))
    await play.host.set_secret("keyed", "token", CANARY)
    assert await what_if(play, one(prepare=prepare)) == SAME


async def test_no_secret_is_shown_by_a_difference(duly_world: Stage) -> None:
    """A5: neither in a change, nor in a title, nor in a problem."""
    play = await opened(duly_world, connectors=(Keyed(),))
    await play.deploy(one())
    await play.host.publish(NAME, IN, title=f"Mail {CANARY}", message_id="a", payload=CANARY)
    await play.drain()
    await play.host.set_secret("keyed", "token", CANARY)
    told = [
        *(await what_if(play, one(mutate=None))).differences,
        *(await what_if(play, one(prepare=(Throw(CANARY),)))).differences,
    ]
    assert len(told) == 2
    assert CANARY not in repr(told) + "".join(say_difference(each) for each in told)
    assert told[0].inputs == ("Mail [redacted]",)


class Keyed(duly.Connector):
    """A connector with a secret."""

    name = "keyed"

    @duly.read
    async def look(self) -> None:
        return None


# -- Which runs ---------------------------------------------------------------------------------


async def test_the_newest_runs_that_took_something_are_tried(duly_world: Stage) -> None:
    """F3: not those that took nothing, not those that are open, no more than asked for."""
    play = await opened(duly_world)
    await past(play, one(), "a", "b", "c")
    await past(play, one(then=(Throw("no"),)), "d")
    replayed = await what_if(play, one(mutate=None), runs_max=2)
    assert replayed.tried == 2
    wanted = [each.before for each in replayed.differences]
    assert wanted == [OutsideChange(TOOL, {"text": "c"}), OutsideChange(TOOL, {"text": "b"})]


@pytest.mark.parametrize("runs_max", [0, PAST_RUNS_MAX + 1])
async def test_the_number_of_runs_is_bounded(duly_world: Stage, runs_max: int) -> None:
    """N: one past it is refused."""
    play = await opened(duly_world)
    await past(play, one())
    assert (await what_if(play, one(), runs_max=PAST_RUNS_MAX)).tried == 1
    with pytest.raises(Invalid, match="1 to 50"):
        await what_if(play, one(), runs_max=runs_max)


async def test_a_workflow_without_a_past_has_nothing_to_compare(duly_world: Stage) -> None:
    """F3: nothing was tried, and that is said by the number."""
    play = await opened(duly_world)
    await play.deploy(one())
    assert await what_if(play, one()) == Replay(0)


async def test_mutate_reads_are_answered_from_the_recording(duly_world: Stage) -> None:
    """C2, F3: where the policy lets mutate read by id; without its answer it cannot be told."""
    policy = Policy(workflows={NAME: WorkflowPolicy(mutate_reads="by_id")})
    play = await opened(duly_world, policy=policy, connectors=(Oracle(iter("xyz")),))
    ask = Call("oracle.ask", (), {"about": "it"}, into="said")
    asking = (ask, Call(TOOL, (), {"text": ref("said")}))
    await past(play, one(mutate=asking))
    assert await what_if(play, one(mutate=asking)) == SAME
    assert "asks oracle.ask" in await problem(play, one(mutate=(ask, *asking)))


async def test_a_send_that_failed_before_is_no_part_of_the_run_that_ended(
    duly_world: Stage,
) -> None:
    """F2, F3: the attempt that ended is what counts."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await past(play, one())
    await play.pass_by(60)
    assert [each.status for each in await play.rows()] == ["failed", "applied"]
    assert await what_if(play, one()) == SAME
