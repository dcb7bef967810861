"""A user of the server that owns its database, and has no other right (H1)."""

from __future__ import annotations

import pytest

from tests.postgres.server import address
from tests.postgres.stand import KEY, Outside, deploy, opened, until
from tests.postgres.test_gone import ask
from tests.postgres.world import Place

RIGHTS = "nosuperuser nocreatedb nocreaterole noreplication nobypassrls"


async def test_two_hosts_work_as_a_user_that_only_owns_its_database(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1, H2: tables, leases, the bell, a host that leaves: none of it needs a special right."""
    monkeypatch.setenv("DULY_KEY", KEY)
    outside = Outside()
    place._admin.execute(f"create role plain login {RIGHTS}")
    place._admin.execute("create database of_plain owner plain template template0")
    url = address(place.folder, "of_plain").replace("//postgres@", "//plain@")
    try:
        async with opened(url, outside) as one, opened(url, outside) as two, one.running():
            await deploy(one)
            await two.publish("notes", "note", title="a", message_id="a")
            await until(lambda: outside.posts == ["a"], "the note")
        assert ask(url, "select current_user, rolsuper from pg_roles where rolname = user") == [
            ("plain", False)
        ]
        assert len(ask(url, "select 1 from upkeep where name like 'left %'")) == 2
    finally:
        place._admin.execute("drop database of_plain with (force)")
        place._admin.execute("drop role plain")
