"""The sentences of errors: every code has one, every one has a site, and none breaks."""

from __future__ import annotations

import re

import pytest

from duly import errors
from duly.api.registry import VERBS
from duly.errors import DulyError, Invalid
from duly.rules.trust import Distrust
from duly.words import DOES
from duly.words import error as words
from duly.words.error import DISTRUSTS, PAIRS, SECTIONS, WANTED, say
from duly.words.template import names
from tests import error_page, house
from tests.error_sites import CLASSES, find_sites, find_texts

# What is made of several facts, and so is no fact of its own.
MADE = {"nearest", "subject", "all"}
# Two or more words with a space between them, and a command or a call.
CALLS = re.compile(r"\bduly [a-z]|\bhost\.[a-z]|\)\.$")
CODES = sorted(PAIRS)
OFFERED = re.compile(r'next=(see|do)\(\s*"([a-z_.]+)"')
# Where no error is written out; connectors speak with the outside's words, scripts with their own.
WITHOUT_PROSE = (
    *("rules", "desk", "api", "faces", "store", "engine", "bus", "cell"),
    *("host.py", "config.py"),
)
# Our own bugs, and what a channel reports of the outside.
OWN_WORDS = {
    name
    for name in CLASSES
    if issubclass(getattr(errors, name), (errors.ConnectorError, errors.IllegalTransition))
}
# An error that is raised again as it was: by the other side of a socket, or with its place.
TOLD_AGAIN = {("api/wire.py", "DulyError")}


def required(code: str) -> frozenset[str]:
    """Return the facts without which a sentence would have a hole."""
    text = re.sub(r"\[[^\[\]]*\]", "", " ".join(PAIRS[code]))
    return names(text) - MADE


def test_every_code_has_one_pair_of_sentences() -> None:
    """U6: a code that a site names is in the table, and stands there once."""
    used = {site.code for site in find_sites() if site.code}
    assert used - PAIRS.keys() == set()
    assert len(PAIRS) == sum(len(section) for section in SECTIONS.values())


def test_every_pair_of_sentences_has_a_site() -> None:
    """U6: a sentence that no error has is deleted."""
    assert PAIRS.keys() - find_texts(without="words") == set()


def test_every_site_gives_the_facts_its_sentence_needs() -> None:
    """U6: no sentence has a hole."""
    sites = [site for site in find_sites() if site.code and not site.is_open]
    holes = {(s.code, f"{s.file}:{s.line}"): required(s.code) - s.facts for s in sites}
    assert sites
    assert {site: missing for site, missing in holes.items() if missing} == {}


def test_every_word_of_what_is_wanted_is_known() -> None:
    """U6: what a value must be is said in words."""
    used = {site.wanted for site in find_sites() if site.code == "wrong_value" and site.wanted}
    assert used - WANTED.keys() == set()
    assert WANTED.keys() - find_texts(without="words") == set()


@pytest.mark.parametrize("code", CODES)
def test_every_sentence_is_whole_with_and_without_its_facts(code: str) -> None:
    """U6: an error is told, whatever it lacks; no brace or bracket of a template is left."""
    template = " ".join(PAIRS[code])
    lists = set(re.findall(r"\{(\w+):(?:list|or|each|arrows)\}", template))
    fields = {*names(template), "near"} - {"all"}
    facts = {name: ["x", "y."] if name in lists else "x" for name in fields}
    whole = say(DulyError(code=code, subject="thing", facts=facts))
    assert "  " not in whole
    assert whole[-1] in ".?"
    for text in (whole, say(DulyError(code=code, subject="thing"))):
        assert text
        assert "{{" in template or not set("{}[]") & set(text), text


@pytest.mark.parametrize("code", CODES)
def test_no_sentence_names_a_command_or_a_call(code: str) -> None:
    """U6: what to type is in the offer, in each face's own way."""
    assert not CALLS.search(" ".join(PAIRS[code]))


def test_what_a_fact_says_is_never_read_as_a_template() -> None:
    """L11: brackets and braces of a caller stand as they were given."""
    given = "a [b|{subject}] }} ["
    facts = {"wanted": given, "given": given, "kind": "str"}
    assert say(DulyError(code="wrong_value", subject="x", facts=facts)).count(given) == 2


def test_no_room_writes_the_sentence_of_an_error() -> None:
    """U6: sentences are made in `words` alone; neither a message nor prose stands in a site."""
    told = [
        (site.file, site.line, site.prose)
        for site in find_sites(*WITHOUT_PROSE)
        if (site.prose or site.has_message)
        and site.kind not in OWN_WORDS
        and (site.file, site.kind) not in TOLD_AGAIN
    ]
    assert told == []


def find_offers() -> list[tuple[str, str, str]]:
    """Find every offer of an error: its file, whether it is a question or an act, its verb."""
    return [
        (path.name, found[1], found[2])
        for path in sorted(house.SOURCE.rglob("*.py"))
        for found in OFFERED.finditer(path.read_text(encoding="utf-8"))
    ]


def test_every_offer_of_an_error_is_a_verb_and_of_its_true_kind() -> None:
    """U6: a program reads in `does` whether it would look or act; every kind has its words."""
    offers = find_offers()
    assert len(offers) > 25
    for file, kind, verb in offers:
        assert VERBS[verb].is_question is (kind == "see"), (file, verb)
        assert ("see" if kind == "see" else verb) in DOES, (file, verb)


def test_every_reason_for_distrust_has_its_words() -> None:
    """K14: a file that is not used says why."""
    assert set(DISTRUSTS) == set(Distrust)


def test_a_scan_finds_prose_and_codes() -> None:
    """U6: the scan is awake: it finds an error, its code, and a sentence."""
    assert {"Invalid", "NotFound"} <= CLASSES
    assert any(site.code == "no_workflow" and site.verb == "workflows" for site in find_sites())
    assert any(site.prose for site in find_sites("connectors"))


def test_an_unknown_code_is_told_as_it_is() -> None:
    """U6: an error of a newer host is told by its code."""
    assert say(DulyError(code="from_later", subject="x")) == "from_later: x."
    facts = {"count": 3, "near": None, "known": ["a"]}
    told = say(DulyError(code="from_later", facts=facts))
    assert told == "from_later (count 3, known ['a'])."
    assert errors.render_pair("from_later", "x", {}) == ("from_later: x.", "Correct it.")
    assert errors.render is words.say


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            Invalid(code="wrong_value", path="x", facts={"wanted": "object", "fields": ["a", "b"]}),
            "x must be an object with a, b.",
        ),
        (
            Invalid(code="wrong_value", path="x", facts={"wanted": "number", "given": "{y}[z]"}),
            "x is '{y}[z]'; it must be a number.",
        ),
        (
            Invalid(code="out_of_range", path="n", facts={"given": 0, "least": 1, "most": 5}),
            "n is 0; it must be a whole number from 1 to 5.",
        ),
        (
            Invalid(code="unknown_field", path="x.y", facts={"known": ["a", "b"], "count": 3}),
            "x.y is not known. Known: a, b, ….",
        ),
        (
            Invalid(code="blank", path="x", facts={"place": "environment"}),
            "the environment: x is blank. Write a text.",
        ),
    ],
)
def test_a_sentence_is_made_from_the_facts(error: DulyError, sentence: str) -> None:
    """U6: by example."""
    assert str(error) == sentence


def test_the_page_shows_every_code() -> None:
    """U6: `python -m tests.error_page --write` writes it anew."""
    assert error_page.PAGE.read_text(encoding="utf-8") == error_page.page()
