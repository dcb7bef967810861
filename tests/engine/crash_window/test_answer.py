"""The one question Duly cannot answer itself, put to a person: each answer, and what it does."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.crash_window.book import LAG_S
from tests.engine.crash_window.process import BOOK, Flow
from tests.engine.crash_window.script import INBOX, WRITTEN
from tests.engine.crash_window.stand import HOUR, NAME, Death, Nursery, Window

BEFORE, AFTER = "effect:before", "effect:after"
Asking = dict[tuple[str, str], Window]


@pytest.fixture(scope="module")
def asking(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """Stores in which a question stands, by tool and by the place their host died at."""
    made: Asking = {}
    for tool, place in ((t, p) for t in ("silent", "unsure") for p in (BEFORE, AFTER)):
        window = Window(nursery, tmp_path_factory.mktemp("asking"))
        window.die(Death(place), Flow(NAME, tool, mails=("m1", "m2")))
        seen = window.live()
        assert [each["status"] for each in seen.mutations] == ["indeterminate"]
        assert window.rows == ([] if place == BEFORE else ["m1"])
        made[tool, place] = window
    return made


def say(answer: str, *result: Any, verb: str = "settle") -> tuple[Any, ...]:
    return (verb, NAME, answer, *result)


def test_happened_goes_on_with_the_given_result(asking: Asking, tmp_path: Path) -> None:
    """L10: applied with what the person says it gave; nothing is sent."""
    window = asking["silent", AFTER].copy(tmp_path)
    seen = window.live(say("happened", {"line": 1}), HOUR)
    window.check_whole("m1", "m2")
    assert seen.mutations[0]["result"] == {"line": 1}


def test_skip_never_sends_and_skips_the_event(asking: Asking, tmp_path: Path) -> None:
    """L10, C10: `next` is told skipped, the event ends skipped, and the next mail has its turn."""
    window = asking["silent", AFTER].copy(tmp_path)
    seen = window.live(say("skip"), HOUR)
    assert window.rows == ["m1", "m2"]
    inbox, written = seen.events[NAME][INBOX], seen.events[NAME][WRITTEN]
    assert [inbox[mail]["status"] for mail in ("m1", "m2")] == ["skipped", "consumed"]
    assert written["row:m1"]["payload"] == {"status": "skipped"}
    assert [each["status"] for each in seen.mutations] == ["skipped", "applied"]
    window.check_nothing_left()


def test_did_not_happen_is_refused_until_the_time_it_names(asking: Asking, tmp_path: Path) -> None:
    """L6, L10: a late request may still land; from the named moment on the answer is taken."""
    window = asking["silent", BEFORE].copy(tmp_path)
    seen = window.live(say("did_not_happen", verb="settle_when_told"), HOUR)
    (refusal,) = seen.refusals
    named = datetime.fromisoformat(refusal.rpartition(" from ")[2].removesuffix(" on."))
    waits = named - datetime.fromisoformat(seen.refused_at[0])
    assert timedelta(0) <= waits - timedelta(seconds=LAG_S) < timedelta(seconds=1)
    window.check_whole("m1", "m2")
    assert [each["status"] for each in window.ledger("m1")] == ["failed", "applied"]


def test_did_not_happen_counts_from_the_restart_not_from_the_send(
    asking: Asking, tmp_path: Path
) -> None:
    """L6: a host that did not see the send end waits the whole lag again, a day after it."""
    window = asking["silent", BEFORE].copy(tmp_path)
    early, late = ("pass", LAG_S - 1), ("pass", 1)
    answer = say("did_not_happen")
    assert len(window.live(early, answer).refusals) == 1
    assert len(window.live(early, answer, late, answer, HOUR).refusals) == 1
    window.check_whole("m1", "m2")


@pytest.mark.parametrize("place", [BEFORE, AFTER])
def test_try_again_asks_once_more_and_ends_with_one_effect(
    asking: Asking, tmp_path: Path, place: str
) -> None:
    """L10, L5: the outside knows by now; what it says is believed, either way."""
    window = asking["unsure", place].copy(tmp_path)
    (window.folder / BOOK).with_suffix(".known").touch()
    window.live(say("try_again"), HOUR)
    window.check_whole("m1", "m2")


def test_try_again_without_a_better_answer_asks_the_person_again(
    asking: Asking, tmp_path: Path
) -> None:
    """L10, L5: the attempts begin anew, and end anew."""
    window = asking["unsure", AFTER].copy(tmp_path)
    seen = window.live(say("try_again"), HOUR, say("happened"), HOUR)
    assert seen.refusals == []
    window.check_whole("m1", "m2")


def test_try_again_is_refused_where_nothing_can_be_tried(asking: Asking, tmp_path: Path) -> None:
    """L10: neither asked nor sent again; the question stands."""
    window = asking["silent", AFTER].copy(tmp_path)
    seen = window.live(say("try_again"), HOUR)
    assert "the call cannot be sent again safely" in seen.refusals[0]
    assert [each["status"] for each in seen.mutations] == ["indeterminate"]
    assert window.rows == ["m1"]


@pytest.mark.parametrize("answer", ["happened", "skip"])
def test_an_answer_outlives_the_host_that_took_it(
    asking: Asking, tmp_path: Path, answer: str
) -> None:
    """L10, R7: it was stored; the next host goes on from it and asks no one again."""
    window = asking["silent", AFTER].copy(tmp_path)
    window.die(Death("settle:after", is_virtual=True), acts=(say(answer), HOUR))
    window.live()
    assert window.rows == ["m1", "m2"]
    window.check_nothing_left()


def test_an_answer_that_was_not_stored_was_not_given(asking: Asking, tmp_path: Path) -> None:
    """L10: the host died in the transaction; the question stands, and can be answered."""
    window = asking["silent", AFTER].copy(tmp_path)
    window.die(Death("settle:inside", is_virtual=True), acts=(say("skip"), HOUR))
    seen = window.live()
    assert [each["status"] for each in seen.mutations] == ["indeterminate"]
    window.live(say("happened"), HOUR)
    window.check_whole("m1", "m2")
