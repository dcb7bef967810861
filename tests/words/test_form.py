"""A call as a form: texts keep their lines wherever they are (A3)."""

from __future__ import annotations

import pytest

from duly.faces.cli.call import side_by_side
from duly.rules.catalog import make_form
from duly.rules.value import Json, encode

LETTER: Json = {"to": "ada", "parts": {"body": "Dear Ada\nBye", "copies": ["one\ntwo", "x"]}}


def test_a_form_keeps_the_lines_of_texts_inside_objects_and_lists() -> None:
    """A3: each marked as a line, so that no text looks like another field."""
    (form,) = make_form(None, {"letter": LETTER})
    lines = (
        'to: "ada"',
        "parts:",
        "  body:",
        "    | Dear Ada",
        "    | Bye",
        "  copies:",
        "    -:",
        "      | one",
        "      | two",
        '    -: "x"',
    )
    assert form == ("letter", "\n".join(lines))


def test_a_form_writes_an_object_field_by_field() -> None:
    """A3: a row of a table is read as one; a list of values stays on its line."""
    row: Json = {"Amount": 5, "Paid by (name)": "Ada", "tags": ["a", "b"], "at": {"day": 1}}
    lines = ("Amount: 5", 'Paid by (name): "Ada"', 'tags: ["a","b"]', "at:", "  day: 1")
    assert make_form(None, {"row": row, "none": {}}) == (("row", "\n".join(lines)), ("none", "{}"))
    assert make_form(None, {"rows": [{"a": 1}]}) == (("rows", "-:\n  a: 1"),)
    (brief,) = make_form(None, {"row": {"a": 1}}, is_brief=True)
    assert brief == ("row", '{"a":1}')


@pytest.mark.parametrize(
    "name", ["to: ada\nnote", "to: ada", "a\u202eb", "", "| x", "- ", '"', " x"]
)
def test_a_name_inside_an_object_looks_like_no_other_field(name: str) -> None:
    """A3, G9: what could be taken for more than a name is written as JSON."""
    values: tuple[Json, ...] = (5, "one\ntwo", {"deep": 1})
    for value in values:
        ((_, text),) = make_form(None, {"row": {name: value}})
        first, *rest = text.split("\n")
        assert first.startswith(f"{encode(name, limit_bytes=100)}:")
        assert all(line.startswith("  ") for line in rest)


def test_a_form_shows_a_text_of_its_own_as_it_is() -> None:
    """A3: under its own name it needs no mark."""
    assert make_form(None, {"text": "a\nb", "n": 3}) == (("text", "a\nb"), ("n", "3"))


def test_the_box_keeps_the_lines_of_texts_however_deep(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A3, L11: an object inside an object, and a list; one line each."""
    side_by_side(None, {"tool": "post.send", "args": {"letter": LETTER}})
    observed = [line.split("│")[2].strip() for line in capsys.readouterr().out.splitlines()[3:-1]]
    assert {"| Dear Ada", "| Bye", "| one", "| two"} <= set(observed)
