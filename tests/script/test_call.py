"""What a preview says of a call: a constant is shown only where no run can have another value."""

from __future__ import annotations

import pytest

from duly.rules.preview import Filled, WrittenCall
from duly.rules.source import Language, Source
from duly.script import call
from duly.script.analysis import analyse
from tests.script.catalogue import CATALOG

PYTHON = """\
from duly import workflow

{above}
flow = workflow("flow", topics=["t"])


@flow.consumer("t")
class send:
    async def prepare(self, ctx, state):
        return {{"reservations": [], "data": {{}}}}

    async def mutate(self, ctx, prepared):
{before}
        await ctx.gmail.send(to={to}, subject="S", body=prepared["data"]["text"])
"""
JAVASCRIPT = """\
{above}
export default Keep.workflow({{
  name: "flow",
  topics: ["t"],
  consumers: {{
    send: {{
      subscribe: ["t"],
      prepare: async (ctx, state) => ({{ reservations: [], data: {{}} }}),
      mutate: async (ctx, prepared) => {{
        {before}
        await ctx.gmail.send({{ to: {to}, subject: "S", body: prepared.data.text }});
      }},
    }},
  }},
}});
"""


def calls(text: str, language: Language) -> tuple[WrittenCall, ...]:
    return analyse(Source(language, text), CATALOG).calls


def python(to: str, above: str = "", before: str = "pass") -> tuple[Filled, ...]:
    indented = "\n".join(f"        {line}" for line in before.splitlines())
    (sent,) = calls(PYTHON.format(to=to, above=above, before=indented), Language.PYTHON)
    return sent.args


def javascript(to: str, above: str = "", before: str = "") -> tuple[Filled, ...]:
    (sent,) = calls(JAVASCRIPT.format(to=to, above=above, before=before), Language.JAVASCRIPT)
    return sent.args


@pytest.mark.parametrize("write", [python, javascript])
def test_what_is_written_out_is_a_constant_and_the_rest_names_its_fields(write) -> None:  # type: ignore[no-untyped-def]
    """M9: what is certain is told apart from what is filled in."""
    assert write('"a@b.example"') == (
        Filled("to", "a@b.example"),
        Filled("subject", "S"),
        Filled("body", None, ("text",)),
    )


CERTAIN = {
    "a name of the module": ("TO", 'TO = "a@b.example"', "pass"),
    "a name of the step": ("to", "", 'to = "a@b.example"'),
    "a text put together": ('"a@" + HOST', 'HOST = "b.example"', "pass"),
    "a text with a name in it": ('f"a@{HOST}"', 'HOST = "b.example"', "pass"),
}
# A person who read “always a@b.example” here would be told a lie.
UNCERTAIN = {
    "added to": ("TO", 'TO = "a@b.example"\nTO += ", evil@x.example"', "pass"),
    "bound again": ("TO", 'TO = "a@b.example"\nif TO:\n    TO = "evil@x.example"', "pass"),
    "global": (
        "TO",
        'TO = "a@b.example"\ndef turn():\n    global TO\n    TO = "evil@x.example"',
        "turn()",
    ),
    "nonlocal": (
        "to",
        "",
        'to = "a@b.example"\ndef turn():\n    nonlocal to\n    to = "evil@x.example"\nturn()',
    ),
    "in an object": (
        'BOOK["to"]',
        'BOOK = {"to": "a@b.example"}\ndef turn(book):\n    book["to"] = "evil@x.example"',
        "turn(BOOK)",
    ),
    "a parameter of its name": (
        "to",
        'to = "a@b.example"',
        "for to in prepared['data']['to']:\n    pass",
    ),
    "a walrus": ("to", 'to = "a@b.example"', 'if (to := "evil@x.example"):\n    pass'),
    "chosen": ('"a@b.example" if prepared else "evil@x.example"', "", "pass"),
    "a sum of numbers": ("1 + 1", "", "pass"),
}


@pytest.mark.parametrize("name", CERTAIN)
def test_a_name_that_is_bound_once_is_followed(name: str) -> None:
    """M9: authors keep addresses in constants."""
    assert python(*CERTAIN[name])[0] == Filled("to", "a@b.example")


@pytest.mark.parametrize("name", UNCERTAIN)
def test_a_value_that_a_run_can_change_is_no_constant(name: str) -> None:
    """M9: a script cannot show one receiver and write to another."""
    assert python(*UNCERTAIN[name])[0].value is None


def test_a_const_of_javascript_is_followed() -> None:
    """M9: also in a text with a name in it."""
    const = 'const TO = "a@b.example";'
    assert javascript("TO", const)[0] == Filled("to", "a@b.example")
    assert javascript("`x ${TO}`", const)[0] == Filled("to", "x a@b.example")
    assert javascript('"a" + "b"')[0] == Filled("to", "ab")


@pytest.mark.parametrize(
    ("above", "before"),
    [
        ('let TO = "a@b.example"; TO = "evil@x.example";', ""),
        ('var TO = "a@b.example";', 'TO = "evil@x.example";'),
        ('const TO = "a@b.example";', "const { TO } = prepared.data;"),
        ('const TO = "a@b.example";', "for (const TO of prepared.data.all) {}"),
        ('const TO = "a@b.example"; function turn(TO) { return TO; }', ""),
        (r'const TO = "a\u0040b.example";', ""),
    ],
)
def test_what_javascript_can_change_is_no_constant(above: str, before: str) -> None:
    """M9: only a const that the whole text binds once is certain."""
    assert javascript("TO", above, before)[0].value is None


def test_an_object_is_taken_apart_and_one_that_stands_elsewhere_is_not() -> None:
    """M9: the fields of a row are shown by name."""
    text = PYTHON.format(to='"a"', above="", before="        pass").replace(
        'ctx.gmail.send(to="a", subject="S", body=prepared["data"]["text"])',
        'ctx.table.insert(table="T", row={"n": 7, "total": prepared["data"]["usd"]})',
    )
    (sent,) = calls(text, Language.PYTHON)
    assert sent.args == (
        Filled("table", "T"),
        Filled("row.n", "7"),
        Filled("row.total", None, ("usd",)),
    )
    named = text.replace('row={"n": 7, "total": prepared["data"]["usd"]}', "row=row")
    (sent,) = calls(named.replace("        pass", '        row = {"n": 7}'), Language.PYTHON)
    assert sent.args[1] == Filled("row", None, ("row",))


def test_arguments_that_are_handed_over_whole_are_open() -> None:
    """M9: a call that can pass more than it shows says so."""
    text = PYTHON.format(to='"a", **prepared["data"]', above="", before="        pass")
    (sent,) = calls(text, Language.PYTHON)
    assert sent.is_open


def test_calls_and_their_arguments_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """M9, N: one past the limit is left out."""
    monkeypatch.setattr(call, "ARGS_MAX", 2)
    assert len(python('"a"')) == 2
    monkeypatch.setattr(call, "CALLS_MAX", 0)
    text = PYTHON.format(to='"a"', above="", before="        pass")
    assert calls(text, Language.PYTHON) == ()
