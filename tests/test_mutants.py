"""Mutants are made from the source alone, put in place in memory, and judged rightly."""

from __future__ import annotations

import ast
from contextlib import closing

import pytest

from tests.mutants import generate, score
from tests.mutants.generate import ABOVE, INSIDE, SQL_KIND, barrier
from tests.mutants.judge import FOUND, SURVIVED, UNUSABLE, Court

KINDS = sorted({kind.__name__ for kind in (*INSIDE, *ABOVE, barrier)} | {SQL_KIND})
LEDGER = "tests/rules/test_ledger.py"
LAG = "rules.ledger is_absence_settled [compare] since_end_ms >= lag_ms → since_end_ms > lag_ms"


def of(text: str) -> list[str]:
    """Say what every kind makes of the body of one function."""
    tree = ast.parse(text)
    return sorted(
        says
        for _, kinds, node, _ in generate.places(tree, "m")
        for kind in kinds
        for _, says in kind(node)
    )


def test_each_kind_makes_its_change() -> None:
    assert of("def f():\n    if a < b:\n        raise X") == ["a < b → a <= b", "a < b → never"]
    assert of("def f():\n    return a and not b") == [
        "a and (not b) without a",
        "a and (not b) without not b",
        "not b → b",
    ]
    assert of("async def f():\n    await g()") == [
        "await g() → not waited for",
        "await g() → nothing",
    ]
    assert of("def f():\n    g(announce=x)\n    n += 1") == [
        "g(announce=x) → nothing",
        "g(…) without announce",
        "n += 1 → nothing",
    ]
    assert of("def f():\n    return now + tool.lag_s") == [
        "now + tool.lag_s → now",
        "tool.lag_s → 0",
    ]
    assert of("MAX = 5\nBYTES = 4 * 1024") == ["5 → 6"]
    assert of("TABLE = {A: 1, B: {C, D}}") == [
        "A: 1 → {C, D}",
        "B: {C, D} → 1",
        "{C, D} without C",
        "{C, D} without D",
    ]


def test_what_decides_nothing_is_left_alone() -> None:
    assert of('def f():\n    assert a < b\n    raise X(f"{a < b}")\n    log.info(a)') == []
    assert of("def f(a: int = 1 + 1) -> None:\n    pass") == []


def test_a_guard_of_a_statement_always_holds() -> None:
    mutant = next(iter(generate.of_sql("queries")))
    text = "update t set a = 1 where id = :id and phase = :old_phase"
    assert generate.changed_sql(mutant, text).endswith(
        "where (id = :id or 1) and phase = :old_phase"
    )


def test_every_kind_is_at_work_and_every_name_is_one_mutant() -> None:
    made = generate.generate_once()
    assert sorted({mutant.kind for mutant in made.values()}) == KINDS
    assert len(made) > 1000
    assert score.choose(list(made), [], 50) == score.choose(sorted(made, reverse=True), [], 50)


@pytest.mark.parametrize("kind", KINDS)
def test_a_test_that_can_notice_a_mutant_enters_a_function(kind: str) -> None:
    mutant = next(each for each in generate.generate_once().values() if each.kind == kind)
    assert score.reach(mutant)


def test_tests_that_take_a_changed_branch_are_asked_first() -> None:
    key = "store.statements must_change [condition] not rows → rows"
    mutant = generate.generate_once()[key]
    place = "store.statements must_change"
    runs, takes = generate.line(mutant), generate.line(mutant) | generate.branch(mutant)
    entered = {
        "many[a]": {"seconds": 0.1, "enters": {place: runs}},
        "many[b]": {"seconds": 0.1, "enters": {place: runs}},
        "once": {"seconds": 0.15, "enters": {place: runs}},
        "raises": {"seconds": 0.5, "enters": {place: takes}},
        "elsewhere": {"seconds": 0.1, "enters": {"store.statements touch": 1}},
        "enters only": {"seconds": 0.1, "enters": {place: 0}},
    }
    assert [*score.judges(mutant, entered, 9)] == ["raises", "many[a]", "once", "many[b]"]
    assert [*score.judges(mutant, entered, 0.7)] == ["raises", "many[a]"]


def test_the_judge_tells_found_from_survived_and_unusable() -> None:
    with closing(Court([LEDGER])) as court:
        names = [test for test in court.tests if "absence" in test or "lag" in test]
        assert names, court.tests
        tests = dict.fromkeys(names, 1.0)
        found = court.ask(mutant=LAG, tests=tests)
        assert (found["verdict"], found["hung"]) == (FOUND, False), found
        assert found["by"] in names
        assert court.ask(mutant="", tests=tests)["verdict"] == SURVIVED, "and none is left behind"
        assert court.ask(mutant="no such mutant", tests=tests)["verdict"] == UNUSABLE


def test_what_was_found_before_is_found_by_this_commit_too() -> None:
    """A dozen that belong to the commit; `make mutants` judges some hundred."""
    said: list[str] = []
    assert score.try_sample(said.append) == 0, said
