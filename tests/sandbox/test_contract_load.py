"""The contract, every language: what loading reads, refuses and survives (W5, W6)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from duly.errors import NotDeployed, ScriptError
from duly.rules.access import Step
from duly.rules.declaration import parse
from duly.sandbox.base import Broke, Returned
from tests.sandbox.contract import DECLARATION, HERE_LINE, LIMITS, Body, Subject, make_subject
from verification.moves import Call, Exceed, Return, Say, Throw

pytestmark = pytest.mark.anyio

# How the two limits may be named.
TIME = "(?i)time|longer"
MEMORY = "(?i)memory|MiB"

PLAIN = Body(javascript="return 1;", python="return 1", scripted=(Return(1),))
CALLS_AT_LOAD = Body(
    # The module has no ctx; a script may still try to call what it was never given.
    javascript_module="""
    ctx.sheets.appendRow({values: [1]});  // here""",
    python_module="""
    ctx.sheets.append_row(values=[1])  # here
    """,
    scripted_module=(Call("sheets.append_row", line=HERE_LINE),),
)
THROWS_AT_LOAD = Body(
    javascript_module="""
    const before = 1;
    throw new Error("the moon fell");  // here""",
    python_module="""
    before = 1
    raise ValueError("the moon fell")  # here
    """,
    scripted_module=(Throw("the moon fell", HERE_LINE),),
)
LOOPS_AT_LOAD = Body(
    javascript_module="for (;;) {}",
    python_module="while True:\n    pass",
    scripted_module=(Exceed("time"),),
)
EATS_AT_LOAD = Body(
    javascript_module="const all = []; for (;;) all.push(new Array(1000).fill(all.length));",
    python_module="""
    everything = []
    while True:
        everything.append([0] * 1000)
    """,
    scripted_module=(Exceed("memory"),),
)
LOOPS = Body(
    javascript="console.log('begun'); for (;;) {}",
    python="print('begun')\nwhile True:\n    pass",
    scripted=(Say("begun"), Exceed("time")),
)
LOOPS_AND_CATCHES = Body(
    javascript="for (;;) { try { for (;;) {} } catch { console.log('caught'); } }",
    python="""
    while True:
        try:
            while True:
                pass
        except BaseException:
            print("caught")
    """,
    scripted=(Exceed("time"), Say("caught")),
)
EATS = Body(
    javascript="const all = []; for (;;) all.push(new Array(1000).fill(all.length));",
    python="""
    everything = []
    while True:
        everything.append([0] * 1000)
    """,
    scripted=(Exceed("memory"),),
)


def calls(count: int) -> Body:
    """Call a tool so often, one after the other, and publish in between."""
    return Body(
        javascript=f"""
        for (let n = 0; n < {count}; n++) {{
          await ctx.gmail.search({{}});
          await ctx.publish("mail", {{title: "Mail"}});
        }}""",
        python=f"""
        for n in range({count}):
            await ctx.gmail.search()
            await ctx.publish("mail", title="Mail")
        """,
        scripted=(Call("gmail.search"), Call("publish", ("mail",), {"title": "Mail"})) * count,
    )


WRONG_SYNTAX = {
    "javascript": "const fine = 1;\nconst wrong = = 2;\n",
    "python": "fine = 1\nwrong = = 2\n",
    "scripted": '{"declaration": {},\n "steps": = }',
}
NO_WORKFLOW = {
    "javascript": "export default 1;\n",
    "python": "workflow = 1\n",
    "scripted": '{"declaration": {}}',
}
UNKNOWN_KEY = {
    "javascript": 'export default Keep.workflow({name: "x", topics: [], producer: {}});\n',
    "python": 'from duly import workflow\nworkflow("x", topics=[], producers={}, consumers={})\n',
    "scripted": '{"declaration": {"name": "x", "topics": [], "producer": {}}}',
}


async def test_loading_reads_the_declaration(subject: Subject) -> None:
    """W1, W7: both languages declare the same workflow in the same words."""
    assert (await subject.load(PLAIN)).declaration == parse(DECLARATION)


async def test_a_syntax_error_names_line_and_column(subject: Subject) -> None:
    """W5: the author is told where the text stops making sense."""
    with pytest.raises(ScriptError) as caught:
        await subject.load_text(WRONG_SYNTAX)
    assert caught.value.line == 2
    assert caught.value.column is not None
    assert 1 <= caught.value.column <= len(WRONG_SYNTAX[subject.language])


@pytest.mark.parametrize("texts", [NO_WORKFLOW, UNKNOWN_KEY], ids=["none", "wrong"])
async def test_a_text_that_declares_no_sound_workflow_is_refused(
    subject: Subject, texts: dict[str, str]
) -> None:
    """W5: what loads but declares nothing, or something unsound, is not deployed."""
    with pytest.raises(NotDeployed):
        await subject.load_text(texts)


async def test_a_tool_call_at_module_level_is_refused(subject: Subject) -> None:
    """W5: a source that calls a tool while it is loaded is refused, naming the line."""
    with pytest.raises(ScriptError) as caught:
        await subject.load(CALLS_AT_LOAD)
    assert caught.value.line == subject.line(CALLS_AT_LOAD)


async def test_an_error_while_loading_names_its_line(subject: Subject) -> None:
    """W6: a module that throws is refused with its own words and line."""
    with pytest.raises(ScriptError, match="the moon fell") as caught:
        await subject.load(THROWS_AT_LOAD)
    assert caught.value.line == subject.line(THROWS_AT_LOAD)


@pytest.mark.parametrize(
    ("body", "words"),
    [(LOOPS_AT_LOAD, TIME), (EATS_AT_LOAD, MEMORY)],
    ids=["loops", "allocates"],
)
async def test_a_source_without_bounds_is_refused_while_the_host_goes_on(
    subject: Subject, body: Body, words: str
) -> None:
    """W6, X2: a loop or a flood of memory at load is stopped by its limit, and only it."""
    turns = 0

    async def go_on() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    # Who allocates is stopped for that, however long a busy machine takes to give it the memory.
    patient = subject
    if words == MEMORY:
        patient = await make_subject(subject.language, replace(LIMITS, load_s=60))
    other = asyncio.create_task(go_on())
    try:
        with pytest.raises(ScriptError, match=words):
            await patient.load(body)
    finally:
        other.cancel()
    if patient is not subject:
        await patient.sandbox.close()
    assert turns >= (1 if subject.language == "scripted" else 50)
    assert (await subject.play(PLAIN)).end == Returned(1)


@pytest.mark.parametrize(
    ("body", "words"),
    [(LOOPS, TIME), (LOOPS_AND_CATCHES, TIME), (EATS, MEMORY)],
    ids=["loops", "catches", "allocates"],
)
async def test_a_step_without_bounds_breaks_and_names_the_limit(
    subject: Subject, body: Body, words: str
) -> None:
    """X2: exceeding a limit is a logic failure that names it; the next script runs."""
    story = await subject.play(body, step=Step.PRODUCE)
    assert isinstance(story.end, Broke)
    assert re.search(words, str(story.error)), story.error
    assert not story.end.is_lost
    assert "caught" not in story.said
    assert (await subject.play(PLAIN)).end == Returned(1)


async def test_a_step_calls_tools_up_to_the_limit_and_not_once_more(subject: Subject) -> None:
    """N, X2: so many calls of tools per step; publishes have a limit of their own."""
    most = LIMITS.calls_per_step
    story = await subject.play(calls(most), step=Step.PRODUCE)
    assert isinstance(story.end, Returned), story.end
    assert story.paths.count("gmail.search") == most
    story = await subject.play(calls(most + 1), step=Step.PRODUCE)
    assert isinstance(story.end, Broke), story.end
    assert str(most) in str(story.error)
    assert story.paths.count("gmail.search") == most, "a later line unmade an earlier call"


async def test_a_source_at_the_limit_loads_and_one_past_it_is_refused(subject: Subject) -> None:
    """N: a source has at most 256 KiB."""
    source = PLAIN.source(subject.language)
    room = LIMITS.source_bytes - len(source.text.encode())
    fits = {subject.language: source.text + " " * room}
    assert (await subject.load_text(fits)).declaration == parse(DECLARATION)
    with pytest.raises(ScriptError, match=str(LIMITS.source_bytes)):
        await subject.load_text({subject.language: fits[subject.language] + " "})
