"""Comparing changes: what is the same, and how a difference is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.rules.replay import Difference, OutsideChange, Replay, compare
from duly.rules.value import Json
from duly.words import say_difference
from duly.words.replay import SHOWN_CHARS

PROPERTY = settings(derandomize=True, deadline=None, max_examples=150)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
ARGS = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3)
APPEND = OutsideChange("sheets.append_row", {"values": [1], "sheet": "S1"})
SHOWN = 'sheets.append_row with values [1], sheet "S1"'
HERE: tuple[str, tuple[str, ...]] = ("run_1", ("Mail m1",))


def turned(value: Json) -> Json:
    """The same value, its keys in another order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(list(value))}
    return [turned(each) for each in value] if isinstance(value, list) else value


@PROPERTY
@given(args=ARGS)
def test_the_order_of_keys_is_no_difference(args: dict[str, Json]) -> None:
    """F3, T5: equal content is equal, however it was written."""
    after: Any = turned(args)
    assert compare(*HERE, OutsideChange("a.b", args), OutsideChange("a.b", after)) is None


@PROPERTY
@given(before=ARGS, after=ARGS)
def test_whatever_differs_is_a_difference_with_both_sides(
    before: dict[str, Json], after: dict[str, Json]
) -> None:
    """F3: nothing that was changed is taken for the same."""
    found = compare(*HERE, OutsideChange("a.b", before), OutsideChange("a.b", after))
    is_same = OutsideChange("a.b", before).digest == OutsideChange("a.b", after).digest
    assert (found is None) is is_same
    if found is not None:
        was, now = say_difference(found).split("; now it would call it with ")
        assert was.removeprefix("For “Mail m1” it called a.b with ") != now.removesuffix(".")


def test_one_and_one_point_zero_are_the_same_number() -> None:
    """T8: as they are in JavaScript, and in every digest."""
    assert compare(*HERE, OutsideChange("a.b", {"n": 1}), OutsideChange("a.b", {"n": 1.0})) is None


def test_no_change_is_the_same_as_no_change() -> None:
    """F3: a run that changed nothing and would change nothing."""
    assert compare(*HERE, None, None) is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            APPEND,
            None,
            f"it called {SHOWN}; now it would change nothing.",
        ),
        (None, OutsideChange("a.wipe", {}), "it changed nothing; now it would call a.wipe."),
        (
            APPEND,
            OutsideChange("a.wipe", {"all": True}),
            f"it called {SHOWN}; now it would call a.wipe with all true.",
        ),
        (
            APPEND,
            OutsideChange("sheets.append_row", {"values": [2], "sheet": "S1"}),
            f"it called {APPEND.tool} with values [1]; now it would call it with values [2].",
        ),
        (
            APPEND,
            OutsideChange("sheets.append_row", {"values": [1]}),
            'it called sheets.append_row with sheet "S1"; now it would call it with no sheet.',
        ),
    ],
)
def test_a_difference_is_one_sentence(
    before: OutsideChange | None, after: OutsideChange | None, said: str
) -> None:
    """F3, U7: by the input a person knows, and only what differs."""
    found = compare(*HERE, before, after)
    assert found is not None
    assert say_difference(found) == f"For “Mail m1” {said}"


def test_a_long_argument_is_shown_where_it_differs() -> None:
    """F3: two texts that are cut must not look the same."""
    same = "x" * (2 * SHOWN_CHARS)
    found = compare(
        *HERE,
        OutsideChange("a.b", {"text": f"{same}old"}),
        OutsideChange("a.b", {"text": f"{same}new"}),
    )
    assert found is not None
    was, _, now = say_difference(found).partition("; now")
    assert ("old" in was, "new" in now) == (True, True)
    assert len(say_difference(found)) < 2 * SHOWN_CHARS


@pytest.mark.parametrize(("length", "is_cut"), [(SHOWN_CHARS - 2, False), (SHOWN_CHARS - 1, True)])
def test_an_argument_is_shown_up_to_its_limit(length: int, is_cut: bool) -> None:
    """N: one past it is cut; the quotes count."""
    found = compare(*HERE, None, OutsideChange("a.b", {"text": "x" * length}))
    assert found is not None
    assert ("…" in say_difference(found)) is is_cut


@pytest.mark.parametrize(("inputs", "said"), [(("a",), "“a”"), (("a", "b", "c"), "“a” and 2 more")])
def test_a_problem_is_told_by_its_inputs(inputs: tuple[str, ...], said: str) -> None:
    """F3: what cannot be told is said."""
    difference = Difference("run_1", inputs, problem="it is too large.")
    assert say_difference(difference) == f"For {said} it cannot be told: it is too large."


def test_a_problem_of_what_works_on_nothing_stands_by_itself() -> None:
    """F3: a producer is given no events."""
    difference = Difference("run_1", (), problem="poll is too large.")
    assert say_difference(difference) == "Poll is too large."


def test_what_cannot_be_told_is_not_the_same() -> None:
    """F3: a repair is adopted only if it is known to change nothing of the past."""
    assert Replay(3).is_same
    assert not Replay(3, (Difference("run_1", ("a",), problem="?"),)).is_same
    assert not Replay(3, (Difference("run_1", ("a",), APPEND),)).is_same
