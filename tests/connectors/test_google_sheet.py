"""Cells of a sheet after a lost answer: neither written over nor forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.errors import UnknownOutcome
from duly.testing.doubles.base import Mishap, PlannedMishap
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
    wanted = Applied({"key": "k1"}) if is_done else NotApplied()
    assert run(sheet.update_happened(call)) == wanted
    google.account(token)["books"][BOOK]["Bills"][1][1] = 8
    assert isinstance(run(sheet.update_happened(call)), Unsure)
    unsent = replace(call, handle=None)
    assert run(sheet.update_happened(unsent)) == NotApplied()
