"""A cursor over what arrives in a folder: everything once, whatever order it becomes visible in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.connectors.arrival import PAGE_MAX, SEEN_MAX, WINDOW_NS, Arrival, Cursor
from duly.errors import Refused


def look(present: list[Arrival], after: str | None, limit: int = PAGE_MAX) -> tuple[list[str], str]:
    cursor = Cursor.read(after)
    given_now = cursor.unseen(present)[:limit]
    return [each.name for each in given_now], cursor.move(present, given_now).write()


def test_many_files_of_one_moment_are_all_given_once() -> None:
    present = [Arrival(5, f"{number:04}") for number in range(450)]
    after: str | None = None
    names: list[str] = []
    for _ in range(6):
        found, after = look(present, after)
        names += found
    assert names == [each.name for each in present]


def test_a_file_of_the_same_moment_that_appears_later_is_given() -> None:
    _, after = look([Arrival(5, "b")], None)
    assert look([Arrival(5, "a"), Arrival(5, "b")], after)[0] == ["a"]


def test_a_file_up_to_the_window_behind_the_newest_is_given_and_one_past_it_is_not() -> None:
    newest = Arrival(2 * WINDOW_NS, "new")
    _, after = look([newest], None)
    late, too_late = Arrival(WINDOW_NS, "late"), Arrival(WINDOW_NS - 1, "too late")
    assert look([newest, late, too_late], after)[0] == ["late"]


def test_a_file_that_changes_is_given_again() -> None:
    _, after = look([Arrival(5, "a")], None)
    assert look([Arrival(6, "a")], after)[0] == ["a"]


def test_a_file_that_was_passed_over_is_not_left_behind() -> None:
    """It could not be opened, say, while those after it could."""
    present = [Arrival(1, "skipped"), Arrival(2 * WINDOW_NS, "given")]
    after = Cursor().move(present, present[1:]).write()
    assert look(present, after)[0] == ["skipped"]


def test_an_old_folder_leaves_a_short_cursor() -> None:
    present = [Arrival(number * WINDOW_NS, str(number)) for number in range(50)]
    _, after = look(present, None)
    assert len(after) < 200
    assert look(present, after) == ([], after)


def test_a_flood_keeps_the_cursor_within_its_limit_and_loses_nothing_that_was_there() -> None:
    present = [Arrival(5, f"{number:05}") for number in range(SEEN_MAX + 1)]
    found, after = look(present, None, limit=SEEN_MAX)
    assert len(Cursor.read(after).seen) == SEEN_MAX
    more, after = look(present, after)
    assert (len(found), more) == (SEEN_MAX, [present[-1].name])
    for _ in range(2):
        assert len(Cursor.read(after).seen) == SEEN_MAX
        more, after = look(present, after)
        assert more == []


def test_a_flood_of_late_ones_does_not_fall_behind_the_cursor() -> None:
    early = [Arrival(WINDOW_NS, f"late {number:04}") for number in range(150)]
    flood = [Arrival(WINDOW_NS + 1, f"{number:05}") for number in range(SEEN_MAX)]
    _, after = look(flood, None, limit=SEEN_MAX)
    names: list[str] = []
    for _ in range(2):
        found, after = look(early + flood, after)
        names += found
    assert names == [each.name for each in early]


@pytest.mark.parametrize("text", ["", "7", "[1]", "{}", '[1,"a",2,3]', '["x","a",2,[]]', "null"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """F1: the script passed something else."""
    with pytest.raises(Refused, match="no cursor of this search"):
        Cursor.read(text)


arrivals = st.lists(
    st.tuples(
        st.integers(0, 3 * WINDOW_NS),  # when the file system says it came
        st.integers(0, WINDOW_NS),  # how long after that it can be seen
        st.sampled_from("abcdefgh"),
    ),
    max_size=30,
    unique_by=(lambda each: (each[0], each[2])),
)


@given(arrivals=arrivals, limit=st.integers(1, 5))
def test_everything_is_given_once_however_late_it_is_seen(
    arrivals: list[tuple[int, int, str]], limit: int
) -> None:
    """One look after each file that becomes visible, and then until all is given."""
    shown = sorted(arrivals, key=lambda each: each[0] + each[1])
    present: list[Arrival] = []
    after: str | None = None
    names: list[str] = []
    for at_ns, _, name in [*shown, *shown]:
        arrival = Arrival(at_ns, f"{name}{at_ns}")
        present += [] if arrival in present else [arrival]
        found, after = look(present, after, limit)
        names += found
    assert sorted(names) == sorted(each.name for each in present)
