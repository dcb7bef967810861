"""The exam of questions to models: counted before they leave, ended once (M2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.errors import PermissionDenied, Stale
from duly.rules.model import Purpose, QuestionStatus, day_of
from duly.rules.schedule import DAY_MS
from duly.store.model import (
    DAYS_KEPT,
    QUESTIONS_KEPT,
    AskedQuestion,
    EndedQuestion,
    RecordedAnswer,
)
from tests.store.attic import NOW
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam, nothing

ASKED = AskedQuestion("q1", "w1", "run_1", "run_1", "default", Purpose.LLM, "d1", "what?", 500)
ANSWERED = EndedQuestion(QuestionStatus.ANSWERED, answer="that", tokens=(20, 7))
LOST = EndedQuestion(QuestionStatus.FAILED, fault="unknown_outcome")


def _day(world: World) -> Any:
    return [row[3:] for row in world.dump()["model_day"]]


async def _it_is_counted(world: World, answer: Any) -> None:
    assert _day(world) == [(1, 500, 0, 0)]
    (row,) = world.dump()["model_question"]
    assert row[1] == "w1"
    assert "asked" in row


async def _both_are_counted(world: World, answer: Any) -> None:
    assert _day(world) == [(2, 1000, 0, 0)]


def _ask(asked: AskedQuestion = ASKED, now: int = NOW, **limits: int) -> Any:
    most = {"calls_max": 2, "tokens_max": 1200, **limits}
    return lambda world: world.store.ask_model(
        replace(asked, id=f"q{world.number()}"), now=now, **most
    )


async def _two_calls_were_made(world: World) -> None:
    for _ in range(2):
        await _ask(replace(ASKED, reserved=1))(world)


ASK = Case(
    verb="ask_model",
    arrange=nothing,
    call=_ask(),
    effect=_it_is_counted,
    again=Again.FREE,
    effect_again=_both_are_counted,
    refusals=(
        Refusal("too many calls", PermissionDenied, broken=_two_calls_were_made, match="times"),
        Refusal("too many tokens", PermissionDenied, call=_ask(tokens_max=499), match="499"),
    ),
)


async def _it_was_asked(world: World) -> None:
    await _ask()(world)


def _end(ended: EndedQuestion, question: str = "q1") -> Any:
    return lambda world: world.store.end_question(question, ended, now=NOW + 9)


async def _it_took_that(world: World, answer: Any) -> None:
    assert _day(world) == [(1, 0, 20, 7)]


async def _its_reservation_stays(world: World, answer: Any) -> None:
    assert _day(world) == [(1, 500, 0, 0)]


END = Case(
    verb="end_question",
    arrange=_it_was_asked,
    call=_end(ANSWERED),
    effect=_it_took_that,
    again=Again.STALE,
    refusals=(Refusal("one that was not asked", Stale, call=_end(ANSWERED, "q7")),),
)
LOSE = replace(END, says="without an answer", call=_end(LOST), effect=_its_reservation_stays)


async def _it_was_answered(world: World) -> None:
    await _it_was_asked(world)
    await _end(ANSWERED)(world)


async def _that_is_found(world: World, answer: Any) -> None:
    assert answer == RecordedAnswer("q1", "default", "that", 20, 7)
    assert await world.store.find_answer("run_1", "d2") is None
    assert await world.store.find_answer("run_2", "d1") is None


async def _an_open_one_is_no_answer(world: World) -> None:
    await _ask(replace(ASKED, digest="d3"))(world)
    assert await world.store.find_answer("run_1", "d3") is None


FIND = ReadCase(
    verb="find_answer",
    arrange=_it_was_answered,
    call=lambda world: world.store.find_answer("run_1", "d1"),
    effect=_that_is_found,
    edge=_an_open_one_is_no_answer,
)


async def _it_has_asked(world: World, answer: Any) -> None:
    assert answer is True


async def _another_has_not(world: World) -> None:
    assert await world.store.has_asked_model("run_2") is False


HAS = ReadCase(
    verb="has_asked_model",
    arrange=_it_was_answered,
    call=lambda world: world.store.has_asked_model("run_1"),
    effect=_it_has_asked,
    edge=_another_has_not,
)


@pytest.mark.parametrize("trial", exam(ASK, END, LOSE, FIND, HAS))
async def test_questions_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """M2: each is one transaction, whole or not at all."""
    await trial.sit(tmp_path)


async def test_only_the_newest_questions_and_days_are_kept(tmp_path: Path) -> None:
    """M2, N: what was asked is kept for a while, what was counted for a year."""
    world = await World(tmp_path / "world").open()
    try:
        late = NOW + (DAYS_KEPT + 1) * DAY_MS
        most = {"calls_max": 10**6, "tokens_max": 10**9}
        await world.store.ask_model(replace(ASKED, id="q0000"), now=NOW, **most)
        for number in range(1, QUESTIONS_KEPT + 2):
            asked = replace(ASKED, id=f"q{number:04}")
            await world.store.ask_model(asked, now=late, **most)
        rows = world.dump()
        assert next(row[0] for row in rows["model_question"]) == "q0002"
        assert len(rows["model_question"]) == QUESTIONS_KEPT
        assert [row[2] for row in rows["model_day"]] == [day_of(late)]
    finally:
        await world.close()
