"""Late answers are kept as facts, and read back as they were written."""

from __future__ import annotations

from duly.rules.late import LateAnswer, keep_late, read_late
from duly.rules.schedule import moment
from duly.rules.word import Answer
from duly.words import Clock, texts
from duly.words.late import say_all_late

NOON = 1_777_636_800_000
YES = LateAnswer(1, moment(NOON), Answer.APPLIED)
NO = LateAnswer(2, moment(NOON + 1), Answer.REFUSED, "no such sheet")


def test_what_is_kept_is_read_back_as_it_was_written() -> None:
    """L1: several answers, in the order in which they came; none, where none came."""
    assert read_late(keep_late((YES, NO))) == (YES, NO)
    assert read_late(None) == ()


def test_a_sentence_of_an_older_duly_is_shown_as_it_is() -> None:
    """L1, H4: also one that happens to be JSON of another kind."""
    for said in ("Send 1 of a.b returned late: it was done.", "7", '["a"]', "{}"):
        (late,) = read_late(said)
        assert (late.said, late.answer) == (said, None)
    assert say_all_late([late.facts], Clock(NOON)) == "{}"


def test_an_answer_is_the_same_by_its_send_and_its_word() -> None:
    """L1: written again a second later it is still one answer."""
    later = LateAnswer(1, moment(NOON + 1000), Answer.APPLIED)
    assert YES.is_same(later)
    assert not YES.is_same(LateAnswer(2, moment(NOON), Answer.APPLIED))
    assert not YES.is_same(LateAnswer(1, moment(NOON), Answer.UNKNOWN))
    assert not NO.is_same(LateAnswer(2, moment(NOON + 1), Answer.REFUSED, "not now"))


def test_every_answer_has_its_words() -> None:
    """U7: which send, when and what became of it; what the outside said stands beside."""
    clock = Clock(NOON)
    assert texts(YES, clock) == {"text": "Send 1 returned late, on 1 May 12:00 UTC: it was done"}
    said = say_all_late([YES.facts, NO.facts], clock, "sheet.append")
    assert said == (
        "Send 1 of sheet.append returned late, on 1 May 12:00 UTC: it was done; "
        "Send 2 of sheet.append returned late, on 1 May 12:00 UTC: it was refused (no such sheet)"
    )
    for answer in Answer:
        assert texts(LateAnswer(1, moment(NOON), answer), clock)["text"].count("it ") == 1
