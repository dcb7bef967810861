"""The clock every host has: moments, wall times of any zone, and whose time it is."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest

import duly
import duly.connectors
from duly.connectors import Clock
from duly.connectors.clock import iso, with_clock
from duly.connectors.registry import Registry
from duly.testing import Stage
from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop
from tests.connectors.sheets import Sheets

pytestmark = pytest.mark.anyio

BERLIN = "Europe/Berlin"


def clock_at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> Clock:
    loop = VirtualLoop()
    loop.close()
    clock = Clock()
    start = datetime(year, month, day, hour, minute, tzinfo=UTC)
    clock.keep_time(VirtualEnv(loop, start=start))
    return clock


async def test_now_is_said_in_utc_in_milliseconds_and_as_a_wall_clock_shows_it() -> None:
    assert await clock_at(2026, 7, 1, 22, 30).now(timezone=BERLIN) == {
        "iso": "2026-07-01T22:30:00.000Z",
        "unix_ms": 1782945000000,
        "local": "2026-07-02T00:30:00+02:00",
    }


@pytest.mark.parametrize(
    ("now", "at", "found"),
    [
        ((2026, 1, 5, 7, 0), "09:00", "2026-01-05T08:00:00.000Z"),
        ((2026, 1, 5, 8, 0), "09:00", "2026-01-06T08:00:00.000Z"),
        # In the night of the jump there is no 02:30: it comes at the jump, as 03:00.
        ((2026, 3, 28, 12, 0), "02:30", "2026-03-29T01:00:00.000Z"),
        # In the night of the repeated hour 02:30 comes twice: the first one counts.
        ((2026, 10, 24, 12, 0), "02:30", "2026-10-25T00:30:00.000Z"),
        ((2026, 10, 25, 0, 45), "02:30", "2026-10-26T01:30:00.000Z"),
    ],
)
async def test_the_next_wall_time_is_found_through_jumps(
    now: tuple[int, int, int, int, int], at: str, found: str
) -> None:
    """S2: a missing local time at the jump, a repeated one once."""
    assert await clock_at(*now).next(at=at, timezone=BERLIN) == found


async def test_a_weekday_can_be_asked_for() -> None:
    clock = clock_at(2026, 1, 5, 9, 0)  # a Monday
    assert await clock.next(at="09:00", weekday="monday") == "2026-01-12T09:00:00.000Z"
    assert await clock.next(at="09:00", weekday="sunday") == "2026-01-11T09:00:00.000Z"


@pytest.mark.parametrize(
    ("at", "timezone", "weekday", "said"),
    [
        ("9:00", "UTC", None, 'Write hours and minutes, as in "09:00"'),
        ("24:00", "UTC", None, "Write hours"),
        ("09:00\n", "UTC", None, "Write hours"),
        ("09:00", "Mars/Olympus", None, "clock.timezone is 'Mars/Olympus'"),
        ("09:00", "../etc", None, "must be a timezone"),
        ("09:00", "UTC", "Mon", "Say one of sunday, monday"),
    ],
)
async def test_a_wrong_question_is_refused(
    at: str, timezone: str, weekday: str | None, said: str
) -> None:
    """F1: the script's own fault, in words it can be mended by."""
    with pytest.raises(duly.Refused, match=said):
        await clock_at(2026, 1, 1).next(at=at, timezone=timezone, weekday=weekday)


async def test_a_clock_outside_a_host_asks_the_machine() -> None:
    before = Clock().now_ms()
    assert before <= int(str((await Clock().now())["unix_ms"]))
    assert before > 1_700_000_000_000


def test_a_clock_of_one_s_own_takes_the_place_of_the_built_in_one() -> None:
    class Mine(duly.Connector):
        name = "clock"

    mine, sheets = Mine(), Sheets()
    assert with_clock([mine]) == (mine,)
    assert [each.name for each in with_clock([sheets])] == ["sheets", "clock"]


def test_the_clock_is_read_under_a_grant_of_its_own() -> None:
    """A1: a read like any other, of the lowest risk."""
    tools = Registry([Clock()]).catalog.tools
    assert {(each.capability, each.risk) for each in tools} == {("clock.read", "low")}


async def test_a_script_asks_the_virtual_clock_of_its_host(duly_world: Stage) -> None:
    text = """
from duly import workflow

flow = workflow("alarm", topics=["rang"])


@flow.producer(every="1d")
async def ring(ctx, state):
    nine = await ctx.clock.next(at="09:00", timezone="Europe/Berlin")
    now = await ctx.clock.now()
    await ctx.publish("rang", message_id=nine, title=now["iso"], payload=None)
"""
    host = await duly_world.host()
    await host.deploy(duly.Source("python", text), by="me", grant=True)
    await host.drain()
    (event,) = await host.events("alarm")
    assert (event.message_id, event.title) == ("2026-01-01T08:00:00.000Z", iso(1767225600000))


def test_the_ready_made_connectors_are_brought_only_when_asked_for() -> None:
    code = "import sys, duly.connectors; print([m for m in sys.modules if m.endswith('mailbox')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Sheet'"):
        duly.connectors.Sheet  # type: ignore[attr-defined]  # noqa: B018
