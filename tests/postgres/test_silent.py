"""A fleet that loses every notification of its server, after its hosts have heard them come."""

from __future__ import annotations

import pytest

from duly.engine.scheduler import Engine
from duly.store.bell import Bell
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.world import Place


async def test_a_fleet_that_loses_every_notification_does_all_its_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H9: a host looks by itself with each renewal, so all it costs is a third of the lease."""
    monkeypatch.setenv("DULY_KEY", KEY)
    bells, lost, looks, plain = list[Bell](), list[str](), list[Engine](), Bell.open
    renewed = Engine._renewed

    def keep(bell: Bell) -> None:
        bells.append(bell)
        plain(bell)

    def look(engine: Engine) -> None:
        looks.append(engine)
        renewed(engine)

    monkeypatch.setattr(Bell, "open", keep)
    monkeypatch.setattr(Engine, "_renewed", look)
    outside = Outside()
    with database(place) as url:
        async with (
            opened(url, outside) as one,
            opened(url, outside) as two,
            one.running(),
            two.running(),
        ):
            if True:
                await deploy(one)
                await until(lambda: all(each.is_heard for each in bells), "both hear")
                monkeypatch.setattr(Bell, "_take", lambda _, text: lost.append(text))
                looks.clear()
                for host in (one, two):  # one of them does not hold the workflow
                    text = f"by {'one' if host is one else 'two'}"
                    await host.publish("notes", "note", title=text, message_id=text)
                    await until(lambda text=text: text in outside.posts, text)
    assert outside.posts == ["by one", "by two"]
    assert lost
    assert looks
