"""The breaks are judged rightly, each has a place and a rule, and some of them are red here."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tests import breaks
from tests.breaks import Break, NoSuchPlace, Verdict, planted
from tests.rules_map import MAP, ROOT, RULES, read_claims, read_map, read_rules
from tests.warm import INSIDE, Warm

ALL = breaks.collect()
EVERY = 40  # a commit tries so small a part of them


# The judge.


VERDICTS = {
    planted.GUARDED: Verdict.RED,
    planted.UNGUARDED: Verdict.GREEN,
    planted.NO_MODULE: Verdict.MISSING,
    planted.NO_ATTRIBUTE: Verdict.MISSING,
    planted.UNCLAIMED: Verdict.UNCLAIMED,
    planted.NO_TESTS: Verdict.DID_NOT_RUN,
    planted.UNFINDABLE: Verdict.MISSING,
}


@pytest.fixture(scope="module")
def kept() -> Iterator[Warm]:
    """Start one process for all who judge a planted break."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(breaks.AREAS_VARIABLE, breaks.PLANTED)
        warm = Warm()
    with closing(warm):
        yield warm


@pytest.fixture
def warm(kept: Warm, monkeypatch: pytest.MonkeyPatch) -> Warm:
    """Let the judge use that process, and leave it open."""
    monkeypatch.setattr(breaks, "PARALLEL", 1)
    monkeypatch.setattr(breaks, "Warm", lambda: kept)
    monkeypatch.setattr(breaks, "closing", nullcontext)
    return kept


@pytest.mark.usefixtures("warm")
def test_each_planted_break_gets_its_verdict() -> None:
    reports = breaks.try_breaks(list(VERDICTS), control=False)
    assert {report.broken: report.verdict for report in reports} == VERDICTS


@pytest.mark.usefixtures("warm")
def test_tests_that_are_red_without_the_break_are_no_proof(tmp_path: Path) -> None:
    (tmp_path / "test_red.py").write_text("def test_red() -> None:\n    assert False\n")
    named = (f"{tmp_path / 'test_red.py'}::test_red",)
    broken = Break("N", "duly.config", "KIB", 1000, named, "a test that is always red")
    (report,) = breaks.try_breaks([broken], control=True)
    assert report.verdict is Verdict.BROKEN_BEFORE


def test_a_break_that_does_not_end_is_no_proof(warm: Warm) -> None:
    guarded = planted.GUARDED
    report = breaks.try_break(guarded, guarded.tests, warm=warm, timeout_s=0.001)
    assert report.verdict is Verdict.HUNG
    after = breaks.try_break(guarded, guarded.tests, warm=warm)
    assert after.verdict is Verdict.RED, "the next one is tried all the same"


def test_a_run_under_a_break_starts_no_further_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSIDE, "1")
    with pytest.raises(AssertionError, match="starts no further ones"):
        Warm()


def test_what_is_not_red_makes_the_command_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(breaks, "collect", lambda: (planted.UNCLAIMED,))
    assert breaks.main([]) == 1
    assert "no test claims the rule" in capsys.readouterr().out
    assert breaks.main(["C8"]) == 1
    assert "There is no such break" in capsys.readouterr().out


def test_the_table_shows_the_words_of_what_is_not_red() -> None:
    report = breaks.Report(planted.GUARDED, Verdict.GREEN, "2 passed\nin no time")
    shown = breaks.table([report]).splitlines()
    assert shown[0].startswith("stayed green")
    assert shown[1:] == ["    2 passed", "    in no time"]


# Putting a break in place.


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make a small package in which one module imports a name from another."""
    room = tmp_path / "lamps"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "table.py").write_text("WATTS = {1: 2}\nOTHER = [1]\nclass Lamp:\n    lit = True\n")
    (room / "user.py").write_text("from lamps.table import OTHER, WATTS\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("lamps.user")
    yield "lamps"
    for name in [name for name in sys.modules if name.partition(".")[0] == "lamps"]:
        del sys.modules[name]


def broken(module: str, attribute: str, replacement: object) -> Break:
    return Break("N", module, attribute, replacement, (), "planted")


def test_a_break_reaches_every_module_that_imported_the_name(package: str) -> None:
    breaks.apply(broken(f"{package}.table", "WATTS", {}))
    assert sys.modules["lamps.table"].WATTS == sys.modules["lamps.user"].WATTS == {}
    assert sys.modules["lamps.user"].OTHER == [1]


def test_another_object_of_the_same_name_is_left_alone(package: str) -> None:
    sys.modules["lamps.user"].__dict__["WATTS"] = mine = {1: 2}
    breaks.apply(broken(f"{package}.table", "WATTS", {}))
    assert sys.modules["lamps.user"].WATTS is mine


def test_a_dotted_attribute_is_replaced_in_its_class(package: str) -> None:
    breaks.apply(broken(f"{package}.table", "Lamp.lit", False))
    assert sys.modules["lamps.table"].Lamp.lit is False


@pytest.mark.parametrize(
    ("module", "attribute"), [("lamps.attic", "X"), ("lamps.table", "X"), ("lamps.table", "Lamp.x")]
)
def test_a_place_that_does_not_exist_is_refused(package: str, module: str, attribute: str) -> None:
    assert package
    with pytest.raises(NoSuchPlace, match=f"{module}.{attribute}"):
        breaks.apply(broken(module, attribute, 1))


# Which tests, and which tenth.


def test_of_a_file_only_the_tests_that_claim_the_rule_are_run() -> None:
    claims = {"a.py::test_1": ("C8",), "a.py::test_2": ("L2",), "b.py::test_3": ("C8", "L2")}
    chosen = Break("C8", "m", "x", 1, ("a.py", "b.py::test_4"), "")
    assert breaks.select(chosen, claims) == ("a.py::test_1", "b.py::test_4")


def test_ten_tenths_are_all_breaks_once() -> None:
    many = [broken("m", str(number), number) for number in range(23)]
    tenths = [breaks.tenth(many, number) for number in range(10)]
    assert sorted(b.replacement for part in tenths for b in part) == list(range(23))
    assert {len(part) for part in tenths} == {2, 3}
    assert breaks.tenth(many, 13) == breaks.tenth(many, 3)


def test_the_tenth_is_given_or_belongs_to_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(breaks.TENTH_VARIABLE, "17")
    assert breaks.tenth_of_commit() == 7
    monkeypatch.delenv(breaks.TENTH_VARIABLE)
    assert breaks.tenth_of_commit() == breaks.tenth_of_commit() in range(10)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert breaks.tenth_of_commit(tmp_path) == 0


# The breaks of the repository.


def test_every_break_has_a_rule_a_place_and_tests() -> None:
    rules = read_rules(RULES.read_text(encoding="utf-8"))
    assert [b.key for b in ALL if b.rule not in rules] == []
    assert [b.key for b in ALL if not b.says.strip() or not b.tests] == []
    files = {test.partition("::")[0] for b in ALL for test in b.tests}
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []
    # This file runs breaks; a break that ran it would never end.
    assert "tests/test_breaks.py" not in files


def test_no_two_breaks_have_the_same_name() -> None:
    names = [b.key for b in ALL]
    assert sorted(names) == sorted(set(names))


def test_every_proven_rule_of_the_heart_has_a_break() -> None:
    """Every id of C, L, R, S, A, B that a test claims is broken once, or the map says why not."""
    entries = read_map(MAP.read_text(encoding="utf-8"))
    claimed = {rule for ids in read_claims().values() for rule in ids}
    proven = [rule for rule in entries if rule in claimed and rule[0] in "CLRSAB"]
    covered = {b.rule for b in ALL}
    assert [r for r in proven if r not in covered and not entries[r].unbroken] == []
    assert [r for r in entries if entries[r].unbroken and r in covered] == []


def test_a_fortieth_of_the_breaks_is_red() -> None:
    """`make breaks` tries them all; the tests themselves are seen green by this very run."""
    chosen = ALL[breaks.number_of_commit() % EVERY :: EVERY]
    reports = breaks.try_breaks(chosen, control=False)
    assert [r for r in reports if r.verdict is not Verdict.RED] == [], breaks.table(reports)


def test_a_break_is_called_like_what_it_replaces() -> None:
    """A replacement that cannot be called so is red for its own mistake and proves nothing."""
    for broken in breaks.collect():
        *path, name = broken.attribute.split(".")
        holder: Any = reduce(getattr, path, importlib.import_module(broken.module))
        original = getattr(holder, name)
        if not callable(original) or isinstance(original, type):
            continue
        wanted = inspect.signature(original).parameters.values()
        named = {each.name: each for each in wanted if each.kind is each.KEYWORD_ONLY}
        placed = [each for each in wanted if each.kind <= each.POSITIONAL_OR_KEYWORD]
        inspect.signature(broken.replacement).bind(*placed, **named)
