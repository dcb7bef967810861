"""The five patterns of scheduling, from their files to their effects, in both languages."""

from __future__ import annotations

import pytest

from duly.testing import Fault, Stage
from tests.examples.stand import INSERT, LANGUAGES, WRITE, Played, play
from tests.sandbox import seeds

PATTERNS = ["batch_or_timeout", "correlation", "daily_digest", "fifo", "time_window"]

both = pytest.mark.parametrize("suffix", LANGUAGES)


def times(stage: Stage, tool: str) -> list[str]:
    """Answer when a tool's effects happened, as day and hour and minute."""
    return [f"{each.at:%d %H:%M}" for each in stage.effects if each.tool == tool]


async def runs(played: Played) -> int:
    """Count the runs of a workflow."""
    return len(await played.host.runs(played.name, limit=1000))


def test_the_patterns_are_the_examples_that_need_no_mailbox() -> None:
    of_mails = {"mail_to_table", "invoice_archive"}
    assert [name for name in seeds.examples() if name not in of_mails] == PATTERNS


# First in, first out.


@both
async def test_fifo_files_each_ticket_once_in_the_order_of_arrival(
    duly_world: Stage, suffix: str
) -> None:
    """S3, T6: one after the other until none is left, without a new one arriving."""
    played = await play(duly_world, "fifo", suffix)
    for number in (3, 1, 2):
        await played.publish("ticket.opened", f"t{number}", {"text": f"Ticket {number}"})
    await played.host.drain()
    assert played.rows == [["t3", "Ticket 3"], ["t1", "Ticket 1"], ["t2", "Ticket 2"]]
    assert list(await played.events("ticket.filed")) == ["filed:t3", "filed:t1", "filed:t2"]


@both
async def test_fifo_wakes_for_a_ticket_at_once_and_for_a_known_one_never(
    duly_world: Stage, suffix: str
) -> None:
    """S4, T5: a new event starts the consumer in the moment it came; the same again does not."""
    played = await play(duly_world, "fifo", suffix)
    async with played.host.running():
        await duly_world.advance("1h")
        await played.publish("ticket.opened", "t1", {"text": "Hello"})
        await duly_world.advance("1m")
        before = await runs(played)
        await played.publish("ticket.opened", "t1", {"text": "Hello"})
        await duly_world.advance("1h")
        assert await runs(played) == before
    assert times(duly_world, INSERT) == ["01 01:00"]


# Correlation.


@both
async def test_correlation_waits_for_the_partner_whichever_comes_first(
    duly_world: Stage, suffix: str
) -> None:
    """S3, C4: nothing is reserved before both are there; then both are used up together."""
    played = await play(duly_world, "correlation", suffix)
    async with played.host.running():
        await played.publish("order.placed", "o1", {"item": "A lamp"})
        await played.publish("payment.received", "p2", {"order": "o2"})
        await duly_world.advance("1h")
        assert played.letters == []
        await played.publish("payment.received", "p1", {"order": "o1"})
        await duly_world.advance("1m")
        assert played.letters == ["Ship order o1: A lamp\n"]
        await played.publish("order.placed", "o2", {"item": "A chair"})
        await played.publish("order.placed", "o3", {"item": "A desk"})
        await duly_world.advance("1m")
    assert played.letters == ["Ship order o1: A lamp\n", "Ship order o2: A chair\n"]
    assert await played.events("order.placed") == (
        {"o1": "consumed", "o2": "consumed", "o3": "pending"}
    )
    assert await played.events("payment.received") == {"p2": "consumed", "p1": "consumed"}


@both
async def test_correlation_that_declines_runs_once_for_each_event(
    duly_world: Stage, suffix: str
) -> None:
    """S3: a consumer that waits for a partner does not run in a circle meanwhile."""
    played = await play(duly_world, "correlation", suffix)
    async with played.host.running():
        await duly_world.advance("1m")
        before = await runs(played)
        await played.publish("order.placed", "o1", {"item": "A lamp"})
        await duly_world.advance("1d")
        assert await runs(played) == before + 1


@both
async def test_a_shipped_order_names_both_of_its_inputs(duly_world: Stage, suffix: str) -> None:
    """T9: what follows from two events goes back to both."""
    played = await play(duly_world, "correlation", suffix)
    await played.publish("order.placed", "o1", {"item": "A lamp"})
    await played.publish("payment.received", "p1", {"order": "o1"})
    await played.host.drain()
    (ready,) = await played.host.events(played.name, topic="order.ready")
    assert set(ready.caused_by) == {("order.placed", "o1"), ("payment.received", "p1")}


# Time window.


@both
async def test_a_window_closes_an_hour_after_its_first_alarm(
    duly_world: Stage, suffix: str
) -> None:
    """S6: alarms inside the window wake the consumer and change nothing about its end."""
    played = await play(duly_world, "time_window", suffix)
    async with played.host.running():
        await duly_world.advance("30m")
        await played.publish("alarm.raised", "a1")
        await duly_world.advance("50m")
        await played.publish("alarm.raised", "a2")
        await duly_world.advance("9m")
        assert played.letters == []
        await duly_world.advance("2h")
        await played.publish("alarm.raised", "a3")
        # A script's own clock goes on while it computes, so its hour ends a little after ours.
        await duly_world.advance("61m")
    assert played.letters == ["2 alarms: Event a1, Event a2\n", "1 alarms: Event a3\n"]
    assert times(duly_world, WRITE) == ["01 01:30", "01 04:29"]
    assert len(await played.events("window.closed")) == 2


@both
async def test_a_window_outlives_a_crash_in_it(duly_world: Stage, suffix: str) -> None:
    """S6, S8: the next host closes the window when the first would have."""
    played = await play(duly_world, "time_window", suffix)
    async with played.host.running():
        await played.publish("alarm.raised", "a1")
        await duly_world.advance("20m")
    await duly_world.crash(played.host)
    await played.restart()
    async with played.host.running():
        await duly_world.advance("20m")
        await played.publish("alarm.raised", "a2")
        await duly_world.advance("1h")
    assert played.letters == ["2 alarms: Event a1, Event a2\n"]
    assert times(duly_world, WRITE) == ["01 01:00"]


# Batch or timeout.


def van(first: int, last: int) -> list[str]:
    """Write the row of a van with these parcels."""
    names = [f"p{number:02}" for number in range(first, last + 1)]
    return [names[0], ", ".join(names)]


async def pack(played: Played, numbers: range) -> None:
    for number in numbers:
        await played.publish("parcel.packed", f"p{number:02}")


@both
async def test_ten_parcels_leave_at_once_and_fewer_after_an_hour(
    duly_world: Stage, suffix: str
) -> None:
    """S3, S6: whichever comes first, the number or the time."""
    played = await play(duly_world, "batch_or_timeout", suffix)
    async with played.host.running():
        await pack(played, range(1, 10))
        await duly_world.advance("10m")
        assert played.rows == []
        await pack(played, range(10, 24))
        await duly_world.advance("1m")
        assert played.rows == [van(1, 10), van(11, 20)]
        await duly_world.advance("2h")
    assert played.rows == [van(1, 10), van(11, 20), van(21, 23)]
    assert times(duly_world, INSERT) == ["01 00:10", "01 00:10", "01 01:10"]
    assert list(await played.events("van.sent")) == ["van:p01", "van:p11", "van:p21"]


@both
@pytest.mark.parametrize(
    "fault",
    [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.TIMEOUT_AFTER],
    ids=lambda each: each.name,
)
async def test_a_batch_whose_answer_is_lost_leaves_once(
    duly_world: Stage, suffix: str, fault: Fault
) -> None:
    """L3, L5: crash or silence around the call, the van leaves once with the same ten."""
    played = await play(duly_world, "batch_or_timeout", suffix)
    await pack(played, range(1, 13))
    duly_world.plan(INSERT, fault)
    if fault is not Fault.TIMEOUT_AFTER:
        await duly_world.crash(played.host, played.host.drain())
        await played.restart()
    async with played.host.running():
        await duly_world.advance("3h")
    assert played.rows == [van(1, 10), van(11, 12)]


# Daily digest.


@both
async def test_the_digest_is_posted_once_a_day_at_nine_and_not_without_notes(
    duly_world: Stage, suffix: str
) -> None:
    """S6: notes wake the consumer all day; nine o'clock alone lets it post."""
    played = await play(duly_world, "daily_digest", suffix)
    async with played.host.running():
        for number in range(1, 4):
            await played.publish("note.written", f"n{number}")
            await duly_world.advance("2h")
        await duly_world.advance("18h")  # midnight of the second day
        await played.publish("note.written", "n4")
        await duly_world.advance("3d")
    assert played.letters == ["- Event n1\n- Event n2\n- Event n3\n", "- Event n4\n"]
    assert times(duly_world, WRITE) == ["01 09:00", "02 09:00"]


@both
async def test_a_digest_whose_hour_passed_while_no_host_ran_is_posted_when_one_does(
    duly_world: Stage, suffix: str
) -> None:
    """S8: what became due meanwhile is due, once."""
    played = await play(duly_world, "daily_digest", suffix)
    async with played.host.running():
        await played.publish("note.written", "n1")
        await duly_world.advance("1h")
    await duly_world.crash(played.host)
    await duly_world.advance("10h")
    await played.restart()
    async with played.host.running():
        await duly_world.advance("1d")
    assert played.letters == ["- Event n1\n"]
    assert times(duly_world, WRITE) == ["01 11:00"]


@both
async def test_a_crash_after_the_digest_was_posted_posts_no_other(
    duly_world: Stage, suffix: str
) -> None:
    """L3, R7: the post is found again, its notes are over, tomorrow is another day."""
    played = await play(duly_world, "daily_digest", suffix)
    duly_world.plan(WRITE, Fault.CRASH_AFTER)
    await played.publish("note.written", "n1")

    async def serve() -> None:
        async with played.host.running():
            await duly_world.advance("1d")

    await duly_world.crash(played.host, serve())
    await played.restart()
    async with played.host.running():
        await played.publish("note.written", "n2")
        await duly_world.advance("2d")
    assert played.letters == ["- Event n1\n", "- Event n2\n"]
    assert times(duly_world, WRITE) == ["01 09:00", "02 09:00"]
