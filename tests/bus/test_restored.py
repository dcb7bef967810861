"""A bus that came back out of a backup: it does not do again what was done since (H5)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from duly.fact import Offer
from duly.host import Host
from duly.rules.delivery import Event, Retry
from duly.rules.waiting import Wait
from duly.store.bus import NUMBERS_PER_MS, RESTORED_STEP
from duly.testing import Stage
from tests.bus.stand import listen, say, statuses
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import put_in_place
from tests.spoken import long


async def copied(host: Host, stage: Stage) -> Path:
    """Make a backup of a host."""
    path = folder_of(stage) / "copy.db"
    await host.backup(path)
    return path


async def restored(stage: Stage, host: Host, copy: Path, **options: Any) -> Host:
    """Close a host, put a copy in its place, and open it."""
    await host.close()
    stage._hosts.clear()
    put_in_place(stage, copy)
    return await stage.host(**options)


async def waiting(stage: Stage) -> tuple[Host, Path]:
    """Copy a host that has an event to tell, a retry and a reminder, and let it tell them."""
    host = await stage.host()
    ear = listen(host)
    await say(host)
    await host.bus.schedule_at(60, "mail", {"text": "later"}, source="test")
    copy = await copied(host, stage)
    async with host.running():
        await stage.advance(120)
    assert len(ear.events) == 2
    return host, copy


async def test_what_a_backup_had_still_to_tell_is_told_when_somebody_says_so(
    duly_world: Stage,
) -> None:
    """H5, A6: neither a delivery nor a deferred event happens again by itself."""
    host, copy = await waiting(duly_world)
    host = await restored(duly_world, host, copy)
    ear = listen(host)
    async with host.running():
        await duly_world.advance("2h")
        assert ear.events == []
        assert await host.bus.resume(by="ada") is True
        await duly_world.advance(1)
        assert [event.payload["text"] for event in ear.events] == ["hello", "later"]
        assert await host.bus.resume() is False
    acts = [(each.by, each.verb, each.target) for each in await host.actions()]
    assert acts.count(("ada", "resume_bus", "bus")) == 1
    assert all(by == "ada" for by, verb, _ in acts if verb == "resume_bus")


async def test_what_must_not_happen_again_can_be_cancelled_before(duly_world: Stage) -> None:
    """H5, B2: the person who looks decides; cancelling needs no bus that tells."""
    host, copy = await waiting(duly_world)
    host = await restored(duly_world, host, copy)
    ear = listen(host)
    (reminder,) = await host.bus.deferred()
    assert await host.bus.cancel(reminder.id) is True
    await host.bus.resume(by="ada")
    async with host.running():
        await duly_world.advance("2h")
    assert ear.ids == [1]


async def test_what_is_emitted_after_the_restore_is_kept_in_its_place(duly_world: Stage) -> None:
    """H5, B6: it is durable at once, and comes after what waits, when that is told."""
    host, copy = await waiting(duly_world)
    host = await restored(duly_world, host, copy)
    ear = listen(host)
    id_2 = await say(host, text="new")
    await host.drain()
    assert (ear.events, await statuses(host)) == ([], {1: "pending", id_2: "pending"})
    await host.bus.resume()
    await host.drain()
    assert ear.texts[0] == "hello"
    assert sorted(ear.texts[1:]) == ["later", "new"]


async def test_no_number_is_given_twice_after_a_restore(duly_world: Stage) -> None:
    """H5, T10: what was done outside for event 2 was not done for the one that comes now."""
    host = await duly_world.host()
    await say(host)
    copy = await copied(host, duly_world)
    lost = await say(host)
    lost_deferred = await host.bus.schedule_at(60, "mail", {}, source="test")
    host = await restored(duly_world, host, copy)
    least = duly_world.env.now_ms() * NUMBERS_PER_MS
    assert (lost, await say(host)) == (2, least + 1)
    assert await host.bus.cancel(lost_deferred) is False
    deferred_id = await host.bus.schedule_at(60, "mail", {}, source="test")
    assert (lost_deferred, deferred_id) == (1, least + 1)
    assert least + RESTORED_STEP < 2**53  # every reader of JSON keeps it as it is (T8)


async def test_a_backup_that_is_restored_twice_gives_each_life_its_own_numbers(
    duly_world: Stage,
) -> None:
    """H5, L7: what the first life did outside for an event was not done for one of the second."""
    host = await duly_world.host()
    await say(host)
    copy = await copied(host, duly_world)
    kept = copy.read_bytes()
    host = await restored(duly_world, host, copy)
    first_life = {await say(host) for _ in range(3)}
    deferred_id = await host.bus.schedule_at(60, "mail", {}, source="test")
    await duly_world.advance(1)
    copy.write_bytes(kept)
    host = await restored(duly_world, host, copy)
    assert await say(host) > max(first_life)
    assert await host.bus.schedule_at(60, "mail", {}, source="test") > deferred_id


async def test_no_number_is_given_twice_by_a_clock_that_was_set_back(duly_world: Stage) -> None:
    """H5: where the clock says less than the copy, the copy is believed."""
    host = await duly_world.host()
    host = await restored(duly_world, host, await copied(host, duly_world))
    copy = folder_of(duly_world) / "second.db"
    await host.backup(copy)
    lost = {await say(host) for _ in range(3)}
    duly_world.env.jump(-60_000)
    host = await restored(duly_world, host, copy)
    assert await say(host) > max(lost)


async def test_a_backup_that_had_nothing_to_tell_holds_nothing_back(duly_world: Stage) -> None:
    """H5: nothing can happen a second time, so nobody is asked; also what nobody subscribes to."""
    host = await duly_world.host()
    listen(host)
    await say(host)
    await host.drain()
    await say(host, "nobody")
    host = await restored(duly_world, host, await copied(host, duly_world))
    ear = listen(host)
    id_3 = await say(host)
    await host.drain()
    assert ear.ids == [id_3]
    assert await host.attention() == ()


@pytest.mark.parametrize("status", ["waiting", "running"])
async def test_a_delivery_that_was_under_way_holds_the_bus_back(
    duly_world: Stage, status: str
) -> None:
    """H5, B7: recovery gives it back, and nobody is called."""
    host = await duly_world.host()
    copies: list[Path] = []

    async def copy_and_fail(event: Event) -> None:
        if status == "running":
            copies.append(await copied(host, duly_world))
        raise ValueError("no")

    listen(host, then=copy_and_fail, retry=Retry())
    await say(host)
    await host.drain()
    host = await restored(duly_world, host, (copies or [await copied(host, duly_world)])[0])
    ear = listen(host)
    async with host.running():
        await duly_world.advance(60)
        assert ear.events == []
        (waiting,) = await host.bus.deliveries()
        assert (waiting.status, waiting.attempts) == ("waiting", 1)
        assert waiting.reason is not None
        assert waiting.reason.code == Wait.BUS_HELD
        await host.bus.resume()
        await duly_world.advance(60)
    assert ear.ids == [1]


async def test_a_person_is_told_and_offered_the_verb(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """H5, U7: attention and why say it in one breath, until it is resumed."""
    host, copy = await waiting(duly_world)
    with caplog.at_level(logging.WARNING, "duly.store"):
        host = await restored(duly_world, host, copy)
    assert "so is the bus" in caplog.text
    (entry,) = await host.attention()
    assert (entry.workflow, entry.key) == ("", "/restored")
    assert long(host, entry).startswith("The event bus was restored from a backup of ")
    assert entry.offers == (Offer("bus.resume", {}, "resume_bus"),)
    why = await host.why("bus:1")
    assert (long(host, why), why.offers) == (long(host, entry), entry.offers)
    assert await host.attention(after=entry.key) == ()
    await host.bus.resume()
    assert await host.attention() == ()
    assert "backup" not in long(host, await host.why("bus:1"))
