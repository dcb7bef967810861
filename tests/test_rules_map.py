"""Page, map and tests speak of the same rules, and every word of the page is in the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import where
from tests.rules_map import (
    MAP,
    ROOT,
    RULES,
    Entry,
    claims_of,
    problems,
    read_claims,
    read_map,
    read_rules,
)

PAGE = read_rules(RULES.read_text(encoding="utf-8"))
GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS_MAX = 60
USER_WORDS_MAX = 15

# How many rules each letter has. A rule is added here, on the page and in the map, together.
COUNTS = {"W": 10, "T": 10, "P": 4, "C": 13, "L": 12, "R": 9, "F": 8, "S": 9} | (
    {"A": 6, "U": 7, "B": 14, "X": 4, "H": 12}
)

# Of these letters only some rules are built yet.
FURTHER = {
    "L": ("L13", "L14", "L15"),
    "G": tuple(f"G{number}" for number in range(1, 17)),
    "K": tuple(f"K{number}" for number in range(1, 16)),
    "M": ("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10"),
}

SMALL_PAGE = "# Page\n- C1 One.\n- C2 Two,\n  | and a table |\n\n## L. Ledger\n- L1 Three.\n"


def test_the_page_has_every_rule() -> None:
    expected: list[str] = []
    for letter, count in {**COUNTS, "G": 0, "K": 0, "M": 0}.items():
        expected += [f"{letter}{n}" for n in range(1, count + 1)]
        expected += FURTHER.get(letter, ())
    assert list(PAGE) == [*expected, "N"]


def test_no_rule_stands_on_the_page_twice() -> None:
    ids = re.findall(r"^- ([A-Z]\d+) ", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(ids) == sorted(set(ids))


def test_page_map_and_docstrings_agree() -> None:
    """The repository's own map has no problem of any kind that is planted below."""
    assert problems(PAGE, read_map(MAP.read_text(encoding="utf-8")), read_claims()) == []


def test_the_map_is_in_the_order_of_the_page_and_says_only_what_no_test_can() -> None:
    text = MAP.read_text(encoding="utf-8")
    assert list(read_map(text)) == list(PAGE)
    with pytest.raises(TypeError, match="tests"):
        read_map('[C1]\nhome = "home.py"\ntests = ["tests/test_x.py::test_x"]\n')


def test_the_page_is_read_rule_by_rule() -> None:
    assert read_rules(SMALL_PAGE) == {
        "C1": "One.",
        "C2": "Two,\n  | and a table |",
        "L1": "Three.",
    }
    assert read_rules("- C1 One.\n\n## N. Limits\nstate 64 KiB\n")["N"] == "Limits\nstate 64 KiB"


def test_a_docstring_claims_the_ids_it_begins_with() -> None:
    text = (
        'def test_a() -> None:\n    """C8: Sent once."""\n'
        'async def test_b() -> None:\n    """C8, L2, N: Three."""\n'
        'def test_c() -> None:\n    """As C8 says: nothing."""\n'
        "def test_d() -> None: ...\n"
        'def helper() -> None:\n    """C8: Not a test."""\n'
    )
    assert claims_of(text) == {
        "test_a": ("C8",),
        "test_b": ("C8", "L2", "N"),
        "test_c": (),
        "test_d": (),
    }


PROVEN = Entry(home="home.py")
CLAIMS: dict[str, tuple[str, ...]] = {"tests/test_x.py::test_x": ("C1",)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "home.py").touch()
    return tmp_path


def test_a_proven_rule_and_an_open_one_are_no_problem(root: Path) -> None:
    entries = {"C1": PROVEN, "C2": Entry(open="engine, bus: the rest")}
    assert problems({"C1": "", "C2": ""}, entries, CLAIMS, root) == []


@pytest.mark.parametrize(
    ("entry", "claims", "problem"),
    [
        (None, {}, "no entry in rules.toml"),
        (Entry("gone.py"), CLAIMS, "its home gone.py does not exist"),
        (Entry("home.py"), {}, "neither proven nor open"),
        (Entry(), CLAIMS, "has tests and no home"),
        (Entry(open="bus"), CLAIMS, "has tests and no home"),
        (Entry(open="later"), {}, "open must begin with parts of the product"),
        (Entry(open="bus"), {"t": ("C9",)}, "claims C9, which is no rule"),
        (PROVEN, {"t": ("C1",) * 4}, "claims 4 rules"),
    ],
)
def test_each_disagreement_is_found(
    root: Path, entry: Entry | None, claims: dict[str, tuple[str, ...]], problem: str
) -> None:
    found = problems({"C1": ""}, {"C1": entry} if entry else {}, claims, root)
    assert [problem in each for each in found] == [True], found


def test_an_entry_without_a_rule_is_found(root: Path) -> None:
    found = problems({}, {"C1": Entry(open="bus")}, {}, root)
    assert found == ["C1: no such rule on the page"]


def test_three_claims_are_not_too_many(root: Path) -> None:
    rules = {"C1": "", "C2": "", "C3": ""}
    entries = {rule: Entry("home.py") for rule in rules}
    assert problems(rules, entries, {"t": ("C1", "C2", "C3")}, root) == []


def test_where_prints_home_tests_and_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert where.main(["n", "F1"]) == 0
    out = capsys.readouterr().out
    assert "src/duly/config.py" in out
    assert "test_default_limits_are_those_of_the_rules" in out
    assert PAGE["F1"] in out


def test_where_answers_an_unknown_rule_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert where.main(["C99"]) == 1
    assert "There is no rule C99; the nearest is C9." in capsys.readouterr().out


def test_where_lists_what_docstrings_claim_and_counts_what_is_proven() -> None:
    told = where.describe("C1", "One.", Entry("home.py", open="bus: x"), ["a::test_a", "b::test_b"])
    assert told.splitlines()[2:] == [
        *("home   home.py", "test   a::test_a", "test   b::test_b", "open   bus: x")
    ]
    entries = {"C1": PROVEN, "C2": Entry("home.py", open="bus"), "C3": Entry(open="bus")}
    claims = {"t": ("C1", "C2")}
    assert where.summary(entries, claims) == "3 rules: 1 proven, 1 in part, 1 not yet."


def glossary_of(text: str) -> set[str]:
    """Read the words a glossary explains: a bold word and a sentence."""
    return set(re.findall(r"^- \*\*([^*]+)\*\*: \S", text, re.MULTILINE))


def words_of(page: str) -> set[str]:
    """Read the words of the page: its list, without what stands in parentheses."""
    listed = page.partition("## Words\n")[2].partition("One word means one thing")[0]
    plain = re.sub(r"\([^()]*\)", "", listed.replace("*", "")).replace("\n", " ")
    return {word.strip(" .") for word in plain.split("·")}


def test_every_word_of_the_page_is_in_the_glossary() -> None:
    words = words_of(RULES.read_text(encoding="utf-8"))
    assert {"host", "open run", "orphaned", "settle", "message id"} <= words
    explained = glossary_of(GLOSSARY.read_text(encoding="utf-8"))
    assert words - explained == set()
    assert {"barrier", "rider", "fence", "epoch", "verb", "lag"} <= explained
    assert len(explained) <= WORDS_MAX


def test_a_user_needs_fifteen_words() -> None:
    """U5: the rest is for people who work on Duly."""
    users = GLOSSARY.read_text(encoding="utf-8").partition("## For people who work on Duly")[0]
    assert len(glossary_of(users)) <= USER_WORDS_MAX


def test_a_word_without_an_explanation_is_not_in_the_glossary() -> None:
    assert glossary_of("- **host**: the program.\n- **run**:\n**step**: x\n") == {"host"}
