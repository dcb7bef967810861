"""Cells of a sheet after a lost answer: neither written over nor forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.response import HttpResponse
from duly.connectors.transport import HttpRequest, Transport
from duly.errors import Transient, UnknownOutcome
from duly.testing.doubles.base import HOST, Mishap, PlannedMishap
from tests.connectors.google_stand import BOOK, TOKENS, StockedGoogle, make, secrets_of
from tests.connectors.test_google import call_of, run


@pytest.fixture
def google() -> Iterator[StockedGoogle]:
    with StockedGoogle() as found:
        found.give_tokens(TOKENS)
        yield found


@pytest.mark.parametrize("is_done", [True, False])
def test_cells_that_a_person_changed_since_are_not_written_over(
    google: StockedGoogle, is_done: bool
) -> None:
    """L5, L14: what stands there is neither what was written nor what stood there before."""
    token = f"{TOKENS}-sheet"
    sheet = make("sheets", google, secrets_of(token))
    google.plan(PlannedMishap(Mishap.LOST if is_done else Mishap.CUT, "batchUpdate$"))
    change: dict[str, Any] = {"key": "k1", "row": {"total": 7}}
    call = replace(call_of("sheets.update"), args=change)
    with pytest.raises(UnknownOutcome):
        run(sheet.update(call, **change))
    there = google.account(token)["books"][BOOK]["Bills"]
    if is_done:
        assert run(sheet.update_happened(call)) == Applied({"key": "k1"})
        there[1][1] = 1  # a person sets back what stood there before
    # Whether it was set back or never written cannot be told: it is not written once more.
    assert isinstance(run(sheet.update_happened(call)), Unsure)
    there[1][1] = 8
    assert isinstance(run(sheet.update_happened(call)), Unsure)
    unsent = replace(call, handle=None)
    assert run(sheet.update_happened(unsent)) == NotApplied()


class Moving(Transport):
    """Lets a person do something in the sheet before a request whose path fits."""

    def __init__(self, path: str, work: Callable[[], None]) -> None:
        super().__init__(allow=[HOST])
        self._path, self._work = path, work

    async def read(self, request: HttpRequest, **more: Any) -> HttpResponse:
        if self._path in request.url.path:
            self._path = "\0"
            self._work()
        return await super().read(request, **more)


def insert_column(rows: list[list[Any]]) -> None:
    for at, each in enumerate(rows):
        each.insert(0, "" if at else "new")


def insert_row(rows: list[list[Any]]) -> None:
    rows += [[""] for _ in range(1000 - len(rows))]
    rows[-1], rows[3] = rows[3], [""]
    rows.insert(1, ["new"])


@pytest.mark.parametrize("work", [insert_column, insert_row])
def test_a_row_is_not_denied_while_a_person_moves_it(
    google: StockedGoogle, work: Callable[[list[list[Any]]], None]
) -> None:
    """L5: the columns are read, a person inserts one or a row, and then the keys are read."""
    token = f"{TOKENS}-{work.__name__}"
    sheet = make("sheets", google, secrets_of(token))
    call = call_of("sheets.append")
    run(sheet.append(call, row={"customer": "Ann"}))
    rows = google.account(token)["books"][BOOK]["Bills"]
    sheet.transport = Moving("D1%3AD", lambda: work(rows))
    with suppress(Transient):
        assert not isinstance(run(sheet.append_happened(call)), NotApplied)


def test_a_mark_that_may_stand_in_another_column_is_not_denied(google: StockedGoogle) -> None:
    """L5: a person inserts a column between the look at the columns and the write of the row."""
    token = f"{TOKENS}-inserted"
    sheet = make("sheets", google, secrets_of(token))
    call = call_of("sheets.append")
    assert run(sheet.append_happened(call)) == NotApplied()
    rows = google.account(token)["books"][BOOK]["Bills"]
    run(sheet.append(call, row={"customer": "Ann"}))
    insert_column(rows)
    rows[-1].pop(0)  # as if it had been written after the column came
    assert isinstance(run(sheet.append_happened(call)), Unsure)
    assert run(sheet.append_happened(call_of("sheets.append", "k-2"))) == NotApplied()


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"range": "'Bills'!D1:D1000"},
        {"range": "'Bills'!C1:C1000", "values": [["duly_key"]]},
        {"range": "'Bills'!D1:D1000", "values": [["duly_key"], "k1"]},
        {"range": "'Bills'!D1:D1000", "values": {}},
    ],
)
def test_an_answer_that_is_not_of_the_keys_denies_nothing(
    google: StockedGoogle, answer: Any
) -> None:
    """L5: its range and its heading are compared with what was asked for."""
    sheet = make("sheets", google, secrets_of(f"{TOKENS}-odd"))
    call = call_of("sheets.append")
    run(sheet.append(call, row={"customer": "Ann"}))
    google.plan(PlannedMishap(Mishap.STATUS, "GET .*D1", 200, answer))
    with suppress(Transient):
        assert not isinstance(run(sheet.append_happened(call)), NotApplied)
    google.mishaps.clear()
    assert isinstance(run(sheet.append_happened(call)), Applied)
