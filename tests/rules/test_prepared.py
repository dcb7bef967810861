"""Prepared: the shape of prepare's answer, the judgement on reservations, what later steps get."""

from __future__ import annotations

from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from duly.config import Limits
from duly.errors import Invalid
from duly.rules.access import Step
from duly.rules.event import EventStatus
from duly.rules.prepared import (
    Judgement,
    Prepared,
    Reservation,
    judge_all,
    judge_reservation,
    mutation_result,
    parse_prepared,
    script_text,
    seed,
    step_clock,
)
from duly.rules.value import Json, decode
from duly.rules.word import Outcome

TOPICS = ("mail", "row")


def prepare(**fields: Any) -> Prepared:
    return parse_prepared({"reservations": [], **fields}, TOPICS)


# -- The answer (C4) ----------------------------------------------------------------------------


def test_a_full_answer_is_read_as_it_is() -> None:
    """C4: reservations, data, ui and wake_at, and other keys of ui are kept."""
    read = prepare(
        reservations=[{"topic": "mail", "ids": ["b", "a"]}],
        data={"n": 1.0},
        ui={"title": "Add row for alice", "color": "red"},
        wake_at="2030-01-01T00:00:00Z",
    )
    assert read == Prepared(
        (Reservation("mail", ("b", "a")),),
        '{"n":1.0}',
        "Add row for alice",
        '{"title":"Add row for alice","color":"red"}',
        "2030-01-01T00:00:00Z",
    )


def test_missing_data_is_an_empty_object_and_null_is_null() -> None:
    """C4: only what is missing has a default."""
    assert prepare() == Prepared()
    assert prepare(data=None).data_text == "null"
    assert prepare(data=False).data_text == "false"


@pytest.mark.parametrize("reservations", [[], [{"topic": "mail", "ids": []}]])
def test_reservations_without_ids_are_empty(reservations: list[object]) -> None:
    """C4, C7: nothing reserved is nothing reserved, however it is written."""
    assert prepare(reservations=reservations).is_empty
    assert not prepare(reservations=[{"topic": "mail", "ids": [1]}]).is_empty


def test_an_id_counts_once_however_often_it_is_named() -> None:
    """C4: duplicate ids count once, over all reservations of a topic."""
    read = prepare(
        reservations=[
            {"topic": "mail", "ids": ["a", "a", 1]},
            {"topic": "row", "ids": ["a"]},
            {"topic": "mail", "ids": ["1", "b"]},
        ]
    )
    assert read.reservations == (Reservation("mail", ("a", "1", "b")), Reservation("row", ("a",)))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"wakeup": 1}, "prepare.wakeup"),
        ({"wakeAt": 1}, "prepare.wakeAt"),
        ({"reservations": None}, "prepare.reservations"),
        ({"reservations": {}}, "prepare.reservations"),
        ({"reservations": ["mail"]}, "prepare.reservations[0]"),
        ({"reservations": [{"topic": "mail"}]}, "prepare.reservations[0].ids"),
        ({"reservations": [{"ids": []}]}, "prepare.reservations[0].topic"),
        ({"reservations": [{"topic": 1, "ids": []}]}, "prepare.reservations[0].topic"),
        ({"reservations": [{"topic": "other", "ids": []}]}, "prepare.reservations[0].topic"),
        ({"reservations": [{"topic": "mail", "ids": "a"}]}, "prepare.reservations[0].ids"),
        ({"reservations": [{"topic": "mail", "ids": [""]}]}, "prepare.reservations[0].ids[0]"),
        (
            {"reservations": [{"topic": "mail", "ids": ["a", None]}]},
            "prepare.reservations[0].ids[1]",
        ),
        ({"reservations": [{"topic": "mail", "ids": [], "x": 1}]}, "prepare.reservations[0].x"),
        ({"data": {"a": float("inf")}}, "prepare.data.a"),
        ({"ui": None}, "prepare.ui"),
        ({"ui": "Add row"}, "prepare.ui"),
        ({"ui": {}}, "prepare.ui.title"),
        ({"ui": {"title": " "}}, "prepare.ui.title"),
        ({"ui": {"title": 5}}, "prepare.ui.title"),
        ({"ui": {"title": "x" * 501}}, "prepare.ui.title"),
        ({"ui": {"title": "x", "more": float("nan")}}, "prepare.ui.more"),
    ],
)
def test_a_shape_error_names_its_field(fields: dict[str, Any], path: str) -> None:
    """C4: an unknown key or a wrong shape is a logic failure naming the field."""
    with pytest.raises(Invalid) as refused:
        prepare(**fields)
    assert refused.value.path == path
    assert path in str(refused.value)


@pytest.mark.parametrize("raw", [None, [], "x", 5])
def test_an_answer_that_is_no_object_is_refused(raw: object) -> None:
    """C4: prepare returns an object, and its reservations are not optional."""
    with pytest.raises(Invalid, match="prepare must be an object"):
        parse_prepared(raw, TOPICS)
    with pytest.raises(Invalid, match=r"prepare\.reservations is missing"):
        parse_prepared({"data": {}}, TOPICS)


def test_an_id_of_500_characters_is_the_longest() -> None:
    """N: message ids have at most 500 characters."""
    read = prepare(reservations=[{"topic": "mail", "ids": ["x" * 500]}])
    assert read.reservations[0].message_ids == ("x" * 500,)
    with pytest.raises(Invalid, match=r"ids\[0\]"):
        prepare(reservations=[{"topic": "mail", "ids": ["x" * 501]}])


def test_data_at_the_limit_is_kept_and_one_past_is_refused() -> None:
    """N: data has at most 1 MiB, by the limits given."""
    limits = Limits(data_bytes=10)
    raw: dict[str, Json] = {"reservations": [], "data": "x" * 8}
    assert len(parse_prepared(raw, TOPICS, limits).data_text) == 10
    with pytest.raises(Invalid, match=r"prepare\.data is longer than 10 bytes"):
        parse_prepared({**raw, "data": "x" * 9}, TOPICS, limits)
    assert prepare(data="x" * (1024 * 1024 - 2)).data_text
    with pytest.raises(Invalid, match=r"prepare\.data is longer than 1048576 bytes"):
        prepare(data="x" * (1024 * 1024 - 1))


def test_a_prepare_reserves_at_most_ten_thousand() -> None:
    """T7, N: however they are spread over topics; the same id twice counts once (C4)."""
    first, second = sorted(TOPICS)[:2]
    half = [f"m{number}" for number in range(5000)]
    both = [{"topic": first, "ids": half * 2}, {"topic": second, "ids": [*half, *half]}]
    found = prepare(reservations=both).reservations
    assert sum(len(each.message_ids) for each in found) == 10_000
    with pytest.raises(Invalid, match="at most 10000 events"):
        prepare(reservations=[*both, {"topic": first, "ids": ["m0", 1, 1]}])


@pytest.mark.parametrize("wake_at", [None, 5, "soon", {"a": 1}])
def test_a_wrong_wake_at_is_never_a_failure(wake_at: object) -> None:
    """S6: whatever it is, it is handed on."""
    assert prepare(wake_at=wake_at).wake_at_raw == wake_at


# -- Reservations (C5) --------------------------------------------------------------------------


def expected(found: EventStatus | None, content: int, offered: int | None) -> Judgement:
    """Read C5 aloud: pending as offered is fine, changed since asks again, the rest is wrong."""
    was_offered = offered is not None
    if found is EventStatus.PENDING:
        return Judgement.AGAIN if was_offered and offered != content else Judgement.RESERVE
    if found is EventStatus.SKIPPED and was_offered:
        return Judgement.AGAIN
    return Judgement.REFUSE


@pytest.mark.parametrize(
    ("found", "content", "offered"), list(product([None, *EventStatus], [1, 2], [None, 1, 2]))
)
def test_a_reservation_is_judged_by_what_is_stored_and_what_was_offered(
    found: EventStatus | None, content: int, offered: int | None
) -> None:
    """C5: every status, with the content as offered, replaced since, or never offered."""
    assert judge_reservation(found, content, offered) is expected(found, content, offered)


def test_an_unknown_id_is_refused() -> None:
    """C5: unknown and foreign ids are a logic failure."""
    assert judge_reservation(None, None, None) is Judgement.REFUSE


def test_reservations_are_all_or_nothing() -> None:
    """C5: one wrong id refuses all, one changed event asks again for all."""
    reserve, again, refuse = Judgement
    assert judge_all([]) is reserve
    assert judge_all([reserve, reserve]) is reserve
    assert judge_all([reserve, again, reserve]) is again
    assert judge_all([again, refuse, reserve]) is refuse


# -- The later steps (C6, C10, C13) -------------------------------------------------------------


def test_later_steps_see_the_stored_answer() -> None:
    """C6: mutate and next get what was stored, and no more."""
    read = prepare(
        reservations=[{"topic": "mail", "ids": ["a", "a"]}],
        data={"n": 1},
        ui={"title": "Add"},
        wake_at="soon",
    )
    assert decode(script_text(read)) == {
        "reservations": [{"topic": "mail", "ids": ["a"]}],
        "data": {"n": 1},
        "ui": {"title": "Add"},
    }
    assert decode(script_text(prepare())) == {"reservations": [], "data": {}}


def test_next_is_told_exactly_what_became_of_the_mutation() -> None:
    """C10, L9: applied has a result, null if there was none; the others have no such key."""
    assert mutation_result(Outcome.APPLIED, {"row": 1}) == {
        "status": "applied",
        "result": {"row": 1},
    }
    assert mutation_result(Outcome.APPLIED) == {"status": "applied", "result": None}
    assert mutation_result(Outcome.NONE) == {"status": "none"}
    assert mutation_result(Outcome.SKIPPED, {"row": 1}) == {"status": "skipped"}


def test_time_stands_still_after_prepare() -> None:
    """C13: mutate and next see the moment the prepare result was stored, at every attempt."""
    for step in (Step.MUTATE, Step.NEXT):
        first = step_clock(step, now_ms=50, prepared_at_ms=10, first_run="run_1")
        later = step_clock(step, now_ms=99, prepared_at_ms=10, first_run="run_1")
        assert first == later
        assert (first.now_ms, first.is_frozen) == (10, True)
    for step in (Step.PRODUCE, Step.PREPARE):
        free = step_clock(step, now_ms=50, prepared_at_ms=10, first_run="run_1")
        assert (free.now_ms, free.is_frozen, free.seed) == (50, False, None)


def test_chance_is_seeded_by_the_first_run_and_the_step() -> None:
    """C13: another chain or another step is another seed; the same pair is always the same."""
    seeds = {seed(run, step) for run in ("run_1", "run_2", "run_1m") for step in Step}
    assert len(seeds) == 3 * len(Step)
    assert seed("run_1", Step.MUTATE) == int(sha256(b'["run_1","mutate"]').hexdigest()[:12], 16)
    assert all(0 <= each < 2**48 for each in seeds)
