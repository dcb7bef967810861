"""The whole check over a corpus of drafts: each says in its header what is to be found in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly.config import Limits
from duly.connectors import Files
from duly.connectors.registry import Registry
from duly.rules.catalog import Catalog
from duly.rules.source import SUFFIXES, Language, Source
from duly.script.analysis import analyse
from duly.script.check import check
from duly.script.finding import FINDINGS_MAX, RULES, Severity, found, refusing, tidy
from tests.breaks.script import BREAKS
from tests.script.catalogue import CATALOG

DRAFTS = Path(__file__).parent / "drafts"
EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
EXPECTED = re.compile(r"^(?://|#) finds ([\w-]+) (\d+)$", re.MULTILINE)
MODULE = re.compile(r"^```js\n(export default .*?)^```$", re.MULTILINE | re.DOTALL)
DIGEST = re.compile(r"^```ts\n(async prepare\(ctx, state\) \{.*?)^```$", re.MULTILINE | re.DOTALL)


def drafts(language: Language) -> list[Path]:
    return sorted((DRAFTS / language).iterdir())


def every_draft() -> list[Path]:
    return [path for language in Language for path in drafts(language)]


def read(path: Path) -> Source:
    return Source(Language(path.parent.name), path.read_text(encoding="utf-8"), path.stem)


def expected(path: Path) -> list[tuple[int, str]]:
    found = EXPECTED.findall(path.read_text(encoding="utf-8"))
    return sorted((int(line), rule) for rule, line in found)


def placed(source: Source, catalog: Catalog = CATALOG) -> list[tuple[int, str]]:
    return sorted((each.line, each.rule) for each in check(source, catalog))


@pytest.mark.parametrize("path", every_draft(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_draft_has_exactly_the_findings_its_header_names(path: Path) -> None:
    """W5: every mistake is found where it is made, and nothing else is."""
    assert placed(read(path)) == expected(path)


@pytest.mark.parametrize("language", list(Language))
def test_the_corpus_is_large_enough_to_be_believed(language: Language) -> None:
    """W5: thirty drafts with mistakes and ten clean ones in each language."""
    counts = [len(expected(path)) for path in drafts(language)]
    assert sum(1 for count in counts if count) >= 30
    assert counts.count(0) >= 10


@pytest.mark.parametrize("language", list(Language))
def test_every_rule_of_the_table_is_found_in_some_draft(language: Language) -> None:
    """W5: a rule that no draft breaks is not proven; the tangled ones have their own tests."""
    seen = {rule for path in drafts(language) for _, rule in expected(path)}
    # Only Python has a type checker, which knows every name there is.
    elsewhere = {"unknown-name"} if language is Language.JAVASCRIPT else set()
    assert seen == set(RULES) - {"too-tangled"} - elsewhere


def test_every_rule_of_the_table_has_a_break_that_silences_it() -> None:
    """W5: that a finding is found proves little before it was seen to be missed."""
    assert sorted(each.says for each in BREAKS) == sorted(f"{name} is not found" for name in RULES)


def seed_modules() -> list[str]:
    """Read the complete modules of the source documents, or our own of the same form."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt"))]
    modules = [module for text in texts for module in MODULE.findall(text)]
    own = (DRAFTS / "javascript" / "nothing_to_show.js").read_text(encoding="utf-8")
    return modules or [own]


@pytest.mark.parametrize("text", seed_modules())
def test_the_examples_of_the_source_documents_only_lack_a_title(text: str) -> None:
    """W1, W5: they run unchanged; that their mutations say nothing to a person is true of them."""
    findings = check(Source(Language.JAVASCRIPT, text), CATALOG)
    # One of them looks for a messageId in a payload that has none: its rows are "row:undefined".
    says_undefined = ["wrong-type"] if "prepared.data.email.messageId" in text else []
    assert [each.rule for each in findings] == ["mutate-without-title", *says_undefined]
    assert refusing(findings) == ()


@pytest.mark.parametrize(
    "path",
    # The archive of invoices runs with connectors of its own: tests/connectors.
    sorted(p for p in EXAMPLES.iterdir() if p.suffix in SUFFIXES and p.stem != "invoice_archive"),
    ids=lambda path: path.name,
)
def test_nothing_is_found_in_our_own_examples(path: Path, tmp_path: Path) -> None:
    """W5: what we show is what passes, with the ready-made connectors it stands on."""
    folders = [Files(tmp_path, name=name) for name in ("inbox", "outbox", "orders", "payments")]
    catalog = Catalog((*CATALOG.tools, *Registry(folders).catalog.tools))
    source = Source(SUFFIXES[path.suffix], path.read_text(encoding="utf-8"), path.name)
    assert [str(each) for each in check(source, catalog)] == []


def digest_steps() -> list[str]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(SEEDS.glob("*.txt"))]
    own = "async prepare(ctx, state) { return { reservations: [], data: {}, wakeAt: 'x' }; }"
    steps = [step for text in texts for step in DIGEST.findall(text) if "wakeAt" in step]
    return steps or [own]


@pytest.mark.parametrize("step", digest_steps())
def test_the_digest_of_the_source_documents_is_clean(step: str) -> None:
    """S6, W5: waking is a word of prepare's answer."""
    text = f"""
      const isDigestTime = () => true;
      const getNextDigestTime = () => "2026-01-01T09:00:00Z";
      export default Keep.workflow({{
        name: "digest", topics: ["notifications"],
        consumers: {{ digest: {{ subscribe: ["notifications"], {step} }} }},
      }});
    """
    assert placed(Source(Language.JAVASCRIPT, text)) == []


def test_a_finding_reads_as_a_line_of_a_compiler() -> None:
    """W5: file, line, column, rule, one sentence, what to do."""
    source = read(DRAFTS / "python" / "no_titles.txt")
    assert str(check(source, CATALOG)[0]) == (
        "no_titles:12:15: missing-title: The event has no title, so it is refused. Say what it is"
        " and which one, with something of the outside in it: the sender, the subject."
    )


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_says_why_whose_law_it_is_and_how_it_looks(name: str) -> None:
    """W5: a rule without a reason is an opinion."""
    rule = RULES[name]
    assert rule.name == name
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert re.fullmatch(r"[A-Z]\d+", rule.law)
    assert rule.why.endswith(".")
    assert rule.example


def test_findings_are_sorted_by_place_and_said_once() -> None:
    """W5: two steps that reach the same call do not make two findings of it."""
    second = found("syntax", 2, 1, "b.", "B.")
    first = found("lacking", 1, 5, "a.", "A.")
    assert tidy([second, first, second]) == (first, second)


@pytest.mark.parametrize(("extra", "count"), [(0, FINDINGS_MAX), (1, FINDINGS_MAX)])
def test_of_too_many_findings_the_refusing_ones_are_kept(extra: int, count: int) -> None:
    """W5, N: a text full of warnings cannot hide what refuses it."""
    warnings = [found("lacking", line, 1, "a.", "A.") for line in range(FINDINGS_MAX - 1 + extra)]
    last = found("syntax", FINDINGS_MAX + 10, 1, "b.", "B.")
    kept = tidy([*warnings, last])
    assert len(kept) == count
    assert kept[-1] == last


def test_warnings_refuse_only_where_the_caller_is_strict() -> None:
    """W5: what analysis believes warns; what loading would prove refuses."""
    findings = (found("constant-title", 1, 1, "a.", "A."), found("syntax", 2, 1, "b.", "B."))
    assert [each.severity for each in findings] == [Severity.WARNS, Severity.REFUSES]
    assert refusing(findings) == findings[1:]
    assert refusing(findings, strict=True) == findings


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.PYTHON, "import uuid\nfrom duly import workflow\nworkflow('x', topics=[])\n"),
        (Language.JAVASCRIPT, "import a from 'a';\nexport default Keep.workflow({name: 'x'});\n"),
    ],
)
def test_a_module_that_is_not_there_refuses(language: Language, text: str) -> None:
    """W5, X1: loading would prove it, so it is no mere warning."""
    findings = check(Source(language, text), CATALOG)
    assert [(each.rule, each.severity) for each in findings] == [("lacking", Severity.REFUSES)]


@pytest.mark.parametrize(("size", "is_fine"), [(0, True), (1, False)])
@pytest.mark.parametrize(
    ("language", "mark"), [(Language.PYTHON, "#"), (Language.JAVASCRIPT, "//")]
)
def test_a_source_may_be_as_long_as_the_limit(
    language: Language, mark: str, size: int, is_fine: bool
) -> None:
    """N: one byte past the limit is refused before anything is read."""
    text = mark + "x" * (Limits().source_bytes - len(mark) + size)
    rules = [each.rule for each in check(Source(language, text), CATALOG)]
    assert rules == (["no-workflow"] if is_fine else ["syntax"])


@pytest.mark.parametrize("text", ["x = '\ud800'", "a\0b", "((((((", "'", "\\", "\ufeff"])
@pytest.mark.parametrize("language", list(Language))
def test_what_is_no_text_or_no_program_is_said_to_be_so(language: Language, text: str) -> None:
    """W5: bad input gets findings, never an exception."""
    rules = {each.rule for each in check(Source(language, text), CATALOG)}
    assert rules <= {"syntax", "no-workflow"}
    assert rules


def nested(language: Language, depth: int) -> str:
    if language is Language.JAVASCRIPT:
        body = "if (a) { " * depth + "}" * depth
        steps = f"prepare(ctx) {{ {body} return {{ reservations: [] }}; }}"
        return (
            "export default Keep.workflow({ name: 'x', topics: ['a'],"
            f" consumers: {{ c: {{ subscribe: ['a'], {steps} }} }} }});"
        )
    return (
        "from duly import producer, workflow\nasync def f(ctx, state):\n    return "
        f"{'[' * depth}{']' * depth}\nworkflow('x', topics=[], producers={{'f': producer(f)}})\n"
    )


@pytest.mark.parametrize("language", list(Language))
def test_a_text_that_nests_like_people_nest_is_read(language: Language) -> None:
    """W6: thirty levels are more than anybody writes."""
    assert placed(Source(language, nested(language, 30))) == []


@pytest.mark.parametrize("depth", [1_000, 20_000])
@pytest.mark.parametrize("language", list(Language))
def test_a_text_that_nests_without_end_is_not_read_to_its_end(
    language: Language, depth: int
) -> None:
    """W6: it is said to be so, and the host goes on."""
    rules = {each.rule for each in check(Source(language, nested(language, depth)), CATALOG)}
    assert len(rules) == 1
    assert rules <= {"too-tangled", "syntax"}


def doubling(language: Language) -> str:
    """Write constants each of which is the one before it twice: two to the sixtieth in all."""
    lines = ['const c0 = "aa";' if language is Language.JAVASCRIPT else 'c0 = "aa"']
    for index in range(60):
        if language is Language.JAVASCRIPT:
            lines.append(f"const c{index + 1} = `${{c{index}}}${{c{index}}}`;")
        else:
            lines.append(f'c{index + 1} = f"{{c{index}}}{{c{index}}}"')
    if language is Language.JAVASCRIPT:
        lines.append("export default Keep.workflow({ name: 'x', topics: ['a'], producers: {")
        lines.append("p: async (ctx) => { await ctx.publish('a', {messageId: '1', title: c60}) }")
        return "\n".join([*lines, "}});"])
    return "\n".join(
        [
            *lines,
            "from duly import workflow",
            "flow = workflow('x', topics=['a'])",
            "@flow.producer()",
            "async def p(ctx, state):",
            "    await ctx.publish('a', message_id='1', title=c60)",
        ]
    )


@pytest.mark.parametrize("language", list(Language))
def test_constants_that_double_are_read_once_each(language: Language) -> None:
    """W6: following names costs no more than the text is long."""
    rules = [each.rule for each in analyse(Source(language, doubling(language)), CATALOG).findings]
    assert rules == ["constant-title"]


def test_a_sum_that_doubles_is_cut() -> None:
    """W6: what a text is put together from is not counted to its end."""
    lines = ["const c0 = `${Math.PI}`;", *(f"const c{i + 1} = c{i} + c{i};" for i in range(60))]
    step = "p: async (ctx) => { await ctx.publish('a', { messageId: c60, title: c60 }); }"
    lines.append(
        f"export default Keep.workflow({{ name: 'x', topics: ['a'], producers: {{ {step} }} }});"
    )
    assert analyse(Source(Language.JAVASCRIPT, "\n".join(lines)), CATALOG).findings == ()


def test_texts_inside_texts_are_read_once_each() -> None:
    """W6: reading a nested text costs no more than it is long."""
    nest = "`${" * 60 + "1" + "}`" * 60
    said = f"{{ messageId: state, title: {nest} }}"
    step = f"p: async (ctx, state) => {{ await ctx.publish('a', {said}); }}"
    text = f"export default Keep.workflow({{ name: 'x', topics: ['a'], producers: {{ {step} }} }});"
    assert analyse(Source(Language.JAVASCRIPT, text), CATALOG).findings == ()


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (Language.JAVASCRIPT, "const q = q; const r = { a: r }; export default Keep.workflow(r);"),
        (Language.JAVASCRIPT, "const t = [t]; export default Keep.workflow({ topics: t });"),
        (Language.PYTHON, "from duly import workflow\nt = [t]\nworkflow('x', topics=t)\n"),
    ],
)
def test_a_constant_made_of_itself_is_not_known(language: Language, text: str) -> None:
    """W6: it fails when it is loaded; reading it comes to an end."""
    assert analyse(Source(language, text), CATALOG).findings == ()


def test_drafts_have_the_suffix_of_no_tool() -> None:
    """W1: both languages are known by their suffix; drafts in Python hide from our own linters."""
    assert {SUFFIXES.get(path.suffix) for path in drafts(Language.JAVASCRIPT)} == {
        Language.JAVASCRIPT
    }
    assert {path.suffix for path in drafts(Language.PYTHON)} == {".txt"}
