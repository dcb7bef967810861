"""What the analysis reads in JavaScript: the ways of a step, the names of ctx, the facts."""

from __future__ import annotations

import pytest

from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.script.analysis import Analysis, analyse
from duly.script.check import check
from tests.script.catalogue import CATALOG

POST = 'await ctx.slack.postMessage({ channel: "#a", text: "b" });'
ROW = 'await ctx.sheets.appendRow({ spreadsheetId: "s", values: [] });'


def look(mutate: str, *, before: str = "", prepare: str = "") -> Analysis:
    """Analyse a module whose mutate step has this body, from its second line on."""
    answer = "return { reservations: [], data: {} };"
    text = f"""{before}const start = 0; export default Keep.workflow({{
      name: "x", topics: ["a", "b"], consumers: {{ c: {{ subscribe: ["a"], async mutate(ctx, p) {{
{mutate}
      }}, async prepare(ctx, state) {{ {prepare or answer} }} }} }} }});"""
    return analyse(Source(Language.JAVASCRIPT, text), CATALOG)


def rules(analysis: Analysis) -> list[str]:
    return [each.rule for each in analysis.findings]


@pytest.mark.parametrize(
    "body",
    [
        f"if (a) {{ {POST} }} else {{ {ROW} }}",
        f"if (a) {{ {POST} return; }} {ROW}",
        f"if (a) {{ {POST} return undefined; }} {ROW}",
        f"for (const x of xs) {{ {POST} break; }}",
        f"for (const x of xs) {{ {POST} return; }}",
        f"while (a) {{ if (b) continue; {POST} break; }}",
        f"switch (a) {{ case 1: {POST} break; default: {ROW} }}",
        f"if (a) throw new Error('no'); {POST}",
        f"a ? {POST[:-1]} : {ROW[:-1]};",
        f"const log = () => console.log('x'); {POST}",
        "return ctx.gmail.archive({ id: p.data.id });",
        "await Promise.all([ctx.gmail.archive({ id: 'x' })]);",
        f"label: for (;;) {{ {POST} break label; }}",
        f"{{ const x = 1; {POST} }}",
    ],
)
def test_one_mutation_on_every_path_is_fine(body: str) -> None:
    """C8: branches, early returns and loops that end are what a mutate step is made of."""
    assert rules(look(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        f"{POST} {ROW}",
        f"if (a) {POST} {ROW}",
        f"for (const x of xs) {{ {POST} }}",
        f"for (let i = 0; i < 3; i++) {POST}",
        f"do {{ {POST} }} while (a);",
        f"for (const x of xs) {{ console.log(x); {POST} }}",
        f"for (const x of xs) {{ {POST} break; }} {ROW}",
        f"while (a) {{ if (b) {{ {POST} continue; }} return; }}",
        f"xs.forEach(async (x) => {{ {POST} }});",
        "await Promise.all(xs.map((id) => ctx.gmail.archive({ id })));",
        f"const send = async () => {{ {POST} }}; await send(); await send();",
        f"switch (a) {{ case 1: {POST} case 2: {ROW} }}",
        f"a && {POST[:-1]}; {ROW}",
        "const two = [ctx.gmail.archive({ id: a }), ctx.gmail.archive({ id: b })]; await two;",
    ],
)
def test_a_second_mutation_that_can_follow_a_first_is_found(body: str) -> None:
    """C8: of several calls only the first would be sent."""
    assert set(rules(look(body))) == {"several-mutations"}


@pytest.mark.parametrize(
    "body",
    [
        f"{POST} console.log('sent');",
        f"{POST} p.data.sent = true;",
        f"{POST} const done = 1;",
        f"{POST} return {{ ok: true }};",
        "const row = await ctx.gmail.archive({ id: 'x' }); return row;",
        "console.log(await ctx.gmail.archive({ id: 'x' }));",
        f"if (a) {{ {POST} }} console.log('done');",
        "await ctx.gmail.archive({ id: 'x' }).then((row) => row.id);",
    ],
)
def test_work_after_a_mutation_is_found_once(body: str) -> None:
    """C8: the call ends the step, so nothing after it counts."""
    assert rules(look(body)) == ["code-after-mutation"]


@pytest.mark.parametrize(
    "body",
    [
        "const { slack } = ctx; await slack.postMessage({ channel: 'a', text: 'b' });",
        "const { slack: s } = ctx; await s.postMessage({ channel: 'a', text: 'b' });",
        "const c = ctx; await c.slack.postMessage({ channel: 'a', text: 'b' });",
        "const post = ctx.slack.postMessage; await post({ channel: 'a', text: 'b' });",
        "const { postMessage } = ctx.slack; await postMessage({ channel: 'a', text: 'b' });",
        "await ctx['slack']['postMessage']({ channel: 'a', text: 'b' });",
        "await ctx.slack.post_message({ channel: 'a', text: 'b' });",
        "await ctx?.slack?.postMessage({ channel: 'a', text: 'b' });",
        "await tell(ctx); async function tell({ slack }) { await slack.postMessage(message); }",
        "await tell(ctx.slack); async function tell(s) { await s.postMessage(message); }",
        "await helper(ctx);",
        "await tools.tell('x', ctx);",
    ],
)
def test_a_tool_is_known_by_every_name_it_is_given(body: str) -> None:
    """W7: destructured, aliased or handed to a helper, it is the same tool."""
    before = (
        "const message = { channel: 'a', text: 'b' };"
        "const helper = async (c) => inner(c.slack);"
        "async function inner(s) { return s.postMessage(message); }"
        "const tools = { tell: (text, ctx) => ctx.slack.postMessage(message) };"
    )
    found = look(body, before=before)
    assert rules(found) == []
    assert found.tools["c", Step.MUTATE] == ("slack.post_message",)


def test_a_helper_counts_for_every_step_that_reaches_it() -> None:
    """C2, W7: what it calls is judged for each of them."""
    before = "const find = (ctx) => ctx.gmail.search({ query: 'x' });\n"
    prepare = "await find(ctx); return { reservations: [], data: {} };"
    found = look("await find(ctx);", before=before, prepare=prepare)
    assert found.tools == {
        ("c", Step.MUTATE): ("gmail.search",),
        ("c", Step.PREPARE): ("gmail.search",),
    }
    assert [(each.rule, each.line) for each in found.findings] == [("forbidden-call", 1)]


def test_a_read_by_id_in_mutate_is_fine_where_the_policy_says_so() -> None:
    """C2: the variant of the table belongs to the workflow's policy, not to the text."""
    text = """export default Keep.workflow({ name: "x", topics: ["a"], consumers: { c: {
      subscribe: ["a"], prepare: async () => ({ reservations: [] }),
      async mutate(ctx) { await ctx.gmail.get({ id: "1" }); await ctx.gmail.search({}); },
    } } });"""
    source = Source(Language.JAVASCRIPT, text)
    both = ["forbidden-call", "forbidden-call"]
    assert [each.rule for each in check(source, CATALOG)] == both
    assert [each.rule for each in check(source, CATALOG, "by_id")] == ["forbidden-call"]


def test_functions_that_call_each_other_are_read_to_an_end() -> None:
    """W6: a circle of functions is no endless reading."""
    before = (
        "async function even(ctx, n) { if (n) await odd(ctx, n - 1); }"
        "async function odd(ctx, n) { await even(ctx, n - 1); await odd(ctx.more, n); }\n"
    )
    assert rules(look("await even(ctx, 3);", before=before)) == []


@pytest.mark.parametrize(("levels", "found"), [(8, []), (12, ["too-tangled"])])
def test_a_knot_of_functions_is_said_to_be_one(levels: int, found: list[str]) -> None:
    """W6: the ways of handing ctx around are counted, and past the limit nothing more is read."""
    names = [f"a{index}" for index in range(levels + 1)]
    before = f"function f{levels}() {{}} "
    for level in range(levels):
        swapped = [*names]
        swapped[level], swapped[level + 1] = swapped[level + 1], swapped[level]
        calls = " ".join(f"f{level + 1}({', '.join(each)});" for each in (names, swapped))
        before += f"function f{level}({', '.join(names)}) {{ {calls} }} "
    handed = ", ".join(f"ctx.{name}" for name in names)
    assert rules(look(f"f0({handed});", before=before)) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("ctx.gmail.archive({ id: 'x' });", ["not-awaited"]),
        ("void ctx.gmail.archive({ id: 'x' });", ["not-awaited"]),
        ("const a = ctx.gmail.archive({ id: 'x' });", ["not-awaited"]),
        ("const a = ctx.gmail.archive({ id: 'x' }); await a;", []),
        ("const a = ctx.gmail.archive({ id: 'x' }); await Promise.all([a]);", []),
    ],
)
def test_a_promise_that_nobody_can_wait_for_is_found(body: str, found: list[str]) -> None:
    """C8: the call is made when it is called, but its author believes otherwise."""
    assert rules(look(body)) == found


def test_columns_count_characters_not_bytes() -> None:
    """X3: a place is the author's own, also after an umlaut."""
    found = look("/* äöü€𝄞 */ await ctx.slack.shout({});").findings
    assert [(each.line, each.column, each.rule) for each in found] == [(3, 19, "unknown-tool")]


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ('["a"]', ["undeclared-topic"]),
        ('{ a: {}, "b": {} }', []),
        ("{ a: {}, [B]: {} }", []),
        ("ALL", []),
        ("[...ALL]", []),
        ("make()", []),
    ],
)
def test_topics_are_read_where_they_are_written_out(topics: str, found: list[str]) -> None:
    """W4: a list that is not written out declares what nobody can say, so nothing is found."""
    text = f"""
      const B = "b"; const ALL = ["a", B]; const make = () => ALL;
      export default Keep.workflow({{ name: "x", topics: {topics}, producers: {{
        p: async (ctx, s) => {{ await ctx.publish(B, {{ messageId: "1", title: `t${{s}}` }}); }},
      }} }});"""
    assert rules(analyse(Source(Language.JAVASCRIPT, text), CATALOG)) == found


@pytest.mark.parametrize(
    "event",
    ["event", "{ ...event }", "make()", "{ [key]: 1 }", "Object.assign({}, event)"],
)
def test_what_is_not_written_out_is_not_judged(event: str) -> None:
    """W5: a check that cries wolf is not read."""
    text = f"""export default Keep.workflow({{ name: "x", topics: ["a"], producers: {{
        p: async (ctx) => {{
          for (const event of await ctx.gmail.search()) await ctx.publish("a", {event});
        }},
      }} }});"""
    assert rules(analyse(Source(Language.JAVASCRIPT, text), CATALOG)) == []


@pytest.mark.parametrize(
    "answer",
    [
        "{ ...base, reservations: found, data: {} }",
        "{ reservations: found, data: {}, ui: shown }",
        "{ reservations: found, data: {}, ui: { ...shown } }",
        "{ reservations: [], data: {} }",
        "build(found)",
    ],
)
def test_an_answer_that_may_have_a_title_is_not_said_to_lack_one(answer: str) -> None:
    """C4: only an answer that is written out whole can be seen to have no ui.title."""
    assert rules(look(POST, prepare=f"const found = make(); return {answer};")) == []
    bare = "return { reservations: make(), data: {} };"
    assert rules(look(POST, prepare=bare)) == ["mutate-without-title"]


def test_facts_name_handlers_topics_and_tools() -> None:
    """W7: what deploy extracts, without running anything."""
    text = """
      const shared = { subscribe: ["a"], prepare: async () => ({ reservations: [] }) };
      export default Duly.workflow({ name: "x", topics: ["a", "b"],
        producers: { async p(ctx) { await ctx.publish("b", await one(ctx)); } },
        consumers: { c: shared } });
      async function one(ctx) { return ctx.gmail.get({ id: "1" }); }
    """
    found = analyse(Source(Language.JAVASCRIPT, text), CATALOG)
    assert (found.handlers, found.topics) == (("p", "c"), ("a", "b"))
    assert found.tools["p", Step.PRODUCE] == ("gmail.get",)
    assert found.topics_used["p", Step.PRODUCE] == ("b",)
    assert rules(found) == []


@pytest.mark.parametrize("name", ["fetch", "process", "setTimeout", "crypto"])
def test_a_name_the_script_gives_itself_is_not_lacking(name: str) -> None:
    """X1: only what nobody declares is missing."""
    assert rules(look(f"const {name} = (x) => x; {name}(1);")) == []
    assert rules(look(f"{name}(1);")) == ["lacking"]


def test_a_variable_written_and_read_in_one_step_is_fine() -> None:
    """C1: within a step a variable of the module lives as long as the step."""
    before = "let count = 0; const seen = [];"
    assert (
        rules(look("count += 1; seen.push(count); if (seen.length) return;", before=before)) == []
    )
    prepare = "if (count) seen.push(1); return { reservations: [], data: {} };"
    assert rules(look("count += 1;", before=before, prepare=prepare)) == ["shared-global"]
    # Two steps that only add to a list never see each other's part of it.
    assert rules(look("seen.push(1);", before=before, prepare=prepare)) == []


def test_a_local_name_hides_the_one_of_the_module() -> None:
    """C1: a parameter or a constant of the same name is another variable."""
    prepare = "const cursor = 1; return { reservations: [], data: { cursor } };"
    assert rules(look("cursor = 1;", before="let cursor = 0;", prepare=prepare)) == []


ARCHIVE = "await ctx.gmail.archive({ id: 'x' })"


@pytest.mark.parametrize(
    "body",
    [
        f"return {{ id: {ARCHIVE} }};",
        f"return ({ARCHIVE}).id;",
        f"return `${{{ARCHIVE}}}`;",
        f"return [{ARCHIVE}];",
        f"return !({ARCHIVE});",
        f"return ({ARCHIVE}) ?? null;",
        f"if ({ARCHIVE}) return;",
        f"p.data.row = {ARCHIVE};",
    ],
)
def test_using_what_a_mutation_answers_is_work_after_it(body: str) -> None:
    """C8: the call is the end of the step, so nobody is given its answer there."""
    assert rules(look(body)) == ["code-after-mutation"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"a: for (const x of xs) {{ for (const y of x) {{ {POST} break a; }} }}", []),
        (
            f"a: for (const x of xs) {{ for (;;) {{ if (x) continue a; {POST} return; }} }}",
            [],
        ),
        (f"a: {{ if (p) break a; {POST} }}", []),
        (f"a: {{ for (;;) {{ {POST} break a; }} }}", []),
        (
            f"a: for (const x of xs) {{ for (const y of x) {{ {POST} break; }} }}",
            ["several-mutations"],
        ),
        (f"a: for (const x of xs) {{ for (;;) {{ {POST} continue a; }} }}", ["several-mutations"]),
        (f"a: {{ {POST} break a; }} {ROW}", ["several-mutations"]),
        (f"for (;;) {{ {POST} }}", ["several-mutations"]),
        (f"while (true) {{ if (a) {{ {POST} return; }} }} {ROW}", []),
    ],
)
def test_a_label_says_which_loop_is_left(body: str, found: list[str]) -> None:
    """C8: a break or a continue goes where it says, and an endless loop is not run out of."""
    assert rules(look(body)) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("while (true) { if (await ctx.peek('a')) return { reservations: [] }; }", []),
        ("for (;;) { if (state) return { reservations: [] }; }", []),
        ("do { return { reservations: [] }; } while (state);", []),
        ("while (true) { break; }", ["wrong-result"]),
        ("while (state) { return { reservations: [] }; }", ["wrong-result"]),
        ("a: while (true) { while (true) { break a; } }", ["wrong-result"]),
    ],
)
def test_prepare_runs_out_only_where_a_loop_can_end(body: str, found: list[str]) -> None:
    """C4: what comes after an endless loop is never reached."""
    assert rules(look("", prepare=body)) == found


@pytest.mark.parametrize(
    "body",
    [
        "const e = (await ctx.peek('a'))[0]; use(e.message_id);",
        "const [e] = await ctx.peek('a'); use(e.createdAt);",
        "const { message_id } = (await ctx.peek('a')).at(0); use(message_id);",
        "for (const e of await ctx.getByIds('a', [])) use(e.status);",
        "const all = await ctx.peek('a'); use(all.filter((e) => e.seq).map((e) => e.id));",
        "const all = await ctx.peek('a'); const e = all.find((one) => one.id); use(e.body);",
    ],
)
def test_a_part_that_no_event_has_is_found(body: str) -> None:
    """T7: a script sees five parts of an event, spelled as JavaScript spells."""
    steps = f"const use = (x) => x; {body} return {{ reservations: [] }};"
    assert rules(look("", prepare=steps)) == ["wrong-type"]


@pytest.mark.parametrize(
    "body",
    [
        "const all = await ctx.peek('a'); return { reservations: [], data: { n: all.length } };",
        "let e = (await ctx.peek('a'))[0]; e = { other: 1 }; use(e.other);",
        "const mails = await ctx.gmail.search(); use(mails[0].message_id);",
        "for (const e of await ctx.peek('a')) use(e.payload.message_id, e.topic, e.title);",
        "for (const e of await ctx.peek('a')) use(e.id); for (const e of [{ x: 1 }]) use(e.x);",
        "const all = (await ctx.peek('a')).map((e) => ({ mine: e.id })); use(all[0].mine);",
    ],
)
def test_what_is_no_event_may_have_any_part(body: str) -> None:
    """T7: only what surely is an event is judged."""
    steps = f"const use = (...x) => x; {body} return {{ reservations: [] }};"
    assert rules(look("", prepare=steps)) == []


def told(
    message_id: str, *, payload: str = "{ id: m.id }", data: str = "e.payload", options: str = "{}"
) -> list[str]:
    """Check a module that publishes a payload, prepares data of it, and names an event by it."""
    text = f"""export default Keep.workflow({{ name: "x", topics: {{ a: {options}, b: {{}} }},
      producers: {{ p: async (ctx) => {{
        for (const m of await ctx.gmail.search())
          await ctx.publish("a", {{ messageId: m.id, title: m.subject, payload: {payload} }});
      }} }},
      consumers: {{ c: {{ subscribe: ["a"],
        async prepare(ctx) {{
          const [e] = await ctx.peek("a");
          if (!e) return {{ reservations: [], data: {{}} }};
          return {{ reservations: [{{ topic: "a", ids: [e.id] }}], data: {data} }};
        }},
        async next(ctx, prepared, result) {{
          if (result.status === "none") return;
          const {{ data }} = prepared;
          await ctx.publish("b", {{ messageId: {message_id}, title: `T ${{prepared.data.id}}` }});
        }} }} }} }});"""
    return [each.rule for each in check(Source(Language.JAVASCRIPT, text), CATALOG)]


def test_a_text_made_of_what_is_not_there_is_found() -> None:
    """T3: row:undefined names every event alike."""
    assert told("`row:${prepared.data.messageId}`") == ["wrong-type"]
    assert told("'row:' + data.messageId") == ["wrong-type"]
    assert told("data.messageId") == ["wrong-type"]
    assert told("`${data.mail.none}`", data="{ id: e.id, mail: e.payload }") == ["wrong-type"]
    assert told("`${data.none}`", data="{ id: e.id }") == ["wrong-type"]


def test_what_may_be_there_is_not_said_to_be_missing() -> None:
    """T3: a payload from outside, spread or unknown may hold anything."""
    assert told("`row:${prepared.data.id}`") == []
    assert told("`row:${data.messageId}`", options="{ ingress: true }") == []
    assert told("`row:${data.messageId}`", payload="m") == []
    assert told("`row:${data.messageId}`", payload="{ ...m, id: 1 }") == []
    assert told("`row:${data.messageId}`", data="{ ...e.payload, id: 1 }") == []
    assert told("`row:${data.messageId}`", data="build(e)") == []
    assert told("`row:${data.messageId ?? data.id}`") == []


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("Date.now()", True),
        ("`a-${new Date().toISOString()}`", True),
        ("+new Date()", True),
        ("Math.random().toString(36).slice(2)", True),
        ("dice()", True),
        ("now", True),
        ("`d:${new Date().toISOString().slice(0, 10)}`", False),
        ("now.toISOString().split('T')[0]", False),
        ("day(new Date())", False),
        ("new Date(p.data.at).toISOString()", False),
        ("recent[0].id", False),
        ("page[0].id", False),
        ("`${page[0].id}`", False),
    ],
)
def test_an_id_of_the_moment_or_of_chance_is_found(made: str, found: bool) -> None:
    """T5: the day a thing is for is stable; the moment of running is not."""
    text = f"""const dice = () => Math.random(); const day = (x) => x.toISOString().slice(0, 10);
      export default Keep.workflow({{ name: "x", topics: ["a"], producers: {{
        p: async (ctx, p = {{}}) => {{
          const now = new Date();
          const page = await ctx.calendar.listEvents({{ after: now.toISOString() }});
          const recent = page.filter((each) => each.at > Date.now());
          await ctx.publish("a", {{ messageId: {made}, title: `T ${{p}}` }});
        }} }} }});"""
    wanted = ["unstable-message-id"] if found else []
    assert rules(analyse(Source(Language.JAVASCRIPT, text), CATALOG)) == wanted


@pytest.mark.parametrize("step", ["async *prepare", "*prepare"])
def test_a_step_that_is_a_generator_is_found(step: str) -> None:
    """C4: the host ignores what it yields."""
    text = f"""export default Keep.workflow({{ name: "x", topics: ["a"], consumers: {{ c: {{
      subscribe: ["a"], {step}(ctx) {{ return {{ reservations: [] }}; }} }} }} }});"""
    assert rules(analyse(Source(Language.JAVASCRIPT, text), CATALOG)) == ["wrong-result"]


def test_what_ctx_does_not_have_is_named_with_what_it_has() -> None:
    """W5: a word of ours that is misspelt is not looked for among the tools."""
    found = look("await ctx.getByIDs('a', []);").findings
    assert [each.rule for each in found] == ["unknown-tool"]
    assert found[0].suggestion == 'Did you mean "getByIds"?'
