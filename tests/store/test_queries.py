"""The loader of named statements."""

from __future__ import annotations

import pytest

from duly.errors import IllegalTransition
from duly.store import queries

TWO = """-- What this file holds, in a sentence.

-- claim_workflow
-- Take the lease if it is free;
-- the new epoch fences the old holder.
update workflow set epoch = epoch + 1, holder = :holder
where id = :id and holder <> 'paused:approval' -- not :this
returning epoch;

-- list_words
-- Everything, for a person.
select word from word
"""


def test_statements_are_found_by_name_and_lose_their_reason() -> None:
    """H1: one text holds all SQL, named."""
    statements = queries.parse(TWO)
    assert list(statements) == ["claim_workflow", "list_words"]
    assert statements["claim_workflow"].startswith("update workflow")
    assert statements["claim_workflow"].endswith("returning epoch")
    assert statements["list_words"] == "select word from word"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- a\n-- Why.\nselect 1;\n-- a\n-- Why.\nselect 2;", "statement a occurs twice"),
        ("-- a\nselect 1;", "statement a does not say why"),
        ("-- a\n-- Why.\n\n-- b\n-- Why.\nselect 2;", "statement a is empty"),
        ("-- a\n\n-- b\n-- Why.\nselect 2;", "statement a is empty"),
        ("select 1;\n-- a\n-- Why.\nselect 1;", "before the first name"),
    ],
)
def test_a_malformed_file_is_refused_by_statement_name(text: str, message: str) -> None:
    """H1: a statement without a name of its own or a reason is refused."""
    with pytest.raises(IllegalTransition, match=f"words: .*{message}"):
        queries.parse(text, "words")


def test_the_same_name_in_two_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: a later file cannot replace a statement in silence."""
    monkeypatch.setattr(queries, "read", lambda file: "-- a\n-- Why.\nselect 1;")
    with pytest.raises(IllegalTransition, match="second: statement a is already in another file"):
        queries.load("first", "second")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", ()),
        ("select :a, :b, :a", ("a", "b")),
        ("select 'paused:approval', :a", ("a",)),
        ("select 'it''s :not', \":nor\", :a", ("a",)),
        ("select :a -- :b\n, /* :c */ :d", ("a", "d")),
        ("select a::text, :b", ("b",)),
        ("select '12:30', x.y, :now_ms", ("now_ms",)),
    ],
)
def test_parameters_are_numbered_as_sqlite_numbers_them(
    text: str, expected: tuple[str, ...]
) -> None:
    """H1: a colon inside quotes or a comment is no parameter."""
    assert queries.parameters(text) == expected


@pytest.mark.parametrize(
    ("text", "given", "bound"),
    [
        ("select 1", {}, ()),
        ("select :a", {"a": 1}, (1,)),
        ("select :b, :a, :b", {"a": 1, "b": 2}, (2, 1)),
    ],
)
def test_parameters_are_bound_in_order(
    text: str, given: dict[str, int], bound: tuple[int, ...]
) -> None:
    """H1: a call names its parameters; SQLite gets them by number."""
    assert queries.prepare({"s": text})["s"].bind(given) == bound
