"""What a page draws and lays out of facts: a day, a schedule, gaps of a timeline, two versions."""

from __future__ import annotations

import re
from pathlib import Path

from duly.faces.web import drawing
from duly.rules.source import Language, Source
from duly.words import page as words
from tests.web.stand import ask, serving
from tests.web.test_page import signed

CHECKS = """
from duly import workflow

flow = workflow("checks", topics=["found"])


@flow.producer(every="5m")
async def look(ctx, state):
    READS
    return {}
"""
READS = "await ctx.clock.now()"


async def test_a_schedule_is_shown_with_its_next_ten_times(tmp_path: Path) -> None:
    """U2: in words, and as moments in their order."""
    async with serving(tmp_path) as web:
        await web.host.deploy(Source(Language.PYTHON, CHECKS.replace("READS", "pass")))
        headers = await signed(web)
        text = (await ask(web.app, "/w/checks/setup", headers=headers)).text
        (told,) = re.findall(r'<ol class="times">(.*?)</ol>', text)
        times = re.findall(r'<li><time datetime="([^"]+)"', told)
        assert len(times) == 10
        assert times == sorted(set(times))
        assert "<p>Checks every 5 minutes</p>" in text


async def test_what_a_version_may_do_is_compared(tmp_path: Path) -> None:
    """W6, A1: what it uses besides, and what it uses no more; a version alone says all of it."""
    async with serving(tmp_path) as web:
        for reads in ("pass", READS):
            source = Source(Language.PYTHON, CHECKS.replace("READS", reads))
            await web.host.deploy(source, grant=True)
        headers = await signed(web)
        found = {}
        for pair in ("1.0..2.0", "2.0..1.0"):
            text = (await ask(web.app, f"/w/checks/versions/{pair}", headers=headers)).text
            found[pair] = re.findall(r'<li class="(added|removed)">. ([\w.]+)', text)
            assert len(re.findall(r'<div class="(?:added|removed)">', text)) >= 2
        assert found == {
            "1.0..2.0": [("added", "clock.read")],
            "2.0..1.0": [("removed", "clock.read")],
        }


def test_a_day_is_drawn_by_its_hours() -> None:
    """U1: the busiest hour is as high as the strip, an hour in which nothing was is one pixel."""
    bars = drawing.bars([0, 5, 10])
    assert [(bar.height, bar.y) for bar in bars] == [(1, 19), (10, 10), (20, 0)]
    assert [bar.x for bar in bars] == [0, 6, 12]
    assert [bar.height for bar in drawing.bars([0, 0])] == [1, 1]


def test_a_gap_of_a_timeline_is_said_once_it_is_a_second() -> None:
    """U6: long waits are one line, and short ones none."""
    at = "2026-01-01T00:00:00+00:00"
    assert words.say_gap(at, "2026-01-01T00:00:00.999+00:00") == ""
    assert words.say_gap(at, "2026-01-01T00:00:01+00:00").endswith(" later")
    assert "2 h" in words.say_gap(at, "2026-01-01T02:00:00+00:00")
