"""The workflows of daily life on a server: what the services have afterwards is as with a file.

A commit plays a few, each in one language; TEST_EVERY_CASE=1, as the proof, plays all in both.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from duly.api.example import BOTH, DAILY, Language, play_example
from tests.breaks import number_of_commit
from tests.faces.daily_made import expect_made
from tests.postgres.server import address
from tests.postgres.stand import KEY
from tests.postgres.world import Place

ALL: Final = [(name, language) for language in BOTH for name in DAILY]
EVERY: Final = 1 if os.environ.get("TEST_EVERY_CASE") else 9


@pytest.mark.parametrize(("name", "language"), ALL[number_of_commit() % EVERY :: EVERY])
async def test_an_example_does_on_a_server_what_it_does_on_a_file(
    name: str, language: Language, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, W5, U2: it passes the strict check; each change is made once, and is in the ledger."""
    monkeypatch.setenv("DULY_KEY", KEY)
    database = place.make()
    url = address(place.folder, database)
    expect_made(name, await play_example(DAILY[name], language, url))
    rows = place.look(database).execute("select count(*) from mutation where status = 'applied'")
    assert rows.fetchone() != (0,)  # it was this server that was worked on
    place.give_back(database)
