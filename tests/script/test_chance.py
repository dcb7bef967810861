"""Where a text asks the clock or the dice, by any spelling, and when two steps are the same."""

from __future__ import annotations

import textwrap

import pytest

from duly.rules.access import Step
from duly.rules.catalog import Catalog, Risk
from duly.rules.source import Language, Source
from duly.script.analysis import Fingerprint, fingerprint
from duly.script.chance import introduced
from tests.script.catalogue import CATALOG

PYTHON = """\
import datetime
import random
import time
from datetime import datetime as moment

from duly import workflow

flow = workflow("x", topics={"in": {"ingress": True}})
LIMIT = 10


@flow.consumer("in")
class c:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        seen = moment.now()
        return {"reservations": [], "data": {"at": str(seen), "items": pending}}

    async def mutate(self, ctx, prepared):
        what = self.words(prepared)
        BODY
        await ctx.slack.post_message(channel="#a", text=what)

    def words(self, prepared):
        return prepared["data"]["items"][0]["title"]
"""
JAVASCRIPT = """\
const LIMIT = 10;
const text = (prepared) => prepared.data.items[0].title;

export default Keep.workflow({
  name: "x",
  topics: {in: {ingress: true}},
  consumers: {
    c: Keep.consumer({
      subscribe: ["in"],
      prepare: async (ctx, state) => {
        const pending = await ctx.peek("in", {limit: 1});
        const seen = new Date();
        return {reservations: [], data: {at: seen.toISOString(), items: pending}};
      },
      mutate: async (ctx, prepared) => {
        const what = text(prepared);
        BODY
        await ctx.slack.postMessage({channel: "#a", text: what});
      },
    }),
  },
});
"""
TEXTS = {Language.PYTHON: PYTHON, Language.JAVASCRIPT: JAVASCRIPT}
RISKY = Catalog(
    tuple(
        type(each)(
            each.name, each.kind, each.capability, risk=Risk.HIGH, parameters=each.parameters
        )
        for each in CATALOG.tools
    )
)


def read(language: Language, text: str, catalog: Catalog = CATALOG) -> Fingerprint:
    found = fingerprint(Source(language, text), catalog)
    assert found is not None, text
    return found


def analysed(language: Language, body: str) -> Fingerprint:
    inner = textwrap.indent(textwrap.dedent(body), " " * 8).strip()
    return read(language, TEXTS[language].replace("BODY", inner))


def new_words(language: Language, body: str, before: str = "") -> list[str]:
    """Answer the words that give away what a text asks and the one before it did not."""
    before = before or ("pass" if language is Language.PYTHON else ";")
    old, new = analysed(language, before), analysed(language, body)
    assert old.chances, "the text before asks the clock once"
    return [each.word for each in introduced(old.chances, new.chances)]


ASKING_PYTHON = [
    "if time.time() > 4102444800: return",
    "t = time\nif t.time() > 1: return",
    "now = time.time\nif now() > 1: return",
    "if datetime.datetime.now().year > 2027: return",
    "if datetime.date.today().year > 2027: return",
    "if moment.utcnow().year > 2027: return",
    "if getattr(moment, 'n' + 'ow')().year > 2027: return",
    "if getattr(time, 'time')() > 1: return",
    "if type(moment(2000, 1, 1)).now().year > 2027: return",
    "from time import time as mass\nif mass() > 1: return",
    "import time as weight\nif weight.time() > 1: return",
    "from random import choice as pick\nwhat = pick([what, 'x'])",
    "if random.random() > 0.999: return",
    "if prepared['data']['at'] > '2027': return",
    "if prepared['data'].get('at') > '2027': return",
    "if id(what) % 2: return",
    "if await ctx.clock.next(at='9', timezone='UTC') > '2027': return",
    "[x for x in [time.time()] if x > 1]",
    "f = lambda: time.time()\nif f() > 1: return",
    "if what.__class__: return",
    "import uuid\nwhat = str(uuid.uuid4())",
]
ASKING_JAVASCRIPT = [
    "if (Date.now() > 4102444800000) return;",
    "const d = Date; if (d.now() > 1) return;",
    "const {now} = Date; if (now() > 1) return;",
    'if (Date["n" + "ow"]() > 1) return;',
    'if (globalThis["Da" + "te"].now() > 1) return;',
    "if (new Date().getFullYear() > 2027) return;",
    "if (new Date > 1) return;",
    "if (new Date(...[]) > 1) return;",
    "if (Date() > '2027') return;",
    "if (+(new (Date)) > 1) return;",
    "if (D\\u0061te.now() > 1) return;",
    'if (Date["n\\x6fw"]() > 1) return;',
    "if (performance.now() > 1) return;",
    "if (Math.random() > 0.999) return;",
    "const {random} = Math; if (random() > 0.9) return;",
    'if (Math["ran" + "dom"]() > 0.9) return;',
    "const m = Math; if (m.random() > 0.9) return;",
    'if ((() => {}).constructor("return Date.now()")() > 1) return;',
    'const k = "constr" + "uctor"; if ([][k][k]("return Date.now()")() > 1) return;',
    "const k = prepared.data.k, f = what[k]; if (f() > 1) return;",
    "const {[what]: f} = LIMIT; if (f() > 1) return;",
    'if (eval("Date.now()") > 1) return;',
    'if (new Function("return Date.now()")() > 1) return;',
    "if (prepared.data.at > '2027') return;",
    "const {at} = prepared.data; if (at > '2027') return;",
    "if (Reflect.get(what, 'x') > 1) return;",
    "if (await Promise.race([1, 2]) > 1) return;",
    "if (await ctx.clock.next({at: '9', timezone: 'UTC'}) > '2027') return;",
    "if (crypto.randomUUID() > '8') return;",
    "const late = () => Date.now(); if (late() > 1) return;",
    "const late = (t) => t > 1; if (late(Date.now())) return;",
]
PLAIN_PYTHON = [
    "what = what.upper() if what else 'nobody'",
    "due = moment.fromisoformat('2020-01-01')\nwhat = due.isoformat()",
    "later = moment(2020, 1, 1) + datetime.timedelta(days=1)",
    "a, b = await asyncio.gather(f(), g())",
    "rows = {x['id']: x for x in prepared['data']['items']}\nwhat = rows[what]['title']",
    "what = getattr(what, 'title', what)",
    "words = ['now', 'today', 'random']",
]
PLAIN_JAVASCRIPT = [
    "if (!what) return;",
    "const due = new Date(prepared.data.items[0].payload.due).toISOString();",
    "const n = Math.max(1, Math.floor(LIMIT / 3));",
    "const t = Date.parse('2020-01-01') + Date.UTC(2020, 1, 1);",
    "const rows = {}; for (const x of prepared.data.items) rows[x.id] = x;",
    "const first = prepared.data.items[LIMIT - 1];",
    "const ok = what instanceof Date;",
    "const all = await Promise.all([1, 2]);",
    "const moved = {now: what};",
]


@pytest.mark.parametrize(
    ("language", "body"),
    [
        *((Language.PYTHON, body) for body in ASKING_PYTHON),
        *((Language.JAVASCRIPT, body) for body in ASKING_JAVASCRIPT),
    ],
)
def test_what_asks_the_clock_or_the_dice_is_found(language: Language, body: str) -> None:
    """F3: by any name, through any variable, field or helper."""
    assert new_words(language, body)


@pytest.mark.parametrize(
    ("language", "body"),
    [
        *((Language.PYTHON, body) for body in PLAIN_PYTHON),
        *((Language.JAVASCRIPT, body) for body in PLAIN_JAVASCRIPT),
    ],
)
def test_what_only_reckons_with_dates_asks_nothing(language: Language, body: str) -> None:
    """F3: a repair that reads a date out of a mail is still a repair."""
    assert new_words(language, body) == []


@pytest.mark.parametrize("language", TEXTS)
def test_what_was_asked_before_may_still_be_asked(language: Language) -> None:
    """F3: the same words in another place are no new use; said twice they are."""
    python = "if time.time() > 1: return"
    ask = python if language is Language.PYTHON else "if (Date.now() > 1) return;"
    moved = f"x = 1\n{ask}" if language is Language.PYTHON else f"const x = 1;\n{ask} // later"
    assert new_words(language, moved, before=ask) == []
    assert new_words(language, f"{ask}\n{ask}", before=ask)


@pytest.mark.parametrize("language", TEXTS)
def test_a_step_of_high_risk_is_compared_with_all_it_names(language: Language) -> None:
    """F3: a helper or a constant it uses is part of it; spaces, comments and others are not."""
    is_python = language is Language.PYTHON
    text = TEXTS[language].replace("BODY", "x = LIMIT" if is_python else "const x = LIMIT;")
    mutate = ("c", Step.MUTATE)

    def risky(text: str) -> str:
        return read(language, text, RISKY).risky[mutate].text

    before = risky(text)
    helper = text.replace('["title"]', '["id"]').replace(".title;", ".id;")
    assert risky(helper) != before
    assert risky(text.replace("LIMIT = 10", "LIMIT = 11")) != before
    comment = "# why\n" if is_python else "// why\n"
    assert risky(comment + text.replace("LIMIT = 10", "LIMIT  =  10")) == before
    assert risky(
        text.replace('"in", limit=1', '"in", limit=2').replace("limit: 1", "limit: 2")
    ) == (before)
    assert read(language, text).risky == {}


def test_a_chain_of_a_thousand_variables_is_followed_to_its_end() -> None:
    """F3, W6: each word is followed once."""
    lines = "\n".join(f"const a{n} = a{n - 1} + 1;" for n in range(1, 1000))
    text = f"const a0 = Date.now();\n{lines}\n{JAVASCRIPT}"
    assert len(read(Language.JAVASCRIPT, text).chances) >= 1000


@pytest.mark.parametrize("text", ["export default (", "(" * 50_000])
def test_a_text_that_cannot_be_read_has_no_fingerprint(text: str) -> None:
    """F3: and is not adopted, since nobody can say what it asks."""
    assert fingerprint(Source(Language.JAVASCRIPT, text), CATALOG) is None
