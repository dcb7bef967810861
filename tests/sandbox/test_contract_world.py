"""The contract, every language: time, chance, logs and fresh contexts (laws 4 and 5)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from duly.config import Limits
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Asked, Broke, Returned
from tests.sandbox.contract import (
    FROZEN,
    HERE_LINE,
    LIMITS,
    NOW_MS,
    WORLD,
    Body,
    Story,
    Subject,
    make_subject,
)
from verification.moves import NOW, RANDOM, Call, Let, Pass, Return, Say, Throw, When, ref

pytestmark = pytest.mark.anyio

WAIT_S = 3.0  # longer than an impatient sandbox lets a script run

# Python's clock is read in whole milliseconds, so that a float's last digits do not matter.
PYTHON_CLOCK = """
from datetime import datetime, timezone

def clock_ms():
    return round(datetime.now(timezone.utc).timestamp() * 1000)
"""
READS_CLOCK = Body(
    javascript="""
    const seen = [Date.now(), new Date().getTime()];
    for (let n = 0; n < 20000; n++) seen.length;
    seen.push(Date.now());
    await ctx.gmail.search({});
    seen.push(Date.now(), Date.parse(new Date().toISOString()));
    return seen;""",
    python_module=PYTHON_CLOCK,
    python="""
    seen = [clock_ms(), round(time.time() * 1000)]
    for n in range(20000):
        pass
    seen.append(clock_ms())
    await ctx.gmail.search()
    seen.append(clock_ms())
    seen.append(clock_ms())
    return seen
    """,
    scripted=(
        Let("first", NOW),
        Pass(3),
        Let("second", NOW),
        Call("gmail.search"),
        Return([ref("first"), ref("first"), ref("second"), NOW, NOW]),
    ),
)
WAITS_FOR_CLOCK = Body(
    javascript="""
    const start = Date.now();
    console.log("early");
    while (Date.now() < start + 50);
    console.log("late");
    return [start, Date.now()];""",
    python_module=PYTHON_CLOCK,
    python="""
    start = clock_ms()
    print("early")
    while clock_ms() < start + 50:
        pass
    print("late")
    return [start, clock_ms()]
    """,
    scripted=(
        Let("start", NOW),
        Say("early"),
        Pass(50),
        Say("late"),
        Return([ref("start"), NOW]),
    ),
)
WAITS_FOR_HOST = Body(
    javascript="const asked = Date.now(); await ctx.gmail.search({}); return [asked, Date.now()];",
    python_module=PYTHON_CLOCK,
    python="""
    asked = clock_ms()
    await ctx.gmail.search()
    print("answered")
    return [asked, clock_ms()]
    """,
    scripted=(Let("asked", NOW), Call("gmail.search"), Return([ref("asked"), NOW])),
)
DICE = Body(
    javascript="return [Math.random(), Math.random(), Math.random()];",
    python="return [random.random(), random.random(), random.random()]",
    scripted=(Return([RANDOM, RANDOM, RANDOM]),),
)
DICE_AFTER_A_CALL = Body(
    javascript="""
    const first = Math.random(); await ctx.gmail.search({}); return [first, Math.random()];""",
    python="""
    first = random.random()
    await ctx.gmail.search()
    return [first, random.random()]
    """,
    scripted=(Let("first", RANDOM), Call("gmail.search"), Return([ref("first"), RANDOM])),
)
COUNTS = Body(
    javascript_module="""
    let counted = 0;
    globalThis.seen = (globalThis.seen ?? 0);
    Array.prototype.left = (Array.prototype.left ?? 0);""",
    javascript="""
    counted += 1; globalThis.seen += 1; Array.prototype.left += 1;
    return [counted, globalThis.seen, [].left];""",
    python_module="""
    counted = [0, 0, 0]
    """,
    python="""
    for place in range(3):
        counted[place] += 1
    return counted
    """,
    scripted_module=(Let("counted", [0, 0, 0]), Let("first", True)),
    scripted=(
        When(
            "first",
            (
                Let("first", False),
                Let("counted.0", 1),
                Let("counted.1", 1),
                Let("counted.2", 1),
            ),
            (Let("counted.0", 2),),
        ),
        Return(ref("counted")),
    ),
)
TALKS = Body(
    javascript="""
    console.log("one"); console.log("two");
    await ctx.gmail.search({});
    console.info("three"); console.warn("four"); console.error("five", 5);""",
    python="""
    print("one")
    print("two")
    await ctx.gmail.search()
    print("three")
    print("four")
    print("five", 5)
    """,
    scripted=(
        Say("one"),
        Say("two"),
        Call("gmail.search"),
        Pass(1),
        Say("three"),
        Say("four"),
        Say("five 5"),
    ),
)
TALKS_MUCH = Body(
    javascript='for (let n = 0; n < 300; n++) console.log("x".repeat(2000));',
    python='for n in range(300):\n    print("x" * 2000)',
    scripted=(Let("long", "x" * 2000), *(Say(ref("long")),) * 300),
)
THROWS = Body(
    javascript="""
    const before = 1;
    throw new Error("the moon fell");  // here""",
    python="""
    before = 1
    raise ValueError("the moon fell")  # here
    """,
    scripted=(Say("before"), Throw("the moon fell", HERE_LINE)),
)
THROWS_DEEP = Body(
    javascript_module="""
    function deep(value) {
      return value.absent.more;  // here
    }""",
    javascript="console.log('said'); await ctx.gmail.search({}); deep({});",
    python_module="""
    def deep(value):
        return value["absent"]  # here
    """,
    python="""
    print("said")
    await ctx.gmail.search()
    deep({})
    """,
    scripted=(Say("said"), Call("gmail.search"), Throw("no absent", HERE_LINE)),
)


async def test_a_frozen_clock_stands(subject: Subject) -> None:
    """C13: in mutate and next every look at the clock shows the stored moment."""
    story = await subject.play(READS_CLOCK, world=FROZEN)
    assert story.value == [NOW_MS] * 5


async def test_a_running_clock_begins_at_the_world_s_time_and_never_goes_back(
    subject: Subject,
) -> None:
    """C13: in producers and prepare the clock begins where the world says."""
    seen = (await subject.play(READS_CLOCK, world=WORLD)).items
    assert seen == sorted(seen)
    assert NOW_MS <= seen[0] < NOW_MS + 60_000


async def test_a_running_clock_goes_on(subject: Subject) -> None:
    """C13, X4: time passes for the script and for its log alike."""
    story = await subject.play(WAITS_FOR_CLOCK)
    start, end = story.items
    assert end - start >= 50
    early, late = story.logs
    assert late.after_ms > early.after_ms >= 0


async def test_waiting_for_an_answer_takes_none_of_the_script_s_time(subject: Subject) -> None:
    """X2, C13: neither limits nor clock nor log of a script go on while the host is busy."""
    limits = Limits(step_wall_s=1.5, step_cpu_s=1.5)
    impatient = await make_subject(subject.language, limits)
    async with await impatient.open(WAITS_FOR_HOST) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        await asyncio.sleep(WAIT_S)
        end = await script.answer(turn.calls[0].id, None)
    await impatient.sandbox.close()
    assert isinstance(end, Returned), end
    asked, answered = Story((), (), end).items
    assert answered - asked < WAIT_S * 1000
    assert end.logs or subject.language != "python"
    assert all(log.after_ms < WAIT_S * 1000 for log in end.logs)


async def test_the_same_seed_throws_the_same_numbers(subject: Subject) -> None:
    """C13: chance is seeded; a step that is run again throws what it threw before."""
    first = (await subject.play(DICE, world=FROZEN)).items
    again = (await subject.play(DICE, step=Step.NEXT, args=({}, {}, MISSING), world=FROZEN)).items
    assert first == again
    assert len(set(first)) == 3
    assert all(0 <= number < 1 for number in first)


async def test_another_seed_throws_other_numbers(subject: Subject) -> None:
    """C13: two steps have two seeds, and so two rows of numbers."""
    rows = [
        tuple((await subject.play(DICE, world=replace(FROZEN, seed=seed))).items)
        for seed in (0, 1, 7, 2**48 - 1)
    ]
    assert len(set(rows)) == 4


async def test_an_answer_does_not_begin_the_numbers_anew(subject: Subject) -> None:
    """C13: one row of numbers goes through all turns of a step."""
    first, second, _ = (await subject.play(DICE)).items
    assert (await subject.play(DICE_AFTER_A_CALL)).value == [first, second]


async def test_globals_do_not_survive_a_step(subject: Subject) -> None:
    """C1: every step, and the same step again, begins with a fresh context."""
    for step, args in (
        (Step.PREPARE, (MISSING,)),
        (Step.PREPARE, (MISSING,)),
        (Step.MUTATE, ({},)),
        (Step.NEXT, ({}, {}, MISSING)),
        (Step.PRODUCE, (MISSING,)),
    ):
        assert (await subject.play(COUNTS, step=step, args=args)).value == [1, 1, 1]


async def test_two_open_scripts_share_no_globals(subject: Subject) -> None:
    """C1: what one script changes, another that is open at the same time does not see."""
    async with await subject.open(COUNTS) as one, await subject.open(COUNTS) as two:
        assert await one.start() == await two.start()


async def test_logs_come_in_order_with_their_turn(subject: Subject) -> None:
    """X4: what a script says arrives in order, with the time since its start."""
    async with await subject.open(TALKS) as script:
        asked = await script.start()
        assert [log.text for log in asked.logs] == ["one", "two"]
        ended = await script.answer(asked.calls[0].id, None)  # type: ignore[union-attr]
        assert [log.text for log in ended.logs] == ["three", "four", "five 5"]
    times = [log.after_ms for log in (*asked.logs, *ended.logs)]
    assert times == sorted(times)
    assert times[0] >= 0


async def test_a_script_that_says_too_much_is_cut_short_and_goes_on(subject: Subject) -> None:
    """X4, N: a line is at most a thousand characters long; talking is never a failure."""
    story = await subject.play(TALKS_MUCH)
    assert story.value is MISSING
    kept = story.said[: LIMITS.log_lines]
    assert kept == ["x" * LIMITS.log_line_chars] * LIMITS.log_lines


async def test_an_error_names_its_line_in_the_script_s_own_count(subject: Subject) -> None:
    """X3: the line of an error is the author's line, and its words are the script's."""
    story = await subject.play(THROWS)
    assert isinstance(story.end, Broke)
    assert "the moon fell" in str(story.error)
    assert story.error.line == subject.line(THROWS)
    assert not story.end.is_lost


async def test_an_error_in_a_function_of_the_module_names_the_line_there(subject: Subject) -> None:
    """X3: the innermost line of the author's own text is named; what was said is kept."""
    story = await subject.play(THROWS_DEEP)
    assert story.error.line == subject.line(THROWS_DEEP)
    assert (story.said, story.paths) == (["said"], ["gmail.search"])


async def test_an_error_carries_no_paths_or_frames_of_the_host(subject: Subject) -> None:
    """X3: what a script's author reads says nothing of the machine it ran on."""
    for body in (THROWS, THROWS_DEEP):
        words = str((await subject.play(body)).error)
        assert not any(mark in words for mark in ("/", ".py", "Traceback", "prelude"))
