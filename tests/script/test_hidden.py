"""A text that hides what it does through `ctx` is found, and no other one (M9)."""

from __future__ import annotations

import pytest

from duly.rules.source import Language, Source
from duly.script.analysis import analyse
from tests.script.catalogue import CATALOG

PYTHON = """from duly import workflow

flow = workflow("n", topics=["letter"])
HELPER

@flow.consumer("letter")
class file:
    async def prepare(self, ctx, state):
        await ctx.peek("letter", limit=1)
        return {"reservations": []}

    async def mutate(self, ctx, prepared):
        if prepared:
            HIDDEN
        else:
            await ctx.slack.post_message(channel="c", text="t")
"""
JAVASCRIPT = """HELPER
export default Keep.workflow({
  name: "n",
  topics: ["letter"],
  consumers: {
    file: Keep.consumer({
      subscribe: ["letter"],
      async prepare(ctx) {
        await ctx.peek("letter", { limit: 1 });
        return { reservations: [] };
      },
      async mutate(ctx, prepared) {
        if (prepared) { HIDDEN } else { await ctx.slack.postMessage({ channel: "c", text: "t" }); }
      },
      FIELD
    }),
  },
});
"""
ACT = "async def act(c):\n    await c.slack.post_message(channel='c', text='t')\n"
EVIL = "async def evil(c):\n    await c.slack.post_message(channel='x', text='y')\n"
JS_ACT = "async function act(c) { await c.slack.postMessage({ channel: 'c', text: 't' }); }"
JS_EVIL = "async (c) => { await c.slack.postMessage({ channel: 'x', text: 'y' }); }"
GIVEN = "(channel='x', text='y')"
LINE = "\n            "  # inside of the step

# What hides a call, and what stands before the workflow.
HIDES = [
    (f"await [ctx.slack.post_message][0]{GIVEN}", ""),
    (f"await {{'a': ctx.slack}}['a'].post_message{GIVEN}", ""),
    (f"await (lambda c: c.slack.post_message)(ctx){GIVEN}", ""),
    (f"await (None or ctx).slack.post_message{GIVEN}", ""),
    (f"await (x := ctx.slack).post_message{GIVEN}", ""),
    (f"await locals()['ctx'].slack.post_message{GIVEN}", ""),
    (f"await ctx.slack.__getattribute__('post_message'){GIVEN}", ""),
    (f"for c in [ctx]:{LINE}    await c.slack.post_message{GIVEN}", ""),
    (f"self.c = ctx{LINE}await self.c.slack.post_message{GIVEN}", ""),
    (f"c = None{LINE}c = ctx{LINE}await c.slack.post_message{GIVEN}", ""),
    (
        f"match ctx:{LINE}    case object(slack=s):{LINE}        await s.post_message{GIVEN}",
        "",
    ),
    ("await act(*[ctx])", ACT),
    ("await act(ctx)", f"{ACT}\n{EVIL}\nact = evil\n"),
    (
        "await act(ctx)",
        f"{ACT}\nif True:\n    {EVIL.replace('evil', 'act').replace(chr(10), chr(10) + '    ')}",
    ),
    ("await act(ctx)", f"{EVIL}\ndef swap(f):\n    return evil\n\n@swap\n{ACT}"),
    ("await act(ctx)", f"{ACT}\nfrom string import *\n"),
    ("await act(ctx)", f"{ACT}\n{EVIL}\nglobals()['act'] = evil\n"),
    (f"co = act(ctx){LINE}await co.cr_frame.f_locals['c'].slack.list()", ACT),
]
SHOWS = [
    (f"s = ctx.slack{LINE}await s.post_message{GIVEN}", ""),
    (f"send = ctx.slack.post_message{LINE}await send{GIVEN}", ""),
    (f"await getattr(ctx.slack, 'post_message'){GIVEN}", ""),
    ("await act(ctx)", ACT),
    ("await act(c=ctx)", ACT),
    (
        f"async def go():{LINE}    await ctx.slack.post_message{GIVEN}{LINE}await go()",
        "",
    ),
]
JS_GIVEN = "({ channel: 'x', text: 'y' });"
JS_HIDES = [
    (f"await [ctx.slack.postMessage][0]{JS_GIVEN}", "", ""),
    (f"await (0, ctx.slack.postMessage){JS_GIVEN}", "", ""),
    (f"await (prepared.a ? ctx.slack : ctx.other).postMessage{JS_GIVEN}", "", ""),
    (f"await arguments[0].slack.postMessage{JS_GIVEN}", "", ""),
    (f"await \\u0063tx.slack.postMessage{JS_GIVEN}", "", ""),
    (f"this.c = ctx; await this.c.slack.postMessage{JS_GIVEN}", "", ""),
    (f"let x = null; x = ctx.slack; await x.postMessage{JS_GIVEN}", "", ""),
    (f"const o = {{ ctx }}; await o.ctx.slack.postMessage{JS_GIVEN}", "", ""),
    ("await act.call(null, ctx);", JS_ACT, ""),
    ("await act(...[ctx]);", JS_ACT, ""),
    (
        "await act(ctx);",
        f"{JS_ACT}\n{JS_ACT.replace(chr(39) + 'c' + chr(39), chr(39) + 'x' + chr(39))}",
        "",
    ),
    ("await act(ctx);", f"let act = {JS_EVIL};\nact = {JS_EVIL};", ""),
    ("await t.act(ctx);", f"const t = {{ act: {JS_EVIL} }};\nt['a' + 'ct'] = {JS_EVIL};", ""),
    ("await t.act(ctx);", f"const t = {{ act: {JS_EVIL} }};\nObject.assign(t, {{}});", ""),
    ("", f"const evil = {{ mutate: {JS_EVIL} }};", "...evil,"),
    ("", "", f"mutate: {JS_EVIL},"),
    ("", "", f"['mut' + 'ate']: {JS_EVIL},"),
    ("", "", f"get mutate() {{ return {JS_EVIL}; }},"),
]
JS_SHOWS = [
    (f"const {{ slack: {{ postMessage: send }} }} = ctx; await send{JS_GIVEN}", "", ""),
    (f"const s = ctx.slack; await s.postMessage{JS_GIVEN}", "", ""),
    ("await act(ctx);", JS_ACT, ""),
    ("await t.act(ctx);", f"const t = {{ act: {JS_EVIL} }};", ""),
    (f"const go = async () => {{ await ctx.slack.postMessage{JS_GIVEN} }}; await go();", "", ""),
]


def hides(language: Language, text: str) -> bool:
    """Tell whether a text is found to hide something."""
    found = analyse(Source(language, text), CATALOG).findings
    assert "syntax" not in {each.rule for each in found}, found
    return any(each.rule == "hidden-use" for each in found)


@pytest.mark.parametrize(
    ("hidden", "helper", "is_hidden"),
    [(*each, True) for each in HIDES] + [(*each, False) for each in SHOWS],
)
def test_python_shows_which_tools_it_calls(hidden: str, helper: str, is_hidden: bool) -> None:
    """M9, W5: aliases and helpers are followed; whatever else holds ctx is found."""
    text = PYTHON.replace("HIDDEN", hidden).replace("HELPER", helper)
    assert hides(Language.PYTHON, text) is is_hidden


@pytest.mark.parametrize(
    ("hidden", "helper", "field", "is_hidden"),
    [(*each, True) for each in JS_HIDES] + [(*each, False) for each in JS_SHOWS],
)
def test_javascript_shows_which_tools_it_calls(
    hidden: str, helper: str, field: str, is_hidden: bool
) -> None:
    """M9, W5: the same in the other language."""
    text = JAVASCRIPT.replace("HIDDEN", hidden).replace("HELPER", helper).replace("FIELD", field)
    assert hides(Language.JAVASCRIPT, text) is is_hidden


@pytest.mark.parametrize(
    "signature", ["mutate(self, *a)", "mutate(self, *, ctx, prepared)", "mutate(ctx, *rest)"]
)
def test_a_step_that_gives_ctx_no_name_is_found(signature: str) -> None:
    """M9: what it gets cannot be followed."""
    text = PYTHON.replace("mutate(self, ctx, prepared)", signature).replace("HELPER", "")
    assert hides(Language.PYTHON, text.replace("HIDDEN", "pass"))
