"""What authors take for granted: found in both languages, and not where a step asks."""

from __future__ import annotations

import textwrap

import pytest

from duly.rules.catalog import Catalog, Shape
from duly.rules.source import Language, Source
from duly.script.check import check
from tests.script.catalogue import CATALOG

PAGES = Catalog(
    tuple(
        type(each)(
            each.name,
            each.kind,
            each.capability,
            parameters=each.parameters,
            result=Shape(is_page=True) if each.name == "gmail.search" else None,
        )
        for each in CATALOG.tools
    )
)
EMPTY = {
    Language.PYTHON: 'return {"reservations": [], "data": {}}',
    Language.JAVASCRIPT: "return { reservations: [], data: {} };",
}


def said(
    language: Language, *, produce: str = "", prepare: str = "", next_: str = "", top: str = ""
) -> list[str]:
    """Answer the rules that a workflow with these steps breaks."""
    first = EMPTY[language]
    if language is Language.JAVASCRIPT:
        text = f"""{top}
          export default Keep.workflow({{ name: "x", topics: ["a"],
            producers: {{ p: {{ schedule: {{ interval: "5m" }}, async handler(ctx, state) {{
              {produce} }} }} }},
            consumers: {{ c: {{ subscribe: ["a"],
              async prepare(ctx, state) {{
                const pending = await ctx.peek("a");
                if (!pending.length) {first}
                {prepare or first} }},
              async next(ctx, prepared, result, state) {{ {next_} }} }} }} }});"""
    else:
        text = (
            "from duly import workflow\n"
            f'flow = workflow("x", topics=["a"])\n{top}\n'
            '@flow.producer(every="5m")\nasync def p(ctx, state):\n'
            f"{textwrap.indent(produce or 'pass', ' ' * 4)}\n"
            '@flow.consumer("a")\nclass c:\n'
            '    async def prepare(self, ctx, state):\n        pending = await ctx.peek("a")\n'
            f"        if not pending:\n            {first}\n"
            f"{textwrap.indent(prepare or first, ' ' * 8)}\n"
            "    async def next(self, ctx, prepared, result, state):\n"
            f"{textwrap.indent(next_ or 'pass', ' ' * 8)}\n"
        )
    return sorted(each.rule for each in check(Source(language, text), PAGES))


P, J = Language.PYTHON, Language.JAVASCRIPT


@pytest.mark.parametrize(
    ("language", "body", "is_found"),
    [
        (P, 'return {"n": state["n"]}', True),
        (P, 'return {"n": state.get("n")}', True),
        (P, 'return {"n": (state or {}).get("n")}', False),
        (P, 'if not state:\n    return {}\nreturn {"n": state["n"]}', False),
        (P, 'n = state["n"] if state else 0\nreturn {"n": n}', False),
        (P, 'if state is None:\n    state = {}\nreturn {"n": state["n"]}', False),
        (P, "state = state or {}\nreturn {'n': state['n']}", False),
        (P, "try:\n    n = state['n']\nexcept TypeError:\n    n = 0\nreturn {'n': n}", False),
        (P, "return state", False),
        (J, "return { n: state.n };", True),
        (J, "const { n } = state; return { n };", True),
        (J, "return { n: state.items.length };", True),
        (J, "return { n: state?.n };", False),
        (J, "return { n: (state || {}).n };", False),
        (J, "const { n } = state ?? {}; return { n };", False),
        (J, "if (!state) return {}; return { n: state.n };", False),
        (J, "const n = state ? state.n : 0; return { n };", False),
        (J, "return { ...state };", False),
        (J, "return { n: state && state.n };", False),
    ],
)
def test_there_is_no_state_in_the_first_run(language: Language, body: str, is_found: bool) -> None:
    """P2, W5: looking into nothing ends the run; a test of it is believed."""
    assert said(language, produce=body) == ["no-state-yet"] * is_found


@pytest.mark.parametrize(
    ("language", "body", "is_found"),
    [
        (P, 'print(prepared["data"]["id"])', True),
        (P, 'data = prepared["data"]\nprint(data["id"])', True),
        (P, 'print(prepared["data"].get("id"))', False),
        (P, 'if result["status"] == "none":\n    return\nprint(prepared["data"]["id"])', False),
        (P, 'data = prepared["data"]\nif data:\n    print(data["id"])', False),
        (P, 'if not prepared["reservations"]:\n    return\nprint(prepared["data"]["id"])', False),
        (J, "console.log(prepared.data.id);", True),
        (J, "const { id } = prepared.data; console.log(id);", True),
        (J, "console.log(prepared.data.mail.from);", True),
        (J, "if (result.status !== 'applied') return; console.log(prepared.data.id);", False),
        (J, "const { id } = prepared.data; if (!id) return; console.log(id);", False),
        (J, "console.log(prepared.data?.id);", False),
        (J, "if (prepared.data.id) console.log(prepared.data.id);", False),
    ],
)
def test_next_also_runs_after_an_empty_look(language: Language, body: str, is_found: bool) -> None:
    """C7, W5: then data holds nothing, and the step has to ask."""
    assert said(language, next_=body) == ["empty-look"] * is_found


RESERVE = {
    P: 'return {"reservations": RESERVATIONS, "data": {"id": 1}}',
    J: "return { reservations: RESERVATIONS, data: { id: 1 } };",
}


@pytest.mark.parametrize(
    ("language", "reservations", "rule"),
    [
        (P, '[{"topic": "a", "ids": [pending[0]["message_id"]]}]', None),
        (P, '[{"topic": "a", "ids": [e["id"] for e in pending]}]', None),
        (P, '[{"topic": "a", "ids": [pending[0]["payload"]["id"]]}]', "wrong-id"),
        (P, '[{"topic": "a", "ids": [e["payload"]["id"] for e in pending]}]', "wrong-id"),
        (P, '[{"topic": "a", "ids": pending}]', "wrong-result"),
        (P, '[{"topic": "a", "ids": [pending[0]]}]', "wrong-result"),
        (P, '[{"topic": "a", "ids": pending[0]["message_id"]}]', "wrong-result"),
        (P, '[{"topic": "a", "id": pending[0]["message_id"]}]', "wrong-result"),
        (P, '[pending[0]["message_id"]]', "wrong-result"),
        (P, '{"topic": "a", "ids": [pending[0]["message_id"]]}', "wrong-result"),
        (J, '[{ topic: "a", ids: [pending[0].messageId] }]', None),
        (J, '[{ topic: "a", ids: pending.map((e) => e.id) }]', None),
        (J, '[{ topic: "a", ids: [pending[0].payload.id] }]', "wrong-id"),
        (J, '[{ topic: "a", ids: pending.map((e) => e.payload.id) }]', "wrong-id"),
        (J, '[{ topic: "a", ids: pending }]', "wrong-result"),
        (J, '[{ topic: "a", ids: [pending[0]] }]', "wrong-result"),
        (J, '[{ topic: "a", ids: pending[0].messageId }]', "wrong-result"),
        (J, '[{ topic: "a", id: pending[0].messageId }]', "wrong-result"),
        (J, "[pending[0].messageId]", "wrong-result"),
        (J, '{ topic: "a", ids: [pending[0].messageId] }', "wrong-result"),
    ],
)
def test_a_reservation_has_a_topic_and_message_ids(
    language: Language, reservations: str, rule: str | None
) -> None:
    """C4, C5, W5: the shape, and the one name events are reserved by."""
    prepare = RESERVE[language].replace("RESERVATIONS", reservations)
    assert set(said(language, prepare=prepare)) == ({rule} if rule else set())


SEARCH = {P: "page = await ctx.gmail.search()\n", J: "const page = await ctx.gmail.search();"}


@pytest.mark.parametrize(
    ("language", "body", "is_found"),
    [
        (P, 'for m in page["items"]:\n    print(m)', False),
        (P, "for m in page:\n    print(m)", True),
        (P, "print(page[0])", True),
        (P, "print(len(page))", True),
        (P, "for m in page.items:\n    print(m)", True),
        (J, "for (const m of page) console.log(m, page.lastCursor, page.length);", False),
        (J, "for (const m of page.items) console.log(m);", True),
        (J, "console.log(page.last_cursor);", True),
        (J, "const { items } = page; console.log(items);", True),
    ],
)
def test_a_page_is_what_its_language_makes_of_it(
    language: Language, body: str, is_found: bool
) -> None:
    """T6, W5: a dict with items in Python, an array with a cursor in JavaScript."""
    assert ("wrong-type" in said(language, produce=SEARCH[language] + body)) is is_found


@pytest.mark.parametrize(
    ("language", "call", "is_found"),
    [
        (P, 'await ctx.peek("a", limit=1000)', False),
        (P, 'await ctx.peek("a", limit=1001)', True),
        (P, 'await ctx.peek("a", limit=0)', True),
        (P, 'await ctx.peek("a", 5)', True),
        (J, 'await ctx.peek("a", { limit: 1000 });', False),
        (J, 'await ctx.peek("a", { limit: 1001 });', True),
        (J, 'await ctx.peek("a", { limit: 0 });', True),
        (J, 'await ctx.peek("a", 5);', True),
    ],
)
def test_a_limit_has_its_name_and_its_end(language: Language, call: str, is_found: bool) -> None:
    """T6, W5: one past is found before it fails."""
    prepare = f"{call}\n{EMPTY[language]}"
    assert said(language, prepare=prepare) == ["wrong-argument"] * is_found


@pytest.mark.parametrize(
    ("language", "body", "is_found"),
    [
        (P, 'if result["status"] == "applied":\n    print(result["row"])', True),
        (P, 'if result["status"] == "applied":\n    print(result["result"]["row"])', False),
        (J, "if (result.status === 'applied') console.log(result.row);", True),
        (J, "const { status, row } = result; if (status) console.log(row);", True),
        (J, "if (result.status === 'applied') console.log(result.result.row);", False),
    ],
)
def test_what_a_change_answered_is_inside(language: Language, body: str, is_found: bool) -> None:
    """C10, W5: the outcome has a status and a result, and nothing else."""
    assert ("wrong-type" in said(language, next_=body)) is is_found


MAILS = {P: "mails = (await ctx.gmail.search())['items']\n", J: SEARCH[J]}
NEW = 'await ctx.publish("a", message_id=m["id"], title=m["s"])'
NEW_JS = 'await ctx.publish("a", { messageId: m.id, title: m.s });'


@pytest.mark.parametrize(
    ("language", "top", "body", "is_found"),
    [
        (
            P,
            "SEEN = set()",
            (
                "for m in mails:\n    if m['id'] in SEEN:\n        continue\n"
                f"    SEEN.add(m['id'])\n    {NEW}"
            ),
            True,
        ),
        (
            P,
            "cursor = None",
            "global cursor\nprint(cursor)\ncursor = 'x'",
            True,
        ),
        (
            P,
            "",
            (
                "seen = set()\nfor m in mails:\n    if m['id'] in seen:\n        continue\n"
                f"    seen.add(m['id'])\n    {NEW}"
            ),
            False,
        ),
        (P, "KNOWN = {'a'}", f"for m in mails:\n    if m['id'] in KNOWN:\n        {NEW}", False),
        (
            J,
            "const seen = new Set();",
            f"for (const m of page) {{ if (seen.has(m.id)) continue; seen.add(m.id); {NEW_JS} }}",
            True,
        ),
        (J, "let cursor = null;", "console.log(cursor); cursor = page.lastCursor;", True),
        (
            J,
            "",
            (
                "const seen = new Set();"
                "for (const m of page) { if (seen.has(m.id)) continue; seen.add(m.id);"
                f"{NEW_JS} }}"
            ),
            False,
        ),
    ],
)
def test_a_variable_of_the_module_remembers_nothing(
    language: Language, top: str, body: str, is_found: bool
) -> None:
    """C1, W5: every run begins with what the text says."""
    found = said(language, produce=MAILS[language] + body, top=top)
    assert found == ["shared-global"] * is_found
