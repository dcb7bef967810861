"""What a Python script has in hand: `ctx`, the names of its file, the lines of its log."""

from __future__ import annotations

import ast
import builtins
from collections.abc import AsyncIterator

import pytest

from duly.rules.source import Language, Source
from duly.sandbox.base import Asked, Returned
from duly.sandbox.python import PythonSandbox
from duly.sandbox.python_text import (
    DECLARE,
    PRELUDE,
    context_text,
    print_text,
    read,
    split_names,
)
from duly.script import NAMES
from tests.sandbox.python_stand import (
    CATALOG,
    LIMITS,
    error_of,
    make,
    opened,
    run,
    source,
    tell,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[PythonSandbox]:
    made = make()
    yield made
    await made.close()


# -- ctx ----------------------------------------------------------------------------------------

HELPERS = """
async def use(box):
    return await box.serch()

class Desk:
    def __init__(self, c):
        self.c = c
        self.box = c.mail

    async def use(self):
        return await self.box.serch()

    async def fax(self):
        return await self.c.fax.send()
"""
# However a script comes by a tool that nobody knows, calling it is a call.
UNKNOWN = {
    "await c.fax.send()": "fax.send",
    "await c.mail.serch()": "mail.serch",
    "await c.mail()": "mail",
    "await c.fetch()": "fetch",
    "await c._fax.send()": "_fax.send",
    "await c.google.mail.send()": "google.mail.send",
    "fax = c.fax\n    await fax.send()": "fax.send",
    "send = c.fax.send\n    await send()": "fax.send",
    "other = c\n    await other.fax.send()": "fax.send",
    "await getattr(c, 'telex')()": "telex",
    "await use(c.mail)": "mail.serch",
    "await Desk(c).use()": "mail.serch",
    "await Desk(c).fax()": "fax.send",
    "await (lambda d: d.fax.send())(c)": "fax.send",
}


@pytest.mark.parametrize(("call", "path"), UNKNOWN.items(), ids=list(UNKNOWN))
async def test_a_tool_nobody_knows_is_a_call_whatever_ctx_is_called(
    sandbox: PythonSandbox, call: str, path: str
) -> None:
    """C3: an unknown tool reaches the host; the script has nothing to catch."""
    body = f"try:\n    {call}\nexcept Exception as error:\n    print('caught', error)"
    loaded = await sandbox.load(source(body, HELPERS, ctx="c"), CATALOG)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
        assert isinstance(turn, Asked), turn
        assert ([each.path for each in turn.calls], turn.logs) == ([path], ())


@pytest.mark.parametrize(
    "change",
    ["ctx.mail = 3", "ctx.mail.send = 3", "ctx.other = 3", "setattr(ctx, 'mail', 3)"],
)
async def test_ctx_cannot_be_changed(sandbox: PythonSandbox, change: str) -> None:
    """F1: a script that replaces a tool is told so, where it does; the tool stays."""
    error = error_of(await run(sandbox, change))
    assert "Neither ctx nor a frozen dataclass can be changed." in str(error)
    assert error.line == 6
    caught = f"try:\n    {change}\nexcept Exception:\n    pass\nawait ctx.mail.send()"
    assert (await tell(sandbox, caught)).paths == ["mail.send"]


@pytest.mark.parametrize(
    "body",
    [
        "return ctx",
        "return {'a': ctx.mail}",
        "ctx.__absent__",
        "ctx.mail.__absent__",
        "ctx.mail + 1",
        "ctx()",
        "ctx.mail.send.deep.deeper.deepest()",
        "import duly\nduly.Host",
        "return [1] + [repr(ctx), repr(ctx.mail), repr(ctx.mail.send), str(type(ctx))] + {}",
    ],
)
async def test_no_name_of_our_own_is_in_a_message(sandbox: PythonSandbox, body: str) -> None:
    """X3: what a script's author reads is about the script."""
    assert "duly_" not in str(error_of(await run(sandbox, body)))


# -- Names --------------------------------------------------------------------------------------


def looked_up(text: str) -> set[str]:
    """List the names that functions of a text look up when they are called."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside = [node for function in functions for node in ast.walk(function)]
    given = {node.arg for node in inside if isinstance(node, ast.arg)}
    given |= {node.name for node in inside if isinstance(node, ast.FunctionDef)} - {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef)
    }
    return {node.id for node in inside if isinstance(node, ast.Name)} - given


def test_what_is_fed_before_a_script_looks_up_no_builtin_by_its_name() -> None:
    """W1: whatever a script calls its own things, our text does not stumble over it."""
    context = context_text(CATALOG, read("ctx.a.b.c()"), 102)
    prints = [print_text(LIMITS, text) for text in ("", "print")]
    texts = (*split_names(NAMES), PRELUDE, *prints, context, DECLARE)
    names = {name for text in texts for name in looked_up(text)}
    assert names & set(dir(builtins)) == set()


@pytest.mark.parametrize(
    "name",
    [
        *("type", "getattr", "list", "dict", "isinstance", "str", "repr", "enumerate", "tuple"),
        *("Exception", "TypeError", "len", "object", "json", "dataclass", "DulyWorkflow", "ctx"),
    ],
)
async def test_a_script_may_call_its_own_things_like_a_builtin(
    sandbox: PythonSandbox, name: str
) -> None:
    """W1: a constant called `type` or `list` breaks nothing of ours."""
    module = f"{name} = 'mine'"
    consumer = "@flow.consumer('t')\nclass c:\n    async def prepare(self, ctx, state): return {}"
    text = source("await ctx.mail.send(1)\nreturn [1]", module).text + consumer
    loaded = await sandbox.load(Source(Language.PYTHON, text), CATALOG)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert await script.answer(turn.calls[0].id, None) == Returned([1])
    assert "key" in str(error_of(await run(sandbox, "return [{1: 2}]", module)))


async def test_a_mark_before_the_text_is_no_part_of_it(sandbox: PythonSandbox) -> None:
    """W1: a file that an editor saved with a byte order mark loads, and no line moves."""
    text = "\ufeff" + source("1 / 0").text
    loaded = await sandbox.load(Source(Language.PYTHON, text), CATALOG)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
    assert error_of(turn).line == 6  # type: ignore[arg-type]


# -- Lines --------------------------------------------------------------------------------------

ALIASED = """
s = ctx.mail.send
b.send(1)
await s()
"""
OTHER = """
class Box:
    def send(self, value): return value

b = Box()
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("await ctx.mail.send()", 11),
        (ALIASED, None),
        ("b.send(1)\nawait getattr(ctx.mail, 'send')()", None),
        ("b.send(1)\nname = 'se' + 'nd'\nawait getattr(ctx.mail, name)()", None),
        ("await ctx.mail.send()\nb.send(1)", None),
    ],
)
async def test_a_call_has_its_own_line_or_none(
    sandbox: PythonSandbox, body: str, line: int | None
) -> None:
    """X3: no line is better than the line of something else that has the same name."""
    (call,) = (await tell(sandbox, body, OTHER)).calls
    assert (call.path, call.line) == ("mail.send", line)


async def test_a_result_that_is_no_json_has_no_line_of_a_method_called_result(
    sandbox: PythonSandbox,
) -> None:
    """X3: `result` is what the message calls the value, not a tool that was called."""
    module = "class Job:\n    def result(self): return {1: 2}\n"
    assert error_of(await run(sandbox, "job = Job()\nreturn job.result()", module)).line is None


# -- The log ------------------------------------------------------------------------------------


async def test_every_printed_line_is_a_line_of_the_log(sandbox: PythonSandbox) -> None:
    """X4: a print with several lines is several lines; a line without an end ends with the step."""
    story = await tell(sandbox, "print('a\\nb')\nprint()\nprint('c', end='')\nprint('d', end='')")
    assert story.said == ["a", "b", "", "cd"]


async def test_a_line_without_an_end_is_heard_with_the_call_after_it(
    sandbox: PythonSandbox,
) -> None:
    """X4, C8: who leaves at a call has heard all that was said before it, and no more."""
    body = "print('before', end='')\nctx.mail.send()\nprint('after', end='')"
    loaded = await sandbox.load(source(body), CATALOG)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
        assert [log.text for log in turn.logs] == ["before"]
        turn = await script.answer(turn.calls[0].id, None)  # type: ignore[union-attr]
        assert [log.text for log in turn.logs] == ["after"]


@pytest.mark.parametrize(
    ("body", "left_out"),
    [
        ("for n in range({}):\n    print('x' * 2000)", 0),
        ("for n in range({} + 1):\n    print('x' * 2000)", 1),
        ("for n in range({} + 1000):\n    print('x' * 2000)", 1000),
        ("print(('x' * 2000 + '\\n') * ({} + 999) + 'x', end='')", 1000),
        ("print('x' * 2000)\nawait ctx.mail.send()\nfor n in range({}):\n    print('x' * 2000)", 1),
    ],
)
async def test_a_flood_of_lines_is_cut_at_the_limit_and_counted(
    sandbox: PythonSandbox, body: str, left_out: int
) -> None:
    """X4, N: so many lines per step, in all of its turns; the rest is counted, never a failure."""
    story = await tell(sandbox, body.format(LIMITS.log_lines))
    assert isinstance(story.end, Returned)
    rest = [f"{left_out} more lines were left out."] * bool(left_out)
    assert story.said == ["x" * LIMITS.log_line_chars] * LIMITS.log_lines + rest
