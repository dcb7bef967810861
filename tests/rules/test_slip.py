"""Slips, codes and presses, as values (G9, G11)."""

from __future__ import annotations

import pytest

from duly.rules import slip
from duly.rules.slip import AskedStanding, PressCode, SlipChoice, SlipEnd
from duly.rules.word import MutationStatus

CODE = slip.write_code(bytes(range(16)))
WAITS = AskedStanding("h", MutationStatus.PROPOSED, True, None, None)


def test_a_button_sends_at_most_64_bytes_and_is_read_back() -> None:
    """G11: Telegram takes no more."""
    for choice in SlipChoice:
        data = slip.write_press(choice, CODE)
        assert len(data.encode()) <= 64
        assert slip.read_press(data) == (choice, CODE)


@pytest.mark.parametrize(
    "data", [None, 7, "", "y", "y.", f"Y.{CODE}", f"y.{CODE}x", f" y.{CODE}", "y." + "é" * 22, {}]
)
def test_what_no_button_of_ours_sends_is_not_read(data: object) -> None:
    """G11: nothing is guessed."""
    assert slip.read_press(data) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("abcdefghij234567", "abcdefghij234567"),
        (" /start ABCDEFGHIJ234567\n", "abcdefghij234567"),
        ("/start@my_bot abcdefghij234567", "abcdefghij234567"),
        ("abcdefghij23456", ""),
        ("abcdefghij2345671", ""),
        ("/stop abcdefghij234567", ""),
        ("hello", ""),
        ("", ""),
        ("é" * 16, ""),
    ],
)
def test_a_code_is_read_as_a_person_sends_it(text: str, code: str) -> None:
    """G11: alone or behind /start, in any case."""
    assert slip.read_pairing(text) == code
    assert len(slip.write_pairing(bytes(slip.PAIR_BYTES))) == 16


@pytest.mark.parametrize(
    ("standing", "now", "end", "code"),
    [
        (WAITS, 0, None, None),
        (WAITS, slip.SLIP_MS - 1, None, None),
        (WAITS, slip.SLIP_MS, SlipEnd.OLD, PressCode.OLD),
        (WAITS, -1, SlipEnd.OLD, PressCode.OLD),
        (
            AskedStanding("i", MutationStatus.PROPOSED, True, None, None),
            0,
            SlipEnd.CHANGED,
            PressCode.CHANGED,
        ),
        (
            AskedStanding("i", MutationStatus.IN_FLIGHT, False, "bob", None),
            0,
            SlipEnd.APPROVED,
            PressCode.DECIDED,
        ),
        (
            AskedStanding("h", MutationStatus.REJECTED, False, None, "bob"),
            0,
            SlipEnd.REJECTED,
            PressCode.DECIDED,
        ),
        (
            AskedStanding("h", MutationStatus.PROPOSED, False, None, None),
            0,
            SlipEnd.OVER,
            PressCode.DECIDED,
        ),
    ],
)
def test_a_press_counts_while_its_call_waits_as_it_was_shown(
    standing: AskedStanding, now: int, end: SlipEnd | None, code: PressCode | None
) -> None:
    """G11: each other case has an answer of its own."""
    found = slip.find_end("h", 0, standing, now)
    assert (found, slip.judge(found)) == (end, code)


def test_every_end_of_a_slip_answers_a_press() -> None:
    """G11: the table is whole."""
    assert set(slip.PRESSED) == set(SlipEnd)


def test_an_actor_names_the_account_and_not_only_its_name() -> None:
    """A6: a name may be given again, a number is not."""
    assert slip.actor_of("telegram", "Ada", "7") == "telegram:Ada (7)"
    assert slip.actor_of("mail", "a@b.example", "a@b.example") == "mail:a@b.example"


def test_a_text_is_counted_in_units_of_utf_16() -> None:
    """G9: one character of an emoji is two."""
    assert [slip.units_of(each) for each in ("", "a", "é", "😀")] == [0, 1, 1, 2]
