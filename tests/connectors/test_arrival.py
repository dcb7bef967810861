"""A cursor over what arrives in a folder: it says what was given, so nothing is ever missed."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest

from duly.connectors import arrival as module
from duly.connectors.arrival import (
    GIVEN_MAX,
    NAMED_MAX,
    PAGE_MAX,
    STRETCHES_MAX,
    TEXT_CHARS_MAX,
    Arrival,
    Cursor,
)
from duly.errors import Refused

HOUR_NS = 3600 * 1_000_000_000
MANY = 3000


def look(
    present: list[Arrival], after: str | None, limit: int = PAGE_MAX
) -> tuple[list[Arrival], str]:
    sight = Cursor.read(after).compare(present)
    given = sight.unseen[:limit]
    return given, sight.move(given).write()


def walk(present: list[Arrival], after: str | None, limit: int = 1000) -> tuple[int, str]:
    """Look until nothing is left; answer how many were given."""
    count = 0
    while True:
        found, after = look(present, after, limit)
        if not found:
            return count, after
        count += len(found)


def hourly(count: int) -> list[Arrival]:
    return [Arrival(number * HOUR_NS, f"{number:06}", number) for number in range(1, count + 1)]


def test_many_files_of_one_moment_are_all_given_once_by_name() -> None:
    """K11: equal times, over several pages."""
    present = [Arrival(5, f"{number:04}") for number in range(450)]
    after: str | None = None
    found: list[Arrival] = []
    for _ in range(6):
        page, after = look(present, after)
        found += page
    assert found == present


def test_a_file_that_came_while_the_clock_was_ahead_hides_nothing() -> None:
    """K11: nor does a clock that is set back, by whatever."""
    ahead = Arrival(1000 * HOUR_NS, "ahead")
    _, after = look([ahead], None)
    present = [ahead]
    for at_ns in (999 * HOUR_NS, 2 * HOUR_NS, HOUR_NS, 0, -HOUR_NS):
        late = Arrival(at_ns, "late")
        present.append(late)
        found, after = look(present, after)
        assert found == [late]


@pytest.mark.parametrize(
    "other", [Arrival(6, "a", 1), Arrival(4, "a", 1), Arrival(5, "a", 2), Arrival(5, "b", 1)]
)
def test_a_name_that_is_used_again_is_another_file(other: Arrival) -> None:
    """K11: and so is one that changed."""
    _, after = look([Arrival(5, "a", 1)], None)
    assert look([other], after)[0] == [other]


def test_a_file_that_was_passed_over_is_not_left_behind() -> None:
    """K11: it could not be opened, say, while those after it could."""
    present = [Arrival(1, "skipped"), Arrival(HOUR_NS, "given")]
    after = Cursor().compare(present).move(present[1:]).write()
    assert look(present, after)[0] == present[:1]


def test_a_folder_that_seems_empty_teaches_nothing() -> None:
    """K11: its disk is not mounted; when it is, not all of it is given again."""
    present = hourly(GIVEN_MAX + 10)
    _, after = walk(present, None)
    assert look([], after) == ([], after)
    assert look(present, after) == ([], after)


# -- More than can be remembered one by one -------------------------------------------------------


def test_a_cursor_stays_small_and_knows_a_large_folder() -> None:
    """N: two of them fit into a state of 64 KiB, whatever lies in the folders."""
    count, after = walk(hourly(MANY), None)
    assert count == MANY
    full = Cursor(
        frozenset(number.to_bytes(8) for number in range(GIVEN_MAX)),
        tuple(module.Stretch(-(2**60), 2**62, b"\xff" * 8) for _ in range(STRETCHES_MAX)),
        2**62,
    )
    assert len(after) < len(json.dumps(full.write())) < 30_000
    assert look(hourly(MANY), after) == ([], after)


@pytest.mark.parametrize("at", [1, MANY - GIVEN_MAX - 1, MANY - 5])
def test_a_late_file_among_very_many_is_given(at: int) -> None:
    """K11: with those beside it that were given before, at worst."""
    present = hourly(MANY)
    _, after = walk(present, None)
    late = Arrival(at * HOUR_NS + 1, "late")
    found, after = look([*present, late], after)
    assert late in found
    more, after = walk([*present, late], after)
    assert len(found) + more <= 2 * module.STRETCH_FILES_MIN + 1
    assert look([*present, late], after)[0] == []


def test_a_file_that_is_taken_away_repeats_only_what_stood_beside_it() -> None:
    """K11: such a repetition comes after what is new."""
    present = hourly(MANY)
    _, after = walk(present, None)
    left = [each for at, each in enumerate(present) if at not in (7, 1000)]
    new = Arrival((MANY + 1) * HOUR_NS, "new")
    found, after = look([*left, new], after)
    assert found[0] == new
    more, after = walk([*left, new], after)
    assert len(found) + more <= 2 * module.STRETCH_FILES_MIN
    assert look([*left, new], after)[0] == []


def test_very_many_files_of_one_moment_are_remembered_by_name() -> None:
    """K11: a moment that is given in part is cut between two names."""
    present = [Arrival(5, f"{number:05}", number) for number in range(MANY)]
    count, after = walk(present, None)
    assert (count, len(after) < 30_000) == (MANY, True)
    late = Arrival(5, "00007b", MANY)
    found, after = look([*present, late], after, MANY)
    assert late in found
    assert look([*present, late], after)[0] == []


def test_a_walk_ends_also_where_what_was_given_is_scattered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K11: more pieces than a cursor holds, each larger than a page: no page is given for ever."""
    for name, value in (("GIVEN_MAX", 2), ("STRETCH_FILES_MIN", 1), ("STRETCHES_MAX", 10)):
        monkeypatch.setattr(module, name, value)
    present = hourly(110)
    sight = Cursor().compare(present)
    after: str | None = sight.move(each for at, each in enumerate(present) if at // 5 % 2).write()
    for _ in present:
        _, after = look(present, after, 1)
    assert look(present, after, 1)[0] == []


def test_what_is_too_scattered_to_be_remembered_is_given_again() -> None:
    """K11: never lost, and the cursor stays within its limit all the same."""
    present = [Arrival(5, f"{number:05}", number) for number in range(4 * GIVEN_MAX)]
    given = present[::2]
    sight = Cursor().compare(present)
    cursor = sight.move(given)
    assert len(cursor.stretches) == NAMED_MAX
    unseen = set(Cursor.read(cursor.write()).compare(present).unseen)
    assert unseen >= set(present) - set(given)
    count, _ = walk(present, cursor.write())
    assert count == len(unseen)
    apart = [Arrival(number, f"{number:05}", number) for number in range(4 * GIVEN_MAX)]
    cursor = Cursor().compare(apart).move(apart[::2])
    assert len(cursor.stretches) == STRETCHES_MAX
    assert set(cursor.compare(apart).unseen) >= set(apart) - set(apart[::2])


# -- What scripts pass ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "[1]", "{}", '[1,"a",2,3]', '["x","a",2,[]]', "null", '"a"'),
        *('[1e999,"a",2,[]]', '[1,"a",1e999,[]]', '[NaN,"a",2,[]]', "[" * 100_000),
        '{"top_ns":1e999,"given":"","stretches":""}',
        '{"top_ns":0,"given":"AAAA","stretches":""}',
        '{"top_ns":0,"given":"","stretches":"AAAA"}',
        '{"top_ns":0,"given":"?","stretches":""}',
        '{"top_ns":0,"given":7,"stretches":""}',
        '{"top_ns":0,"given":"","stretches":"","names":7}',
        '{"top_ns":0,"given":"","stretches":"","names":{"x":["a","b"]}}',
        '{"top_ns":0,"given":"","stretches":"","names":{"0":["a"]}}',
        '{"top_ns":0,"given":"' + "A" * TEXT_CHARS_MAX + '","stretches":""}',
    ],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    """F1: the script passed something else; whatever it is, it is the script's fault."""
    with pytest.raises(Refused, match="no cursor of this search"):
        Cursor.read(text)


def test_a_cursor_of_the_first_version_is_still_read() -> None:
    """K11: what it says was given is not given again under another id."""
    digest = urlsafe_b64encode(sha256(b"7:c").digest()[:8]).decode().rstrip("=")
    old = json.dumps([5, "b", 9, [digest]])
    given = [Arrival(4, "x", 1), Arrival(5, "a", 2), Arrival(5, "b", 3), Arrival(7, "c", 4)]
    new = [Arrival(5, "c", 5), Arrival(8, "c", 6)]
    found, after = look([*given, *new], old)
    assert found == new
    assert look([*given, *new], after) == ([], after)
    assert look([], old) == ([], old)
    late = Arrival(1, "late", 7)
    assert look([*given, *new, late], after)[0] == [late]
