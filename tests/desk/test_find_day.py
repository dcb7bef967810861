"""`find` by the day on which something came (U6, G13)."""

from __future__ import annotations

import itertools
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from duly.config import Policy
from duly.desk.record import Hit
from duly.errors import Invalid, NotFound
from duly.rules.schedule import DAY_MS, HOUR_MS
from duly.store import find as store_find
from duly.testing import Stage
from tests.engine.stand import IN, NAME, Play, flow, opened

OTHER = "other"
THIRD = "third"
ZONE = "Pacific/Auckland"  # half a day and more ahead of UTC


async def filled(stage: Stage) -> tuple[Play, str]:
    """Publish in three workflows on three days; return the day in the middle, as people name it."""
    play = await opened(stage, policy=Policy(timezone=ZONE))
    for name in (NAME, OTHER, THIRD):
        await play.deploy(flow(name=name))
    await stage.advance((-stage.env.now_ms() % DAY_MS) / 1000)  # midnight of UTC: noon or so there
    for number, day in enumerate(("mon", "tue", "wed")):
        for name in (NAME, OTHER) if day == "tue" else (NAME,):
            for part in ("a", "b"):
                title = f"Mail {part} of {day}"
                given: Any = {"message_id": f"{part}-{day}", "title": title, "payload": number}
                await play.host.publish(name, IN, **given)
        if number == 1:
            middle = await play.host.find("a-tue", workflow=NAME)
        await stage.advance(DAY_MS / 1000)
    return play, _day_of(middle.hits[0])


def _day_of(hit: Hit) -> str:
    return hit.created_at.astimezone(ZoneInfo(ZONE)).date().isoformat()


def ids(hits: tuple[Hit, ...]) -> list[tuple[str, str]]:
    return [(each.workflow, each.message_id) for each in hits]


async def test_find_shows_what_came_on_a_day(duly_world: Stage) -> None:
    """U6: newest first in each workflow, by the project's clock; with or without a text."""
    play, day = await filled(duly_world)
    one: Any = {"first_day": day, "last_day": day}
    found = await play.host.find(**one)
    tuesday = ["b-tue", "a-tue"]
    assert sorted(ids(found.hits)) == [(w, m) for w in (NAME, OTHER) for m in sorted(tuesday)]
    here = await play.host.find(workflow=NAME, **one)
    assert (ids(here.hits), here.after) == ([(NAME, each) for each in tuesday], None)
    assert ids((await play.host.find("mail B", workflow=NAME, **one)).hits) == [(NAME, "b-tue")]
    assert ids((await play.host.find("a-", workflow=NAME, **one)).hits) == [(NAME, "a-tue")]
    assert (await play.host.find("wed", **one)).hits == ()
    assert (await play.host.find(workflow=THIRD, **one)).hits == ()


async def test_find_shows_what_came_since_or_until_a_day(duly_world: Stage) -> None:
    """U6: a day alone leaves the other side open; the day itself is in it."""
    play, day = await filled(duly_world)
    since = await play.host.find("mail", workflow=NAME, first_day=day)
    assert [each.message_id for each in since.hits] == ["b-wed", "a-wed", "b-tue", "a-tue"]
    until = await play.host.find("mail", workflow=NAME, last_day=day)
    assert [each.message_id for each in until.hits] == ["b-tue", "a-tue", "b-mon", "a-mon"]


@pytest.mark.parametrize("text", ["", "mail", "a-"])
async def test_pages_of_a_day_show_each_hit_once(duly_world: Stage, text: str) -> None:
    """U6: in all workflows and in one, whatever the length of a page."""
    play, day = await filled(duly_world)
    for workflow, name in itertools.product((None, NAME), ("first_day", "last_day")):
        days: Any = {name: day}
        whole = await play.host.find(text, workflow=workflow, **days)
        for limit in (1, 3):
            seen: list[Hit] = []
            after = None
            while True:
                page = await play.host.find(
                    text, workflow=workflow, limit=limit, after=after, **days
                )
                seen += page.hits
                if (after := page.after) is None:
                    break
            assert tuple(seen) == whole.hits


async def test_a_search_of_a_day_reads_nothing_of_other_days(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G13: what it costs is what came on the day, and a page of it at most."""
    play, day = await filled(duly_world)
    one: Any = {"first_day": day, "last_day": day}
    assert (await play.host.find("nothing", **one)).looked == 4
    monkeypatch.setattr(store_find, "LOOKED_MAX", 1)
    monkeypatch.setattr(store_find, "LOOKED_PER_STATEMENT", 1)
    looked, after = [], None
    while True:
        page = await play.host.find("nothing", after=after, **one)
        looked.append(page.looked)
        if (after := page.after) is None:
            break
    assert (sum(looked), max(looked)) == (4, 1)


async def test_what_came_while_the_clock_was_wrong_is_found_by_the_day_it_shows(
    duly_world: Stage,
) -> None:
    """U6, T6: the number of an event says nothing of the time; the day in its row does."""
    play, day = await filled(duly_world)
    back_ms = 47 * HOUR_MS  # from Thursday to Tuesday
    duly_world.env.jump(-back_ms)
    await play.host.publish(NAME, IN, message_id="late", title="Mail late", payload=1)
    duly_world.env.jump(back_ms)
    found = await play.host.find("mail", workflow=NAME, first_day=day, last_day=day)
    assert [each.message_id for each in found.hits] == ["late", "b-tue", "a-tue"]
    assert {_day_of(each) for each in found.hits} == {day}


async def test_a_secret_is_found_by_no_day(duly_world: Stage) -> None:
    """A5: a day beside it makes no letter of it known."""
    play, day = await filled(duly_world)
    await play.host.set_secret("sheet", "token", "a of tue")
    one: Any = {"first_day": day, "last_day": day}
    assert (await play.host.find("a of t", **one)).hits == ()
    assert [each.title for each in (await play.host.find(workflow=NAME, **one)).hits] == [
        "Mail b of tue",
        "Mail [redacted]",
    ]


async def test_what_names_no_day_is_refused(duly_world: Stage) -> None:
    """U6: an empty text without a day too, and a place that another search ended at."""
    play, day = await filled(duly_world)
    with pytest.raises(Invalid, match="text must be a text of 1 to"):
        await play.host.find()
    with pytest.raises(Invalid, match="text must be a text of 1 to"):
        await play.host.find(" ", first_day=day)
    with pytest.raises(Invalid, match=r"first_day is .*a day such as"):
        await play.host.find("mail", first_day="tuesday")
    with pytest.raises(Invalid, match=r"last_day is .*not before the first"):
        await play.host.find("mail", first_day=day, last_day="2000-01-01")
    with pytest.raises(NotFound):
        await play.host.find(workflow="nothing", first_day=day)
    page_end = "must be where the page before ended"
    for after in ("", "time", "time|w|1", "time|w|x|1", "time|w|1|x", "title|w|1", "id|w|t|m"):
        with pytest.raises(Invalid, match=page_end):
            await play.host.find("mail", first_day=day, after=after)
    with pytest.raises(Invalid, match=page_end):
        await play.host.find("mail", after="time|w|1|1")
    # A place of another workflow, or behind the last day, shows no more than was asked for.
    one: Any = {"first_day": day, "last_day": day, "workflow": NAME}
    assert ids((await play.host.find(after=f"time|{OTHER}|{2**62}|9", **one)).hits) == [
        (NAME, "b-tue"),
        (NAME, "a-tue"),
    ]
