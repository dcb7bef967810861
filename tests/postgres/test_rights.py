"""The user of hosts in these tests owns its database, and has no other right (H1)."""

from __future__ import annotations

import psycopg
import pytest

from duly.errors import StoreError
from duly.host import Host
from tests.postgres.server import ROLE, address, superuser
from tests.postgres.stand import KEY, Outside, opened
from tests.postgres.world import Place

MAY = "rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls"


async def test_hosts_come_as_a_user_without_rights(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H1: neither an attribute of its own, nor one of a role that it is in."""
    monkeypatch.setenv("DULY_KEY", KEY)
    name = place.make()
    url = address(place.folder, name)
    async with opened(url, Outside()), opened(url, Outside()):
        with psycopg.connect(url) as own:
            asked = "select distinct usename from pg_stat_activity where application_name = 'duly'"
            assert own.execute(f"{asked} and datname = current_database()".encode()).fetchall() == [
                (ROLE,)
            ]
            rights = f"select {MAY} from pg_roles where rolname = user"
            assert own.execute(rights.encode()).fetchall() == [(False,)]
            roles = "select count(*) from pg_auth_members where member = user::regrole"
            assert own.execute(roles).fetchall() == [(0,)]
    place.give_back(name)


async def test_a_user_that_owns_nothing_is_told_what_it_lacks(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: what the server denies is no fault of Duly; the error says what to do."""
    monkeypatch.setenv("DULY_KEY", KEY)
    name = f"theirs_{place._name}"
    place._admin.execute(f"create database {name}")
    with psycopg.connect(superuser(place.folder, name)) as owner:
        owner.execute("revoke create on schema public from public")  # 14 grants it to all
    try:
        with pytest.raises(StoreError) as raised:
            await Host(address(place.folder, name)).open()
        assert raised.value.code == "server_denied"
        assert "Make it the owner of the database." in str(raised.value)
    finally:
        place._admin.execute(f"drop database {name} with (force)")
