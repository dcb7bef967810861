"""The trials of ready-made connectors, made by a host on real servers."""

from __future__ import annotations

from pathlib import Path

import duly
from tests.connectors.calendar_server import PASSWORD as CALENDAR_PASSWORD
from tests.connectors.calendar_server import CalendarServer
from tests.connectors.post_office import PASSWORD, PostOffice


async def test_an_event_is_proven_by_one_of_its_own(tmp_path: Path) -> None:
    """K10: one event, found under its id; a second trial makes a second one."""
    (tmp_path / "calendars").mkdir()
    with CalendarServer(tmp_path / "calendars") as server:
        calendar = server.connect("trial")
        async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[calendar]) as host:
            await host.set_secret("calendar", "password", CALENDAR_PASSWORD)
            shown = {each.tool: each for each in (await host.connection("calendar")).tools}
            assert not shown["calendar.create"].answering.is_believed
            for number in (1, 2):
                proven = await host.prove("calendar.create")
                assert proven.answering.is_believed, proven
                assert len(server.texts("trial")) == number


async def test_a_draft_is_proven_by_one_to_oneself(one_office: PostOffice, tmp_path: Path) -> None:
    """K10: one draft, found by its key, and nothing is sent."""
    one_office.make_folder("Drafts-trial")
    mail = one_office.account("trial", drafts="Drafts-trial")
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[mail]) as host:
        await host.set_secret("mail", "password", PASSWORD)
        proven = await host.prove("mail.draft")
        assert proven.answering.is_believed, proven
    assert len(one_office.ids("Drafts-trial")) == 1
