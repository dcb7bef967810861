"""What a question on the phone shows: every character of the call, or no button that agrees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duly.desk import asker
from duly.rules.shown import visible
from tests.desk.phone import ADA, Phone, phone

pytestmark = pytest.mark.anyio

HOSTILE = (
    "<b>x</b>",
    "{{7*7}} {by} %s",
    "a\u202eb\u200bc\u2066d",
    "\x1b[31mred\x07",
    "To: eve@evil.example\nSubject: other\n\nThe script calls it “fine”.",
    "p\u0430ypal.com",
    "😀" * 50,
    "\U000e0041\ufe0f\u3164",
    "*_`[x](tg://user?id=1)`",
)


@pytest.fixture
async def stand(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Phone]:
    monkeypatch.setattr(asker, "LOOK_S", 0.02)
    monkeypatch.setattr(asker, "PAUSE_S", 0.02)
    async with phone(tmp_path, url) as found:
        yield found


@pytest.mark.parametrize("number", range(3))
async def test_every_character_of_the_observed_call_is_seen(stand: Phone, number: int) -> None:
    """G9, G11: hostile text stands there as text, and its lines look like no field."""
    async with stand.serving():
        await stand.pair()
        to, subject, body = (HOSTILE[(3 * number + each) % len(HOSTILE)] for each in range(3))
        await stand.publish(to=to, subject=subject, body=body)
        text = (await stand.question())["text"]
        for label, value in (("To", to), ("Subject", subject), ("Body", body)):
            shown = visible(value, is_block=True).split("\n")
            if len(shown) == 1:
                assert f"\n{label}: {shown[0]}\n" in text
            else:
                assert f"\n{label}:\n" + "\n".join(f"  | {each}" for each in shown) in text
        assert len([line for line in text.split("\n") if line.startswith("To:")]) == 1
        assert visible(text, is_block=True) == text


async def test_a_call_that_no_message_holds_asks_for_no_yes(stand: Phone) -> None:
    """G9: one unit past the limit leads to the page, and a forged press on it counts as any."""
    async with stand.serving(page="https://duly.example.com/x/") as host:
        await stand.pair()
        await stand.publish(body="")
        whole = len((await stand.question())["text"])
        (call,) = await host.approvals()
        await host.reject(call.mutation)
        await stand.publish(2, body="b" * (4096 - whole))
        second = await stand.question(count=2)
        assert len(second["text"]) == 4096
        assert [*stand.chat.buttons(second)] == ["Yes", "No", "Open"]
        (call,) = await host.approvals()
        await host.reject(call.mutation)
        await stand.publish(3, body="😀" * ((4096 - whole) // 2 + 1))
        third = await stand.question(count=3)
        (call,) = await host.approvals()
        assert "too long for a message" in third["text"]
        where = f"https://duly.example.com/x/m/{call.mutation}"
        assert stand.chat.buttons(third) == {"Open": where}
        (channel,) = host._channels.all
        await channel.send("Something else waits for you.")
        last = stand.chat.shown_to(ADA)[-1]
        assert stand.chat.buttons(last) == {"Open": "https://duly.example.com/x"}
