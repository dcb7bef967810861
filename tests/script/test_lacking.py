"""What the interpreter lacks: the tables against the interpreter, and the words an author reads."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import pytest
from pydantic_monty import Monty, MontyError

from duly.errors import ScriptError
from duly.script.lacking import (
    INSTEAD_OF_MEMBER,
    INSTEAD_OF_MODULE,
    INSTEAD_OF_NAME,
    INSTEAD_OF_USELESS,
    MODULES,
    refuse_lacking,
)

SYNTAX = {
    "class inheritance": "class A(dict):\n    pass",
    "yield": "def f():\n    yield 1",
    "yield from": "def f():\n    yield from []",
    "del": "x = 1\ndel x",
    "decorate a method": "class A:\n    @property\n    def x(self):\n        return 1",
    "async with": "async def f(x):\n    async with x:\n        pass",
    "async for": "async def f(y):\n    return [x async for x in y]",
    "except*": "try:\n    pass\nexcept* ValueError:\n    pass",
    "one text": "def f():\n    raise ValueError('a', 1)\nf()",
}
# What authors write every day and the interpreter has no word for.
IDIOMS = {
    "the next of a list": "next((x for x in [1] if x), None)",
    "next of a list": "next(zip([1], [2]))",
    "no method utcnow": "from datetime import datetime\ndatetime.utcnow()",
    "no method fromtimestamp": "from datetime import datetime\ndatetime.fromtimestamp(0)",
    "no method utcfromtimestamp": "from datetime import datetime\ndatetime.utcfromtimestamp(0)",
    "no method isocalendar": "from datetime import date\ndate(2026, 1, 1).isocalendar()",
    "from the type str": "sorted(['b', 'A'], key=str.lower)",
    "re.sub a function": "import re\nre.sub('a', lambda m: 'b', 'a')",
    "default= in json.dumps": "import json\njson.dumps({1}, default=str)",
    "asyncio.gather an option": "import asyncio\nawait asyncio.gather(return_exceptions=True)",
    "gather an option. Leave it out": (
        "from asyncio import gather\nawait gather(return_exceptions=True)"
    ),
    "no method translate": "'a'.translate({97: 'b'})",
    "no method maketrans": "str.maketrans('a', 'b')",
    "no method format_map": "'{a}'.format_map({'a': 1})",
    "no method bit_length": "(5).bit_length()",
}
WORKS = (
    "dict.fromkeys(['a'])",
    "match 1:\n    case 1:\n        pass",
    "sum(x for x in [1, 2])",
    "a, *b = [1, 2]\n[*b][::-1]",
    "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = 1\nA(2)",
    "with_default = lambda x, /, *, y=1: x + y\nwith_default(1)",
    "x = {'a': 1}\nx |= {'b': 2}\nf'{x!r:>4}'",
)


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Monty]:
    with Monty(max_processes=1) as pool:
        yield pool


def has(interpreter: Monty, text: str) -> bool:
    with interpreter.checkout() as session:
        try:
            session.feed_run(text + "\nNone")
        except MontyError as error:
            return isinstance(error.exception(), ValueError)
    return True


def test_what_the_tables_name_is_lacking_and_nothing_else(interpreter: Monty) -> None:
    """W5: the tables are the interpreter's own gaps; a newer one that fills a gap is noticed."""
    lacking = [*INSTEAD_OF_NAME, *(f"import {name}" for name in INSTEAD_OF_MODULE)]
    lacking += [f"from {m} import {n}" for m, names in INSTEAD_OF_MEMBER.items() for n in names]
    assert [text for text in (*lacking, *SYNTAX.values()) if has(interpreter, text)] == []
    there = [f"import {name}" for name in MODULES - {"duly", "__future__"}]
    there += [*INSTEAD_OF_USELESS, *WORKS]
    assert [text for text in there if not has(interpreter, text)] == []
    refuse_lacking("\n".join(WORKS))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        *((text, None, what) for what, text in SYNTAX.items()),
        ("import json\nimport uuid", 2, "module uuid. Use the id the outside gave"),
        ("import numpy", 1, "module numpy. There are: asyncio"),
        ("from zoneinfo import ZoneInfo", 1, "Ask ctx.clock"),
        ("from . import x", 1, "no module ."),
        ("import asyncio\nasyncio.create_task(1)", 2, "asyncio.create_task. Use asyncio.gather"),
        ("from datetime import UTC", 1, "Use timezone.utc"),
        ("\ncallable(print)", 2, "no callable"),
        ("open('x')", 1, "scripts have no files"),
        ("exec('1')", 1, "Write the code itself"),
        ("async def poll(ctx, state):\n    yield 1", 2, "a generator (yield). Build a list"),
        ("_duly_host = 1", 1, "a name of Duly's own"),
        ("\ndef _duly_write(): pass", 2, "a name of Duly's own"),
        ("\nclass _duly_context: pass", 2, "a name of Duly's own"),
        ("def f(_duly_x): pass", 1, "a name of Duly's own"),
        ("import json as _duly_json", 1, "a name of Duly's own"),
        ("def f():\n    global _duly_depth", 2, "a name of Duly's own"),
        ("try:\n    pass\nexcept ValueError as _duly_e:\n    pass", 3, "a name of Duly's own"),
        ("match 1:\n    case _duly_x:\n        pass", 2, "a name of Duly's own"),
        ("match []:\n    case [*_duly_x]:\n        pass", 2, "a name of Duly's own"),
        ("match {}:\n    case {**_duly_x}:\n        pass", 2, "a name of Duly's own"),
        ("x = (", 1, "This is not Python"),
        ("x = '\0'", None, "This is not Python"),
        ("-" * 100_000 + "1", None, "This is not Python"),
        ("(" * 250 + ")" * 250, 1, "This is not Python"),
    ],
)
def test_what_is_lacking_is_refused_by_name_line_and_replacement(
    text: str, line: int | None, words: str
) -> None:
    """W5: the author reads what cannot be used, where, and what to write instead."""
    with pytest.raises(ScriptError) as caught:
        refuse_lacking(text)
    assert words in str(caught.value)
    assert line is None or caught.value.line == line


def test_a_name_of_the_script_s_own_is_not_lacking() -> None:
    """W5: who defines `callable` may call it."""
    refuse_lacking("def callable(x): return x\ncallable(1)")
    refuse_lacking("def f(dir, vars=1): return dir")
    refuse_lacking("def gather(*, apples): return apples\ngather(apples=1)")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    """W1: some editors put one first; behind it, and anywhere else, text is text."""
    refuse_lacking("\ufeffx = 1")
    with pytest.raises(ScriptError, match="uuid") as caught:
        refuse_lacking("\ufeffimport uuid")
    assert (caught.value.line, caught.value.column) == (1, 1)
    with pytest.raises(ScriptError, match="This is not Python"):
        refuse_lacking("x = 1\n\ufeffy = 2")


def test_a_consumer_s_unknown_method_is_a_problem() -> None:
    """W3: a misspelt step is named, not forgotten; a helper is known by its underscore."""
    text = """
        @flow.consumer("t")
        class c:
            async def prepare(self, ctx, state): return {}
            def _helper(self): pass
            async def mutate_(self, ctx, prepared): pass
        """
    with pytest.raises(ScriptError, match="The consumer c has no step mutate_") as caught:
        refuse_lacking(textwrap.dedent(text))
    assert caught.value.line == 6


@pytest.mark.parametrize(("words", "text"), IDIOMS.items(), ids=list(IDIOMS))
def test_an_everyday_idiom_the_interpreter_cannot_run_is_refused_at_load(
    words: str, text: str, interpreter: Monty
) -> None:
    """W5: better at load, with what to write instead, than at night in a run."""
    assert not has(interpreter, text)
    with pytest.raises(ScriptError, match=re.escape(words)):
        refuse_lacking(text)


def test_half_a_character_is_refused_where_it_is_written() -> None:
    """T8: the interpreter would put another character in its place."""
    with pytest.raises(ScriptError, match="half a character"):
        refuse_lacking("x = '\\ud800'")


def test_a_tool_may_be_called_like_a_method_that_is_lacking() -> None:
    """W5: nothing is refused that would work."""
    refuse_lacking("async def f(ctx):\n    await ctx.text.translate(to='de')")
