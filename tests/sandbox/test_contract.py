"""The contract, every language: how calls are made, answered, and left (laws 1 to 3)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from duly.errors import DulyError, IllegalTransition
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Asked, Broke, Returned
from tests.sandbox.contract import CATALOG, HERE_LINE, WORLD, Body, Subject, children, make_subject
from verification.moves import Call, Let, Never, Return, Say, Throw, Wait, ref

pytestmark = pytest.mark.anyio

ROW = Call("sheets.append_row", kwargs={"values": [1]}, into="row")
ROW_LATER = Call("sheets.append_row", kwargs={"values": [1]}, into="row", waits=False)
SECOND_LATER = Call("sheets.append_row", kwargs={"values": [2]}, into="second", waits=False)

UNAWAITED = Body(
    javascript="ctx.sheets.appendRow({values: [1]}); return 5;",
    python="ctx.sheets.append_row(values=[1])\nreturn 5",
    scripted=(ROW_LATER, Return(5)),
)
AWAITED = Body(
    javascript="const row = await ctx.sheets.appendRow({values: [1]}); return [row];",
    python="row = await ctx.sheets.append_row(values=[1])\nreturn [row]",
    scripted=(ROW, Return([ref("row")])),
)
GATHERED = Body(
    javascript="""
    return await Promise.all([
      ctx.sheets.appendRow({values: [1]}),
      ctx.sheets.appendRow({values: [2]}),
    ]);""",
    python="""
    first, second = await asyncio.gather(
        ctx.sheets.append_row(values=[1]),
        ctx.sheets.append_row(values=[2]),
    )
    return [first, second]""",
    scripted=(ROW_LATER, SECOND_LATER, Wait(), Return([ref("row"), ref("second")])),
)
CATCHES = Body(
    javascript="""
    try { await ctx.sheets.appendRow({values: [1]}); console.log("after"); }
    catch (error) { console.log("caught"); }
    finally { console.log("finally"); await ctx.publish("done", {title: "canary"}); }
    return "canary";""",
    python="""
    try:
        await ctx.sheets.append_row(values=[1])
        print("after")
    except BaseException as error:
        print("caught")
    finally:
        print("finally")
        await ctx.publish("done", title="canary")
    return "canary"
    """,
    scripted=(
        ROW,
        Say("after"),
        Say("finally"),
        Call("publish", ("done",), {"title": "canary"}),
        Return("canary"),
    ),
)
IN_FINALLY = Body(
    javascript="try { return 1; } finally { await ctx.sheets.appendRow({values: [1]}); }",
    python="""
    try:
        return 1
    finally:
        await ctx.sheets.append_row(values=[1])
    """,
    scripted=(ROW, Return(1)),
)
THROWS_LATER = Body(
    javascript='ctx.sheets.appendRow({values: [1]}); throw new Error("the moon fell");',
    python='ctx.sheets.append_row(values=[1])\nraise ValueError("the moon fell")',
    scripted=(ROW_LATER, Throw("the moon fell")),
)
CHANGES_ARGUMENTS = Body(
    javascript="""
    const values = [1, {deep: "old"}];
    const call = ctx.sheets.appendRow({values});
    values[0] = 2; values[1].deep = "new";
    await call; return values;""",
    python="""
    values = [1, {"deep": "old"}]
    call = ctx.sheets.append_row(values=values)
    values[0] = 2
    values[1]["deep"] = "new"
    await call
    return values
    """,
    scripted=(
        Let("values", [1, {"deep": "old"}]),
        Call("sheets.append_row", kwargs={"values": ref("values")}, waits=False),
        Let("values.0", 2),
        Let("values.1.deep", "new"),
        Wait(),
        Return(ref("values")),
    ),
)
TALKS_ON = Body(
    javascript="""
    console.log("before");
    ctx.sheets.appendRow({values: [1]});
    console.log("after");
    ctx.sheets.appendRow({values: [2]});
    console.log("long after");""",
    python="""
    print("before")
    ctx.sheets.append_row(values=[1])
    print("after")
    ctx.sheets.append_row(values=[2])
    print("long after")
    """,
    scripted=(Say("before"), ROW_LATER, Say("after"), SECOND_LATER, Say("long after")),
)
READS_FIRST = Body(
    javascript="""
    const read = ctx.gmail.search({});
    ctx.sheets.appendRow({values: [1]});
    console.log("later");
    await read;
    console.log("later still");""",
    python="""
    read = ctx.gmail.search()
    ctx.sheets.append_row(values=[1])
    print("later")
    await read
    print("later still")
    """,
)
SHOWS_CTX = Body(
    javascript="""console.log(`${ctx}`, `${ctx.gmail}`); return 1;""",
    python="""print(f"{ctx}", f"{ctx.gmail}")""",
)
CHAIN = Body(
    javascript="""
    const chain = async () => {
      await ctx.gmail.search({});
      await ctx.sheets.appendRow({values: [1]});
    };
    chain();
    return 5;""",
)
ALL_IN_A_ROW = Body(
    javascript="""
    for (const number of [1, 2, 3]) await ctx.sheets.appendRow({values: [number]});""",
    python="""
    for number in [1, 2, 3]:
        await ctx.sheets.append_row(values=[number])
    """,
    scripted=tuple(Call("sheets.append_row", kwargs={"values": [number]}) for number in (1, 2, 3)),
)
STALLED = Body(
    javascript="await new Promise(() => {});",
    scripted=(Never(),),
)
STALLED_LATER = Body(
    javascript="await ctx.sheets.appendRow({values: [1]}); await new Promise(() => {});",
    scripted=(ROW, Never()),
)
CALL_LINE = Body(
    javascript="""
    const values = [1];
    await ctx.sheets.appendRow({values});  // here""",
    python="""
    values = [1]
    await ctx.sheets.append_row(values=values)  # here
    """,
    scripted=(Call("sheets.append_row", kwargs={"values": [1]}, line=HERE_LINE),),
)


async def test_a_call_nobody_awaits_is_made_and_answered_before_the_end(subject: Subject) -> None:
    """C8: an un-awaited call counts, and `Returned` waits for its answer."""
    async with await subject.open(UNAWAITED, Step.MUTATE, ({"data": {}},)) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        (call,) = turn.calls
        assert (call.path, call.kwargs) == ("sheets.append_row", {"values": [1]})
        assert await script.answer(call.id, None) == Returned(5)


async def test_an_answer_arrives_where_the_call_was_made(subject: Subject) -> None:
    """C8: call, answer, return."""
    story = await subject.play(AWAITED, {"sheets.append_row": {"rowId": 3}})
    assert (story.paths, story.value) == (["sheets.append_row"], [{"rowId": 3}])


@pytest.mark.parametrize("answer", [0, None, False, "", [], {}, 0.5, "ü\x00\U0001f600"])
async def test_an_answer_keeps_its_value(subject: Subject, answer: object) -> None:
    """T8: what a call is answered with reaches the script and comes back as it was."""
    story = await subject.play(AWAITED, {"sheets.append_row": answer})  # type: ignore[dict-item]
    assert story.value == [answer]
    assert type(story.value[0]) is type(answer)


async def test_gathered_calls_come_together_in_their_order(subject: Subject) -> None:
    """C8: gathered calls arrive in the order they were made, before either is answered."""
    async with await subject.open(GATHERED) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert [call.kwargs["values"] for call in turn.calls] == [[1], [2]]
        first, second = turn.calls
        assert first.id != second.id
        turn = await script.answer(first.id, "one")
        assert isinstance(turn, Asked)
        assert turn.calls == ()
        assert await script.answer(second.id, "two") == Returned(["one", "two"])


async def test_answers_may_come_in_any_order(subject: Subject) -> None:
    """C8: an answer belongs to its call, not to its place."""
    async with await subject.open(GATHERED) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        first, second = turn.calls
        assert isinstance(await script.answer(second.id, "two"), Asked)
        assert await script.answer(first.id, "one") == Returned(["one", "two"])


async def test_calls_one_after_the_other_arrive_in_order(subject: Subject) -> None:
    """C8: a loop of awaited calls asks one at a time."""
    story = await subject.play(ALL_IN_A_ROW)
    assert [call.kwargs["values"] for call in story.calls] == [[1], [2], [3]]
    assert len({call.id for call in story.calls}) == 3
    assert story.value is MISSING


async def test_a_call_in_finally_is_made_before_the_value_is_returned(subject: Subject) -> None:
    """C8: a return does not overtake the call of its finally."""
    story = await subject.play(IN_FINALLY)
    assert (story.paths, story.value) == (["sheets.append_row"], 1)


async def test_a_script_that_catches_everything_has_nothing_to_catch(subject: Subject) -> None:
    """C3: until its call is answered, neither except nor finally nor what follows is seen."""
    async with await subject.open(CATCHES, Step.MUTATE, ({"data": {}},)) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert [call.path for call in turn.calls] == ["sheets.append_row"]
        assert turn.logs == ()


async def test_an_answered_call_is_never_an_error(subject: Subject) -> None:
    """C3: a script whose call is answered goes on without an exception."""
    story = await subject.play(CATCHES)
    assert story.said == ["after", "finally"]
    assert (story.paths, story.value) == (["sheets.append_row", "publish"], "canary")


async def test_a_call_made_before_a_throw_arrives_before_it(subject: Subject) -> None:
    """C8: a call counts when it was made, whatever the script does right after it."""
    async with await subject.open(THROWS_LATER, Step.MUTATE, ({"data": {}},)) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        (call,) = turn.calls
        end = await script.answer(call.id, None)
        assert isinstance(end, Broke)
        assert "the moon fell" in str(end.error)


# Python's coroutines do not run unless they are awaited.
@pytest.mark.parametrize("subject", ["javascript"], indirect=True)
async def test_a_chain_of_calls_nobody_awaits_is_followed_to_its_end(subject: Subject) -> None:
    """C8: the value a step returned waits for calls that are only made later."""
    story = await subject.play(CHAIN)
    assert (story.paths, story.value) == (["gmail.search", "sheets.append_row"], 5)


async def test_a_call_is_answered_once(subject: Subject) -> None:
    """C8: an answer to a call that was not made, or is settled, is a bug of the host's."""
    async with await subject.open(ALL_IN_A_ROW) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        settled = turn.calls[0].id
        await script.answer(settled, None)
        for wrong in (settled, 10_000):
            with pytest.raises(IllegalTransition):
                await script.answer(wrong, None)


async def test_what_is_said_after_a_call_is_not_heard_before_its_answer(subject: Subject) -> None:
    """C8: of a script that is left at its call, not even a log of a later line was seen."""
    async with await subject.open(TALKS_ON, Step.MUTATE, ({"data": {}},)) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert turn.calls[0].kwargs == {"values": [1]}
        assert [log.text for log in turn.logs] == ["before"]
    story = await subject.play(TALKS_ON)
    assert story.said == ["before", "after", "long after"]
    assert [call.kwargs["values"] for call in story.calls] == [[1], [2]]


@pytest.mark.parametrize("subject", ["javascript", "python"], indirect=True)
async def test_what_is_said_after_a_call_waits_for_that_call_not_for_another(
    subject: Subject,
) -> None:
    """C8: answering the read before it lets nobody hear what was said after the mutation."""
    async with await subject.open(READS_FIRST, Step.MUTATE, ({"data": {}},)) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert [call.path for call in turn.calls] == ["gmail.search", "sheets.append_row"]
        turn = await script.answer(turn.calls[0].id, [])
        assert isinstance(turn, Asked)
        assert (turn.calls, turn.logs) == ((), ())


@pytest.mark.parametrize("subject", ["javascript", "python"], indirect=True)
async def test_ctx_written_as_text_calls_nothing(subject: Subject) -> None:
    """C8: a line of debugging is no call of a tool."""
    story = await subject.play(SHOWS_CTX)
    assert (story.paths, story.said) == ([], ["[ctx] [ctx.gmail]"])


async def test_arguments_are_copied_when_the_call_is_made(subject: Subject) -> None:
    """C8: changing an object after it was passed changes nothing that was sent."""
    story = await subject.play(CHANGES_ARGUMENTS)
    assert story.calls[0].kwargs["values"] == [1, {"deep": "old"}]
    assert story.value == [2, {"deep": "new"}]


# Python, as the interpreter has it, knows nothing one could wait for in vain.
@pytest.mark.parametrize("subject", ["javascript", "scripted"], indirect=True)
async def test_a_wait_for_something_that_never_comes_breaks(subject: Subject) -> None:
    """F1: a promise nobody settles is a logic failure, not a hang."""
    assert isinstance((await subject.play(STALLED)).end, Broke)
    story = await subject.play(STALLED_LATER)
    assert story.paths == ["sheets.append_row"]
    assert isinstance(story.end, Broke)
    assert not story.end.is_lost


async def test_a_call_knows_its_line(subject: Subject) -> None:
    """X3: the line of a call is the script's own."""
    story = await subject.play(CALL_LINE)
    assert story.calls[0].line == subject.line(CALL_LINE)


# -- Leaving ------------------------------------------------------------------------------------


async def test_a_script_may_be_left_before_it_starts(subject: Subject) -> None:
    """C3: entering and leaving makes no step."""
    async with await subject.open(AWAITED):
        pass
    assert (await subject.play(AWAITED)).paths == ["sheets.append_row"]


async def test_a_script_runs_only_once_it_was_entered(subject: Subject) -> None:
    """C1: a script that took no place runs nowhere."""
    script = await subject.open(AWAITED)
    with pytest.raises((IllegalTransition, AssertionError)):
        await script.start()


async def test_a_script_may_be_left_twice(subject: Subject) -> None:
    """C3: leaving a script that was left changes nothing."""
    script = await subject.open(AWAITED)
    async with script:
        await script.start()
    await script.__aexit__(None, None, None)
    assert (await subject.play(AWAITED)).paths == ["sheets.append_row"]


async def test_a_script_that_was_left_gives_no_further_turn(subject: Subject) -> None:
    """C3: between two turns a script can be dropped for good."""
    script = await subject.open(CATCHES)
    async with script:
        turn = await script.start()
        assert isinstance(turn, Asked)
    with suppress(DulyError):
        late = await script.answer(turn.calls[0].id, "canary")
        assert isinstance(late, Broke)
        assert late.logs == ()


async def test_two_scripts_run_at_once(subject: Subject) -> None:
    """C1: two open scripts share neither calls nor answers."""
    async with await subject.open(AWAITED) as one, await subject.open(GATHERED) as two:
        first = await one.start()
        second = await two.start()
        assert isinstance(first, Asked)
        assert isinstance(second, Asked)
        for call in second.calls:
            second = await two.answer(call.id, call.kwargs["values"])
        assert second == Returned([[1], [2]])
        assert await one.answer(first.calls[0].id, "mine") == Returned(["mine"])


async def test_many_scripts_run_side_by_side(subject: Subject) -> None:
    """C1: each of several scripts that run at the same time gets its own answers."""

    async def one(number: int) -> None:
        story = await subject.play(GATHERED, lambda call: [number, call.kwargs["values"]])
        assert story.value == [[number, [1]], [number, [2]]]

    await asyncio.gather(*(one(number) for number in range(6)))


async def test_closing_ends_the_scripts_that_are_open(subject: Subject) -> None:
    """X2: a closed sandbox leaves nothing running, and no script goes on."""
    before = children()
    other = await make_subject(subject.language)
    loaded = await other.sandbox.load(CATCHES.source(subject.language), CATALOG)
    script = other.sandbox.open(loaded, "file", Step.PREPARE, (None,), WORLD)
    async with script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        await other.sandbox.close()
        with suppress(DulyError):
            assert isinstance(await script.answer(turn.calls[0].id, "canary"), Broke)
    assert children() == before
