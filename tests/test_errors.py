"""The exceptions: the tree in the docstring is the tree in the code, each says what happened."""

from __future__ import annotations

import inspect

import pytest

from duly import errors
from duly.errors import DulyError

ALL = [
    each
    for each in vars(errors).values()
    if inspect.isclass(each) and issubclass(each, DulyError) and each.__module__ == errors.__name__
]


def drawn(text: str) -> dict[str, str | None]:
    """Read a drawn tree: each name with the name it hangs on."""
    parents: dict[str, str | None] = {}
    branch: list[tuple[int, str]] = []
    for line in text.splitlines():
        name = line.lstrip(" │├└─").split(" ")[0]
        if not name or not ("├──" in line or "└──" in line or line.strip() == "DulyError"):
            continue
        depth = line.index(name)
        while branch and branch[-1][0] >= depth:
            branch.pop()
        parents[name] = branch[-1][1] if branch else None
        branch.append((depth, name))
    return parents


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    tree = {each.__name__: None if each is DulyError else each.__mro__[1].__name__ for each in ALL}
    assert drawn(inspect.getdoc(errors) or "") == tree


def test_a_drawn_tree_is_read_as_it_hangs() -> None:
    text = "DulyError\n├── A   says a\n│   ├── B   says b\n│   └── C\n└── D   says d"
    assert drawn(text) == {
        "DulyError": None,
        "A": "DulyError",
        "B": "A",
        "C": "A",
        "D": "DulyError",
    }


@pytest.mark.parametrize("error", ALL)
def test_the_docstring_is_the_default_message(error: type[DulyError]) -> None:
    first = (error.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert str(error()) == first


@pytest.mark.parametrize("error", ALL)
def test_a_message_takes_the_place_of_the_docstring(error: type[DulyError]) -> None:
    assert str(error("Gmail needs you to sign in again.")) == "Gmail needs you to sign in again."


def test_errors_carry_what_the_reader_needs() -> None:
    assert errors.Invalid("x", path="topics[0]").path == "topics[0]"
    assert errors.NotDeployed(findings=("a",)).findings == ("a",)
    script = errors.ScriptError("x", line=3, column=7)
    assert (script.line, script.column) == (3, 7)
    assert errors.AuthNeeded(connect="gmail").connect == "gmail"


def test_a_subject_does_not_grow_with_what_a_caller_gave() -> None:
    """G9: a name of many megabytes would be made visible letter by letter, more than once."""
    longest = "й" * errors.SUBJECT_CHARS_MAX
    for error in (
        errors.NotFound(code="no_workflow", subject=longest + "й" * 100_000, facts={"count": 0}),
        errors.Invalid(code="blank", path=longest + "й" * 100_000),
    ):
        assert error.subject == f"{longest}…"
        assert len(str(error)) < 2 * errors.SUBJECT_CHARS_MAX
    assert errors.Invalid(code="blank", path=longest + "й").path == f"{longest}…"
    assert errors.NotFound(code="no_run", subject=longest).subject == longest


def test_errors_of_connectors_carry_their_marks() -> None:
    """L4: what a connector knows of the outcome travels with the error, never in its text."""
    assert errors.NotSent(retry_after_s=5).retry_after_s == 5
    assert errors.Transient(retry_after_s=5).outcome is None
    assert errors.Transient(outcome="refused").outcome == "refused"
    assert errors.Refused().remembered is False
    assert errors.Refused(remembered=True).remembered is True
