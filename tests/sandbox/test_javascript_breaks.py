"""What breaks a script in JavaScript: throws, limits, promises nobody keeps; and on which line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from duly.env import Loop
from duly.errors import IllegalTransition
from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Asked, Broke
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from tests.sandbox.javascript_stand import CATALOG, FROZEN, HEAD, LIMITS, Stand


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    pool = Pool(Loop())
    yield Stand(pool)
    await pool.close()


async def test_calls_made_before_a_throw_are_asked_first(stand: Stand) -> None:
    """C8: a call counts; what a later line does is not observable before it is answered."""
    asked, broke = await stand.turns("ctx.a.b(); throw new Error('later')", None)
    assert isinstance(asked, Asked)
    assert isinstance(broke, Broke)
    assert str(broke.error) == "Error: later"


async def test_calls_made_before_a_wrong_argument_are_asked_first(stand: Stand) -> None:
    """C8: the call that was right counts."""
    asked, broke = await stand.turns("ctx.a.b(); ctx.a.c({n: 2 ** 53})", None)
    assert isinstance(asked, Asked)
    assert [call.path for call in asked.calls] == ["a.b"]
    assert isinstance(broke, Broke)
    assert "a.c.n is an integer beyond" in str(broke.error)


async def test_a_broken_script_does_not_go_on_when_it_is_answered(stand: Stand) -> None:
    """C3: nothing of it runs any more, not even a loop nobody could stop from inside."""
    loop = "'a'.repeat(2 ** 22).indexOf('a'.repeat(2 ** 20) + 'b')"
    limits = replace(LIMITS, step_cpu_s=0.2)
    body = f"ctx.a.b().then(() => {loop}); throw new Error('x')"
    _, broke = await stand.turns(body, None, limits=limits)
    assert isinstance(broke, Broke)
    assert str(broke.error) == "Error: x"


async def test_calls_made_before_a_limit_are_asked_first(stand: Stand) -> None:
    """C8: also if what follows never ends."""
    limits = replace(LIMITS, step_cpu_s=0.2)
    asked, broke = await stand.turns("ctx.a.b(); for (;;);", None, limits=limits)
    assert isinstance(asked, Asked)
    assert isinstance(broke, Broke)
    assert "computed longer than 0.2 s" in str(broke.error)


@pytest.mark.parametrize(
    "body",
    [
        "for (;;);",
        "for (;;) await null",
        "await null; for (;;);",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
        "try { for (;;); } finally { for (;;); }",
        "for (;;) try { for (;;); } catch {}",
    ],
)
async def test_every_kind_of_loop_ends_and_is_named(stand: Stand, body: str) -> None:
    """X2: CPU time, in the script's own loop, between its promises and in its patterns."""
    limits = replace(LIMITS, step_cpu_s=0.2)
    await stand.returned("return 1")
    pids = stand.pool.pids
    assert "computed longer than 0.2 s" in str(await stand.broke(body, limits=limits))
    assert stand.pool.pids == pids  # it ended inside; the host did not have to


async def test_cpu_time_is_counted_over_all_turns(stand: Stand) -> None:
    """X2: asking does not begin it anew."""
    spin = "for (let i = 0; i < 1e6; i++);"
    body = f"for (;;) {{ {spin} await ctx.a.b() }}"
    sandbox = JavaScriptSandbox(stand.pool, replace(LIMITS, step_cpu_s=0.2))
    text = Source(Language.JAVASCRIPT, f"{HEAD}{body}\n}}}}}});")
    loaded = await sandbox.load(text, CATALOG)
    async with sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), FROZEN) as script:
        turn = await script.start()
        while isinstance(turn, Asked) and turn.calls:
            turn = await script.answer(turn.calls[0].id, None)
    assert isinstance(turn, Broke)
    assert "computed longer than 0.2 s" in str(turn.error)


@pytest.mark.parametrize(
    "body",
    [
        "const a = []; for (;;) a.push({})",
        "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)",
        "new ArrayBuffer(2 ** 30)",
        "return 'x'.repeat(2 ** 29)",
    ],
)
async def test_memory_is_bounded_and_named(stand: Stand, body: str) -> None:
    """X2: whatever fills it."""
    words = str(await stand.broke(body))
    assert "16 MiB" in words or "too long" in words or "array buffer" in words, words


async def test_a_throw_of_null_says_what_it_may_be(stand: Stand) -> None:
    """X2: an interpreter out of memory can throw nothing better."""
    assert "threw null; one that uses more than 16 MiB" in str(await stand.broke("throw null"))


async def test_deep_recursion_is_named(stand: Stand) -> None:
    """X2: the stack is bounded, and the worker survives."""
    assert "too deeply" in str(await stand.broke("const f = () => f() + 1; f()"))


async def test_too_many_calls_are_named(stand: Stand) -> None:
    """X2: of tools; publishing has limits of its own."""
    limits = replace(LIMITS, calls_per_step=3)
    at_limit = "for (let i = 0; i < 3; i++) { ctx.a.b(); ctx.publish('t', {title: 'x'}) }"
    (turn,) = await stand.turns(at_limit, limits=limits)
    assert isinstance(turn, Asked)
    assert len(turn.calls) == 6
    past = at_limit.replace("3", "4")
    first, *_, last = await stand.turns(past, *[None] * 6, limits=limits)
    assert isinstance(first, Asked)
    assert [call.path for call in first.calls].count("a.b") == 3
    assert isinstance(last, Broke)
    assert "more than 3 calls" in str(last.error)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("throw new TypeError('x')", "TypeError: x"),
        ("throw 'text'", "The script threw text."),
        ("throw {a: 1}", 'The script threw {"a":1}.'),
        ("throw undefined", "The script threw undefined."),
        ("throw {get toJSON() { throw 1 }}", "The script threw [cannot be shown]."),
        ("queueMicrotask(() => { throw new Error('alone') }); await ctx.a.b()", "Error: alone"),
    ],
)
async def test_whatever_is_thrown_is_told(stand: Stand, body: str, words: str) -> None:
    """X3: in the script's own words."""
    turns = await stand.turns(body, *([None] if "ctx" in body else []))
    assert isinstance(turns[-1], Broke)
    assert str(turns[-1].error) == words


async def test_a_line_is_found_behind_our_own_frames(stand: Stand) -> None:
    """X3: a clock or a callback of ours is nobody's line."""
    error = await stand.broke("\nconst f = () => new Date(Symbol());\nf()")
    assert error.line == 3
    (turn,) = await stand.turns("\n\n['x'].forEach(ctx.a.b)")
    assert isinstance(turn, Asked)
    assert turn.calls[0].line == 4


async def test_an_answer_to_a_call_nobody_made_is_our_bug(stand: Stand) -> None:
    """C8: a call is answered once."""
    with pytest.raises(IllegalTransition):
        await stand.turns("await ctx.a.b(); await ctx.a.b()", None, None, None)
    sandbox = JavaScriptSandbox(stand.pool, LIMITS)
    loaded = await sandbox.load(Source(Language.JAVASCRIPT, HEAD + "}}});"), CATALOG)
    with pytest.raises(IllegalTransition):
        await sandbox.open(loaded, "p", Step.PRODUCE, (MISSING,), FROZEN).start()
