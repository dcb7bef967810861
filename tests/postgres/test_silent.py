"""A fleet that loses every notification of its server, after its hosts have heard them come."""

from __future__ import annotations

import psycopg
import pytest

from duly.engine.scheduler import Engine
from duly.store.bell import Bell
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.world import Place

HOLDER = "select holder from workflow where name = 'notes'"


async def test_a_fleet_that_loses_every_notification_does_all_its_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H9: the holder looks with its next renewal, so all it costs is a third of the lease."""
    monkeypatch.setenv("DULY_KEY", KEY)
    bells, engines, lost = list[Bell](), list[Engine](), list[str]()
    listen, join = Bell.open, Engine.join

    def keep_bell(bell: Bell) -> None:
        bells.append(bell)
        listen(bell)

    async def keep_engine(engine: Engine) -> None:
        engines.append(engine)
        await join(engine)

    monkeypatch.setattr(Bell, "open", keep_bell)
    monkeypatch.setattr(Engine, "join", keep_engine)
    first = Outside(label="one")
    second = Outside(first.posts, first.by_host, "two")
    with database(place) as url:
        async with (
            opened(url, first) as one,
            opened(url, second) as two,
            one.running(),
            two.running(),
        ):
            await deploy(one)
            await one.publish("notes", "note", title="heard", message_id="heard")
            await until(lambda: first.posts == ["heard"], "a note while they hear")
            await until(lambda: all(each.is_heard for each in bells), "both hear")
            monkeypatch.setattr(Bell, "_take", lambda _, text: lost.append(text))
            with psycopg.connect(url) as connection:
                ((holder,),) = connection.execute(HOLDER).fetchall()
            lease = engines[0]._parts.lease
            assert lease is not None
            label, other = ("one", two) if lease.host_id == holder else ("two", one)
            await other.publish("notes", "note", title="lost", message_id="lost")
            await until(lambda: first.posts == ["heard", "lost"], "a note that it does not hear of")
    assert first.by_host[1:] == [label]
    assert lost
