"""The types written out of the catalogue, and what the type checker says with them."""

from __future__ import annotations

import ast

import pytest

from duly.rules.catalog import Catalog, JsonType, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.script.finding import Finding
from duly.script.names import consumer, producer, workflow
from duly.script.stubs import PYTHON_MODULE, javascript_types, python_stubs
from duly.script.type_check import type_check
from tests.script.catalogue import CATALOG

HEAD = 'from duly import workflow\nflow = workflow("x", topics=["a"])\n@flow.producer()\n'


def asked(body: str) -> list[tuple[int, int, str]]:
    """Ask the checker about a producer whose body begins on the fifth line."""
    lines = "\n    ".join(body.splitlines())
    return placed(type_check(python(f"{HEAD}async def p(ctx, state):\n    {lines}\n"), CATALOG))


def python(text: str) -> Source:
    return Source(Language.PYTHON, text)


def placed(findings: tuple[Finding, ...]) -> list[tuple[int, int, str]]:
    return [(each.line, each.column, each.rule) for each in findings]


def test_python_stubs_say_what_the_catalogue_says() -> None:
    """W5: types, defaults and names of every tool; what a tool answers is left open."""
    text = python_stubs(CATALOG)
    ast.parse(text)
    assert (
        "    def search(self, query: str = ..., after: str | None = ...) -> Awaitable[Any]" in text
    )
    assert "    def append_row(self, spreadsheet_id: str, values: list[Any]) -> Awaitable" in text
    assert "    gmail: DulyGmail\n" in text


def test_javascript_types_are_spelled_as_javascript_spells() -> None:
    """W1: camelCase names, one object for each call."""
    text = javascript_types(CATALOG)
    assert "  appendRow(args: { spreadsheetId: string; values: unknown[] }): Promise<any>;" in text
    assert "  search(args?: { query?: string; after?: string | null }): Promise<any>;" in text
    assert text.count("{") == text.count("}")
    assert "append_row" not in text


def test_a_tool_whose_optional_argument_comes_first_is_called_by_name() -> None:
    """A1: Python has no other way to write it down."""
    types = frozenset({JsonType.INTEGER, JsonType.NULL})
    parameters = (Parameter("first", False, types), Parameter("second"))
    tool = Tool("a_b.c_d", ToolKind.READ, "a.read", parameters=parameters)
    bare = Tool("a_b.now", ToolKind.READ, "a.read")
    stubs = python_stubs(Catalog((tool, bare)))
    ast.parse(stubs)
    assert "class DulyAB:" in stubs
    assert "def c_d(self, *, first: int | None = ..., second: Any) -> Awaitable[Any]: ..." in stubs
    assert "def now(self) -> Awaitable[Any]: ..." in stubs
    types_text = javascript_types(Catalog((tool, bare)))
    assert "  cD(args: { first?: number | null; second: any }): Promise<any>;" in types_text
    assert "  now(): Promise<any>;" in types_text


def test_an_empty_catalogue_has_stubs_too() -> None:
    """W5: a workflow without connectors can publish."""
    ast.parse(python_stubs(Catalog()))
    assert "publish(" in javascript_types(Catalog())


def test_the_stub_of_our_own_names_takes_what_the_names_take() -> None:
    """W1: what the checker believes of workflow, producer and consumer is so."""
    tree = ast.parse(PYTHON_MODULE)
    stubs = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    made = next(each for each in classes["workflow"].body if isinstance(each, ast.FunctionDef))
    assert names_of(made)[1:] == parameters(workflow)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert names_of(functions["producer"]) == parameters(producer)
    assert names_of(functions["consumer"]) == parameters(consumer)
    assert {"producer", "consumer"} <= set(stubs)


def names_of(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]


def parameters(function: object) -> list[str]:
    code = function.__code__  # type: ignore[attr-defined]
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("await ctx.gmail.search(query='x')", []),
        ("await ctx.gmail.serch()", [(5, 11, "unknown-tool")]),
        ("await ctx.gmial.search()", [(5, 11, "unknown-tool")]),
        ("await ctx.gmail.search(limit=1)", [(5, 28, "wrong-argument")]),
        ("await ctx.gmail.search(query=1)", [(5, 28, "wrong-argument")]),
        ("await ctx.gmail.get()", [(5, 11, "wrong-argument")]),
        ("page = ctx.gmail.search()\nreturn page['items']", [(6, 12, "not-awaited")]),
        ("for mail in ctx.gmail.search():\n    print(mail)", [(5, 17, "not-awaited")]),
        ("await ctx.publish('a', message_id='1')", [(5, 11, "missing-title")]),
        ("event = (await ctx.peek('a'))[0]\nprint(event.payload)", [(6, 11, "wrong-type")]),
        ("event = (await ctx.peek('a'))[0]\nprint(event['messageId'])", [(6, 17, "wrong-type")]),
        ("return summarise(state)", [(5, 12, "unknown-name")]),
        ("return getattr(state, 'x')", []),
        ("return state.anything[0] + 1", []),
        ("await ctx.gmail.search(query=(state or {'a': None})['a'])", []),
        ("return 1 + 'a'", []),
    ],
)
def test_the_checker_says_what_we_can_explain(body: str, found: list[tuple[int, int, str]]) -> None:
    """W5: what it says beyond that is not repeated."""
    assert asked(body) == found


def test_what_can_be_none_is_called_so() -> None:
    """W5: a file that is no text has none; advice about dicts would lead nowhere."""
    text = (
        'from duly import workflow\nflow = workflow("x", topics=["a"])\n'
        "def find(names: list[str]) -> str | None:\n    return names[0] if names else None\n"
        "print(find([]).strip())\n"
    )
    (finding,) = type_check(python(text), CATALOG)
    assert (finding.rule, finding.suggestion) == (
        "wrong-type",
        "It can be None: test for that first.",
    )


def test_columns_are_the_authors_own_although_types_were_put_in() -> None:
    """X3: a step on one line is given three types before the place of the mistake."""
    text = (
        'from duly import workflow\nflow = workflow("x", topics=["a"])\n'
        '@flow.consumer("a")\nclass c:\n'
        "    async def prepare(self, ctx, state): return {'reservations': []}\n"
        "    async def next(self, ctx, prepared, result): return prepared.data, 'ä', result.x\n"
    )
    line = text.splitlines()[5]
    assert placed(type_check(python(text), CATALOG)) == [
        (6, line.index("prepared.data") + 1, "wrong-type"),
        (6, line.index("result.x") + 1, "wrong-type"),
    ]


def test_a_mistake_between_two_parameters_keeps_its_column() -> None:
    """X3: only the types put in before it are counted back."""
    text = (
        'from duly import workflow\nflow = workflow("x", topics=["a"])\n'
        '@flow.consumer("a")\nclass c:\n'
        "    async def next(self, ctx, prepared=nobody, result=1, state=2): pass\n"
    )
    column = text.splitlines()[4].index("nobody") + 1
    assert (5, column, "unknown-name") in placed(type_check(python(text), CATALOG))


def test_a_helper_that_takes_ctx_is_checked_too() -> None:
    """W5: a parameter called ctx is one, unless the author says otherwise."""
    body = "async def p(ctx, state):\n    await find(ctx)\n"
    helper = "async def find(ctx):\n    await ctx.gmail.serch()\n"
    typed = "async def find(ctx: object):\n    return ctx\n"
    assert placed(type_check(python(HEAD + body + helper), CATALOG)) == [(7, 11, "unknown-tool")]
    assert placed(type_check(python(HEAD + body + typed), CATALOG)) == []


def test_the_checker_runs_nothing() -> None:
    """W6: a text that would never end, or fail, is checked like any other."""
    assert placed(type_check(python("while True:\n    nobody()\n"), CATALOG)) == [
        (2, 5, "unknown-name")
    ]
    assert placed(type_check(python("raise ValueError('it ran')\n"), CATALOG)) == []
    assert placed(type_check(python("while True:\n    pass\n"), CATALOG)) == []
    assert placed(type_check(python("from __future__ import annotations\nx = 1\n"), CATALOG)) == []


def test_types_of_ours_have_names_no_script_chooses() -> None:
    """W5: a script that calls its own class Context is not confused with ours."""
    text = "class Context:\n    pass\n\n\nclass Event:\n    x = 1\n\n\n"
    body = "async def p(ctx, state):\n    return (await ctx.peek('a'))[0]['title'], Event().x\n"
    assert placed(type_check(python(text + HEAD + body), CATALOG)) == []
