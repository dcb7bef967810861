"""What the analysis reads in Python: both forms, the ways of a step, names, facts."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.script.analysis import Analysis, analyse
from tests.script.catalogue import CATALOG

POST = 'await ctx.slack.post_message(channel="#a", text="b")'
ROW = 'await ctx.sheets.append_row(spreadsheet_id="s", values=[])'
NOTHING = 'return {"reservations": [], "data": {}}'


def analysed(text: str) -> Analysis:
    return analyse(Source(Language.PYTHON, textwrap.dedent(text)), CATALOG)


def look(mutate: str, *, before: str = "", prepare: str = NOTHING) -> Analysis:
    """Analyse a module whose mutate step has this body, from its sixth line on."""
    steps = (
        'from duly import workflow\nflow = workflow("x", topics=["a", "b"])\n'
        '@flow.consumer("a")\nclass c:\n    async def mutate(self, ctx, prepared):\n'
        f"{textwrap.indent(mutate, ' ' * 8)}\n"
        f"    async def prepare(self, ctx, state):\n{textwrap.indent(prepare, ' ' * 8)}\n"
    )
    return analyse(Source(Language.PYTHON, steps + before), CATALOG)


def rules(analysis: Analysis) -> list[str]:
    return [each.rule for each in analysis.findings]


@pytest.mark.parametrize(
    "body",
    [
        f"if a:\n    {POST}\nelse:\n    {ROW}",
        f"if a:\n    {POST}\n    return\n{ROW}",
        f"if a:\n    {POST}\n    return None\n{ROW}",
        f"for x in xs:\n    {POST}\n    break",
        f"while a:\n    if b:\n        continue\n    {POST}\n    return",
        f"match a:\n    case 1:\n        {POST}\n    case _:\n        {ROW}",
        f"if a:\n    raise ValueError('no')\n{POST}",
        f"({POST}) if a else ({ROW})",
        f"return {POST}",
        f"def log():\n    print('x')\n{POST}",
        f"with a as b:\n    {POST}",
        "await asyncio.gather(*[ctx.gmail.archive(id='x')])",
        "pass",
    ],
)
def test_one_mutation_on_every_path_is_fine(body: str) -> None:
    """C8: branches, early returns and loops that end are what a mutate step is made of."""
    assert rules(look(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        f"{POST}\n{ROW}",
        f"if a:\n    {POST}\n{ROW}",
        f"for x in xs:\n    {POST}",
        f"while a:\n    {POST}",
        f"for x in xs:\n    print(x)\n    {POST}",
        f"for x in xs:\n    {POST}\n    break\n{ROW}",
        f"[{POST} for x in xs]",
        "await asyncio.gather(*(ctx.gmail.archive(id=x) for x in xs))",
        "await asyncio.gather(ctx.gmail.archive(id='a'), ctx.gmail.archive(id='b'))",
        f"async def send():\n    {POST}\nawait send()\nawait send()",
        f"a and {POST}\n{ROW}",
        f"match a:\n    case 1:\n        {POST}\n{ROW}",
        f"{POST}\nawait self._row(ctx)",
    ],
)
def test_a_second_mutation_that_can_follow_a_first_is_found(body: str) -> None:
    """C8: of several calls only the first would be sent."""
    helper = f"    async def _row(self, ctx):\n        {ROW}\n"
    assert set(rules(look(body, before=helper))) == {"several-mutations"}


@pytest.mark.parametrize(
    "body",
    [
        f"{POST}\nprint('sent')",
        f"{POST}\nprepared['data']['sent'] = True",
        f"{POST}\ndone = 1",
        f"{POST}\nreturn {{'ok': True}}",
        f"row = {POST}\nreturn row",
        f"print({POST})",
        f"if a:\n    {POST}\nprint('done')",
        f"{POST}\nx += 1\ny = 2",
    ],
)
def test_work_after_a_mutation_is_found_once(body: str) -> None:
    """C8: the call ends the step, so nothing after it counts."""
    assert rules(look(body)) == ["code-after-mutation"]


@pytest.mark.parametrize(
    "body",
    [
        "slack = ctx.slack\nawait slack.post_message(channel='a', text='b')",
        "c = ctx\nawait c.slack.post_message('a', 'b')",
        "post = ctx.slack.post_message\nawait post('a', text='b')",
        "await getattr(ctx, 'slack').post_message('a', 'b')",
        "await tell(ctx)",
        "await tell(c=ctx)",
        "await post(ctx.slack)",
        "await self._tell(ctx)",
        "await ctx.slack.post_message(**message)",
        "await ctx.slack.post_message(*message)",
        "(lambda: 0)()\nawait tell(ctx)",
    ],
)
def test_a_tool_is_known_by_every_name_it_is_given(body: str) -> None:
    """W7: aliased, looked up by a constant or handed to a helper, it is the same tool."""
    before = (
        "    async def _tell(self, context):\n        await tell(context)\n"
        "async def tell(c):\n    await post(c.slack)\n"
        "async def post(slack):\n    await slack.post_message(channel='a', text='b')\n"
    )
    found = look(body, before=before)
    assert [rule for rule in rules(found) if rule != "code-after-mutation"] == []
    assert found.tools["c", Step.MUTATE] == ("slack.post_message",)


def test_a_helper_counts_for_every_step_that_reaches_it() -> None:
    """C2, W7: what it calls is judged for each of them."""
    before = "async def find(ctx):\n    return await ctx.gmail.search(query='x')\n"
    found = look("await find(ctx)", before=before, prepare=f"await find(ctx)\n{NOTHING}")
    assert found.tools == {
        ("c", Step.PREPARE): ("gmail.search",),
        ("c", Step.MUTATE): ("gmail.search",),
    }
    assert rules(found) == ["forbidden-call"]


def test_functions_that_call_each_other_are_read_to_an_end() -> None:
    """W6: a circle of functions is no endless reading."""
    before = (
        "async def even(ctx, n):\n    await odd(ctx, n - 1)\n"
        "async def odd(ctx, n):\n    await even(ctx, n - 1)\n    await odd(ctx.more, n)\n"
    )
    assert rules(look("await even(ctx, 3)", before=before)) == []


def knot(levels: int) -> Analysis:
    """Analyse functions each of which hands its arguments on as they are and with two swapped."""
    names = [f"a{index}" for index in range(levels + 1)]
    before = ""
    for level in range(levels):
        swapped = [*names]
        swapped[level], swapped[level + 1] = swapped[level + 1], swapped[level]
        before += f"def f{level}({', '.join(names)}):\n"
        before += f"    f{level + 1}({', '.join(names)})\n    f{level + 1}({', '.join(swapped)})\n"
    handed = ", ".join(f"ctx.{name}" for name in names)
    before += f"def f{levels}({', '.join(names)}):\n    pass\n"
    return look(f"f0({handed})", before=before)


@pytest.mark.parametrize(("levels", "found"), [(8, []), (12, ["too-tangled"])])
def test_a_knot_of_functions_is_said_to_be_one(levels: int, found: list[str]) -> None:
    """W6: the ways of handing ctx around are counted, and past the limit nothing more is read."""
    assert rules(knot(levels)) == found


def test_columns_count_characters_not_bytes() -> None:
    """X3: a place is the author's own, also after an umlaut."""
    found = look("x = 'äöü€𝄞'; await ctx.slack.shout()").findings
    assert [(each.line, each.column, each.rule) for each in found] == [(6, 28, "unknown-tool")]


def test_facts_of_the_object_form_are_those_of_the_decorators() -> None:
    """W1, W7: two ways to write the same workflow."""
    decorated = analysed(
        """
        import duly
        flow = duly.workflow("x", topics={"a": {}, "b": {}})

        @flow.producer(name="p", every="5m", publishes=["b"])
        async def poll(ctx, state):
            await ctx.publish("b", message_id=1, title=f"{await ctx.gmail.get('1')}")

        @flow.consumer("a", name="c")
        class handle:
            async def prepare(self, ctx, state):
                return {"reservations": [], "data": await ctx.peek("a")}
        """
    )
    written = analysed(
        """
        from duly import consumer, producer, workflow
        PRODUCERS = {"p": producer(lambda_free, every="5m", publishes=["b"])} if False else {}

        async def poll(ctx, state):
            await ctx.publish("b", message_id=1, title=f"{await ctx.gmail.get('1')}")

        async def prepare(ctx, state):
            return {"reservations": [], "data": await ctx.peek("a")}

        TOPICS = ["a", "b"]
        CONSUMERS = {"c": consumer(subscribe=["a"], prepare=prepare)}
        workflow("x", topics=TOPICS, producers={"p": poll}, consumers=CONSUMERS)
        """
    )
    assert replace(decorated, calls=()) == replace(written, calls=())  # they stand in other lines
    assert (decorated.handlers, decorated.topics) == (("p", "c"), ("a", "b"))
    assert decorated.tools["p", Step.PRODUCE] == ("gmail.get",)
    assert decorated.topics_used["c", Step.PREPARE] == ("a",)


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ('["a"]', ["undeclared-topic"]),
        ('("a", B)', []),
        ('{"a": {}, B: {}}', []),
        ("ALL", []),
        ("[*ALL]", []),
        ("make()", []),
    ],
)
def test_topics_are_read_where_they_are_written_out(topics: str, found: list[str]) -> None:
    """W4: a list that is not written out declares what nobody can say, so nothing is found."""
    text = f"""
    from duly import workflow
    B = "b"
    ALL = ["a", B]
    flow = workflow("x", topics={topics})
    @flow.producer()
    async def p(ctx, state):
        await ctx.publish(B, message_id="1", title=f"t{{state}}")
    """
    assert rules(analysed(text)) == found


@pytest.mark.parametrize(
    "result",
    [
        "result",
        "build()",
        "{**result, 'reservations': [1]}",
        "{**result, 'data': {}}",
    ],
)
def test_what_is_not_written_out_is_not_judged(result: str) -> None:
    """W5: a check that cries wolf is not read."""
    prepare = f"result = build()\nreturn {result}"
    assert rules(look(POST, prepare=prepare)) == []


def test_a_name_with_two_meanings_has_none() -> None:
    """W5: a title that may be a constant or not is not called one."""
    text = """
    from duly import workflow
    flow = workflow("x", topics=["a"])
    @flow.producer()
    async def p(ctx, state):
        title = f"News of {state}"
        if not state:
            title = "Nothing new"
        await ctx.publish("a", message_id="1", title=title)
    """
    assert rules(analysed(text)) == []


def test_a_variable_written_and_read_in_one_step_is_fine() -> None:
    """C1: within a step a variable of the module lives as long as the step."""
    before = "count = 0\nseen = []\n"
    body = "global count\ncount += 1\nseen.append(count)\nif seen:\n    return"
    assert rules(look(body, before=before)) == []
    prepare = f"if count:\n    seen.append(1)\n{NOTHING}"
    counted = "global count\ncount += 1"
    assert rules(look(counted, before=before, prepare=prepare)) == ["shared-global"]
    # Two steps that only add to a list never see each other's part of it.
    assert rules(look("seen.append(1)", before=before, prepare=prepare)) == []


def test_a_local_name_hides_the_one_of_the_module() -> None:
    """C1: without `global` an assignment makes another variable."""
    prepare = 'return {"reservations": [], "data": {"cursor": cursor}}'
    assert rules(look("cursor = 1", before="cursor = 0\n", prepare=prepare)) == []


ARCHIVE = "await ctx.gmail.archive(id='x')"


@pytest.mark.parametrize(
    "body",
    [
        f'return {{"id": {ARCHIVE}}}',
        f'return ({ARCHIVE})["id"]',
        f"return ({ARCHIVE}).row",
        f'return f"{{{ARCHIVE}}}"',
        f"return [{ARCHIVE}]",
        f"return not {ARCHIVE}",
        f"return ({ARCHIVE}) or None",
        f"if {ARCHIVE}:\n    pass",
        f"assert {ARCHIVE}",
        f'prepared["data"]["row"] = {ARCHIVE}',
    ],
)
def test_using_what_a_mutation_answers_is_work_after_it(body: str) -> None:
    """C8: the call is the end of the step, so nobody is given its answer there."""
    assert rules(look(body)) == ["code-after-mutation"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"for x in xs:\n    if x:\n        {POST}\n        break\nelse:\n    {ROW}", []),
        (f"for x in xs:\n    {POST}\n    break\n{ROW}", ["several-mutations"]),
        (f"while True:\n    if a:\n        {POST}\n        return\n{ROW}", []),
        (f"while True:\n    {POST}", ["several-mutations"]),
        (f"while a:\n    pass\nelse:\n    {POST}\n{ROW}", ["several-mutations"]),
    ],
)
def test_the_end_of_a_loop_is_where_python_has_it(body: str, found: list[str]) -> None:
    """C8: the else of a loop is not reached by a break, the end of an endless one by nothing."""
    assert rules(look(body)) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("while True:\n    if state:\n        return {'reservations': []}", []),
        ("while 1:\n    return {'reservations': []}", []),
        ("for x in state:\n    break\nelse:\n    return {'reservations': []}", ["wrong-result"]),
        ("while True:\n    break", ["wrong-result"]),
        ("while state:\n    return {'reservations': []}", ["wrong-result"]),
    ],
)
def test_prepare_runs_out_only_where_a_loop_can_end(body: str, found: list[str]) -> None:
    """C4: what comes after an endless loop is never reached."""
    assert rules(look("pass", prepare=body)) == found


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("str(time.time())", True),
        ("datetime.now(timezone.utc).isoformat()", True),
        ("f'{now}'", True),
        ("str(random.random())[2:]", True),
        ("dice()", True),
        ("now.strftime('%Y-%m-%d')", False),
        ("f'd:{now.date()}'", False),
        ("now.isoformat()[:10]", False),
        ("day(datetime.now(timezone.utc))", False),
        ("page['items'][0]['id']", False),
    ],
)
def test_an_id_of_the_moment_or_of_chance_is_found(made: str, found: bool) -> None:
    """T5: the day a thing is for is stable; the moment of running is not."""
    text = f"""\
        flow = workflow("x", topics=["a"])
        def dice():
            return random.choice("abc")
        def day(moment):
            return moment.isoformat()[:10]
        @flow.producer()
        async def p(ctx, state):
            now = datetime.now(timezone.utc)
            page = await ctx.calendar.list_events(after=now.isoformat())
            await ctx.publish("a", message_id={made}, title=f"T {{state}}")
    """
    assert rules(analysed(text)) == (["unstable-message-id"] if found else [])
