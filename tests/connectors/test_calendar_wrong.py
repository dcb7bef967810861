"""Calendars that are wrong about one thing: each fails the exam for the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Call, NotApplied, Verdict
from duly.connectors.calendar import Calendar
from duly.errors import Refused, UnknownOutcome
from duly.testing import ExamFailed
from tests.connectors.calendar_server import CalendarServer
from tests.connectors.test_calendar import Inline, examined


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalendarServer]:
    with CalendarServer(tmp_path_factory.mktemp("calendars")) as made:
        yield made


class Forgetful(Inline):
    """Makes an event under another id each time."""

    async def create(self, call: Call, **args: Any) -> Any:  # type: ignore[override]
        return await Calendar.create.function(
            self, replace(call, key=f"{call.key}{call.attempt}"), **args
        )


class Blind(Inline):
    """Says of everything that it did not happen."""

    async def create_happened(self, call: Call) -> Verdict:
        return NotApplied()


class Sure(Inline):
    """Takes every error for a no."""

    async def create(self, call: Call, **args: Any) -> Any:  # type: ignore[override]
        try:
            return await Calendar.create.function(self, call, **args)
        except UnknownOutcome as error:
            raise Refused(str(error)) from error


BROKEN: dict[Any, str] = {
    Forgetful: "there were 2 changes|reconcile said NotApplied, and it was done",
    Blind: "reconcile said NotApplied, and it was done",
    Sure: "it said refused",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_calendar_that_is_wrong_fails_the_exam(
    kind: Any, server: CalendarServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: each for its own reason."""
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    with pytest.raises(ExamFailed, match=BROKEN[kind]):
        examined(server, tmp_path, kind)
