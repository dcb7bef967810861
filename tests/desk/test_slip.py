"""Asked on the phone: what needs a yes arrives with buttons, and an answer counts once."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

import duly
from duly.desk import asker
from duly.desk import slip as desk_slip
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.schedule import DAY_MS
from duly.rules.slip import PAIR_MS, SLIP_MS
from tests.connectors import shop
from tests.connectors.bot_server import refuse
from tests.desk.phone import ADA, ASKED, EVE, LETTER, PHONE, SOURCE, Phone, phone
from tests.web.stand import Shifted

pytestmark = pytest.mark.anyio

SENT = "Yes. Exactly this call is sent, once."
NOTHING = "Nothing was changed."
BY = "telegram:Ada (7001)"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often: a test waits for what happens, and for no clock."""
    monkeypatch.setattr(asker, "LOOK_S", 0.02)
    monkeypatch.setattr(asker, "PAUSE_S", 0.02)


@pytest.fixture
async def stand(tmp_path: Path, url: str) -> AsyncIterator[Phone]:
    async with phone(tmp_path, url) as found:
        yield found


async def decided(stand: Phone) -> list[tuple[str, str]]:
    """Return who decided what."""
    rows = await stand.host.actions()
    return [(each.by, each.verb) for each in rows if each.verb in ("approve", "reject")]


# -- An answer counts once ------------------------------------------------------------------------


async def test_a_yes_on_the_phone_sends_the_call_once(stand: Phone) -> None:
    """G11, A4, A6: the form of the tool, three buttons, one send, and who agreed."""
    async with stand.serving():
        buttons = await stand.asked()
        question = await stand.question()
        assert question["text"] == (
            "“letters” asks: may this be sent?\n\n"
            "post.send\nTo: ada@example.com\nSubject: Hello\nBody: Dear Ada\n\n"
            "The script calls it “Answer the letter”.\nFor “Letter 1”."
        )
        assert [*buttons] == ["Yes", "No", "Open"]
        assert await stand.press(buttons["Yes"]) == SENT
        await stand.until(lambda: stand.sent and stand.chat.edits)
        after = stand.chat.messages[question["message_id"]]
        assert after["text"] == f"{question['text']}\n\nApproved by {BY}."
        assert stand.chat.buttons(after) == {}
        assert await decided(stand) == [(BY, "approve")]
        again = await stand.press(buttons["Yes"])
        assert again == f"Approved by {BY}. {NOTHING}"
        assert await stand.press(buttons["No"]) == again
    assert len(stand.sent) == 1


async def test_a_no_on_the_phone_sends_nothing(stand: Phone) -> None:
    """G11, A4: and the message says so."""
    async with stand.serving():
        buttons = await stand.asked()
        assert await stand.press(buttons["No"]) == "No. Nothing is sent."
        await stand.until(lambda: stand.chat.edits)
        (edit,) = stand.chat.edits
        assert edit[1].endswith(f"Rejected by {BY}; nothing was sent.")
        assert await stand.press(buttons["Yes"]) == (
            f"Rejected by {BY}; nothing was sent. {NOTHING}"
        )
        assert await decided(stand) == [(BY, "reject")]
    assert stand.sent == []


async def test_presses_at_once_and_updates_that_come_twice_count_once(stand: Phone) -> None:
    """G11: Telegram may return an update again, and a finger may press twice."""
    stand.chat.repeats = 2
    async with stand.serving():
        buttons = await stand.asked()
        for _ in range(5):
            stand.chat.press(ADA, buttons["Yes"])
        stand.chat.press(ADA, buttons["No"])
        await stand.until(lambda: len({press for press, _ in stand.chat.answers}) == 6)
        await stand.until(lambda: stand.sent and stand.chat.edits)
        assert [told for _, told in stand.chat.answers].count(SENT) == 1
        assert await decided(stand) == [(BY, "approve")]
    assert len(stand.sent) == 1


async def test_a_press_while_the_page_decides_gives_one_decision(stand: Phone) -> None:
    """G11, A4: of several answers at once the first counts, and the others are told so."""
    async with stand.serving() as host:
        await stand.pair()
        for number in range(1, 6):
            await stand.publish(number, body=f"Letter {number}")
            buttons = stand.chat.buttons(await stand.question(count=number))
            (call,) = await host.approvals()
            acts = (
                host.approve(call.mutation, call.hash, by="page"),
                host.reject(call.mutation, by="other page"),
                stand.press(buttons["Yes" if number % 2 else "No"]),
            )
            told = await asyncio.gather(*acts, return_exceptions=True)
            refused = [each for each in told[:2] if isinstance(each, RequestRefused)]
            is_first = told[2] in (SENT, "No. Nothing is sent.")
            assert len(refused) == (2 if is_first else 1), told
            await stand.edited(number)
        rows = await decided(stand)
        assert len(rows) == 5
        assert len(stand.sent) == len([verb for _, verb in rows if verb == "approve"])


async def test_a_call_that_is_decided_elsewhere_is_told_on_the_phone(stand: Phone) -> None:
    """G11: the message says what was decided, and its buttons go."""
    async with stand.serving() as host:
        buttons = await stand.asked()
        (call,) = await host.approvals()
        await host.approve(call.mutation, call.hash, by="bob")
        await stand.until(lambda: stand.chat.edits)
        assert stand.chat.edits[0][1].endswith("Approved by bob.")
        assert await stand.press(buttons["No"]) == f"Approved by bob. {NOTHING}"
    assert len(stand.sent) == 1


async def test_a_changed_call_is_asked_about_anew(stand: Phone) -> None:
    """G11, A3: a yes is for the content that was shown, and for no other."""
    async with stand.serving() as host:
        buttons = await stand.asked()
        (call,) = await host.approvals()
        await host.amend(call.mutation, call.hash, {"body": "Dear Bob"}, by="bob")
        for choice in ("Yes", "No"):
            told = await stand.press(buttons[choice])
            assert told.startswith("The call was changed since. Nothing was changed.")
        second = await stand.question(count=2)
        await stand.until(lambda: stand.chat.edits)
        assert "Body: Dear Bob" in second["text"]
        assert "Changed by bob." in second["text"]
        assert await stand.press(stand.chat.buttons(second)["Yes"]) == SENT
        await stand.until(lambda: stand.sent)
    assert [each["body"] for each in stand.sent] == ["Dear Bob"]


async def test_a_refused_yes_says_why_and_can_be_pressed_again(stand: Phone) -> None:
    """G11, F7: nothing of a paused workflow is sent, and the button is not used up."""
    async with stand.serving() as host:
        buttons = await stand.asked()
        await host.pause("letters")
        told = await stand.press(buttons["Yes"])
        assert "paused" in told
        assert told.endswith(NOTHING)
        await host.resume("letters")
        assert await stand.press(buttons["Yes"]) == SENT
        await stand.until(lambda: stand.sent)


# -- Who may --------------------------------------------------------------------------------------


async def test_another_account_presses_in_vain(stand: Phone) -> None:
    """G11: a button is for the account that was asked, also if another is paired."""
    async with stand.serving():
        buttons = await stand.asked()
        stranger = f"This account is not paired with Duly here. {NOTHING}"
        assert await stand.press(buttons["Yes"], EVE) == stranger
        await stand.pair(EVE, "Eve")
        await stand.question(EVE)
        assert await stand.press(buttons["Yes"], EVE) == stranger
        assert await decided(stand) == []
        assert await stand.press(buttons["Yes"]) == SENT


async def test_an_account_that_was_revoked_decides_nothing(stand: Phone) -> None:
    """G11, G6: from that moment; its message says so."""
    async with stand.serving() as host:
        buttons = await stand.asked()
        await host.unpair(PHONE, "Ada", by="root")
        told = await stand.press(buttons["Yes"])
        assert told == f"This account is not paired with Duly here. {NOTHING}"
        await stand.until(lambda: stand.chat.edits)
        assert stand.chat.edits[0][1].endswith("This account is not paired any more.")
        assert await decided(stand) == []
        (phone,) = await host.channels()
        assert phone.accounts == ()
        with pytest.raises(NotFound, match="Ada"):
            await host.unpair(PHONE, "Ada")


async def test_a_code_pairs_one_account_once_within_its_minutes(stand: Phone) -> None:
    """G11: in a private chat, and never a second time."""
    clock = Shifted()
    over = "This code is not valid, or was used. Ask for another one."
    async with stand.serving(env=clock) as host:
        made = await host.pair(PHONE, "Ada", by="root")
        with pytest.raises(RequestRefused, match="Ada"):
            await host.pair(PHONE, "Ada")
        stand.chat.write(EVE, made.code, chat="group", chat_id=-5)
        stand.chat.write(EVE, "aaaaaaaaaaaaaaaa")
        await stand.until(lambda: stand.chat.shown_to(EVE))
        assert [each["text"] for each in stand.chat.shown_to(EVE)] == [over]
        clock.shift_ms = PAIR_MS
        stand.chat.write(ADA, made.code)
        await stand.until(lambda: len(stand.chat.shown_to(ADA)) == 1)
        clock.shift_ms = -PAIR_MS  # the clock is set back behind the making of the code
        stand.chat.write(ADA, made.code)
        await stand.until(lambda: len(stand.chat.shown_to(ADA)) == 2)
        assert {each["text"] for each in stand.chat.shown_to(ADA)} == {over}
        clock.shift_ms = 0
        made = await host.pair(PHONE, "Ada", by="root")
        for account in (ADA, EVE):
            stand.chat.write(account, f"  /start   {made.code.upper()} ")
        await stand.until(lambda: len(stand.chat.shown_to(EVE)) == 2)
        assert stand.chat.shown_to(ADA)[-1]["text"].startswith("This account is paired as Ada.")
        assert stand.chat.shown_to(EVE)[-1]["text"] == over
        (found,) = await host.channels()
        (paired,) = found.accounts
        assert (paired.name, paired.account, paired.actor) == ("Ada", str(ADA), BY)
        acts = [(each.by, each.verb) for each in await host.actions()][:2]
        assert acts == [(f"telegram:{ADA}", "paired"), ("root", "pair")]
    clock.close()


async def test_what_is_paired_must_be_named_and_must_ask(stand: Phone) -> None:
    """G11: one past the longest name is refused."""
    async with stand.serving() as host:
        await host.pair(PHONE, "a" * 60)
        for name in ("", " a", "a" * 61, "a\nb", "\u202e"):
            with pytest.raises(Invalid, match="name"):
                await host.pair(PHONE, name)
        with pytest.raises(RequestRefused, match="other"):
            await host.pair("other", "Ada")


# -- Restarts, lost answers, the clock ----------------------------------------------------------


async def test_a_restart_asks_nothing_again(stand: Phone) -> None:
    """G11: what was asked stands in the store."""
    async with stand.serving():
        buttons = await stand.asked()
    async with stand.serving():
        polls = len(stand.chat.polls)
        await stand.until(lambda: len(stand.chat.polls) > polls)
        assert len(stand.questions()) == 1
        assert await stand.press(buttons["Yes"]) == SENT
        await stand.until(lambda: stand.sent)
    assert len(stand.questions()) == 1


async def test_a_lost_answer_shows_a_message_twice_and_decides_once(stand: Phone) -> None:
    """G11: the first message is worth nothing, and says so."""
    async with stand.serving():
        await stand.pair()
        stand.chat.on["sendMessage"] = [shop.lost]
        await stand.publish()
        first, second = await stand.question(), await stand.question(count=2)
        assert first["text"] == second["text"]
        told = await stand.press(stand.chat.buttons(first)["Yes"])
        assert told == f"This message is not valid any more. {NOTHING} Look at the newest one."
        assert await stand.press(stand.chat.buttons(second)["Yes"]) == SENT
        await stand.until(lambda: stand.sent)
        assert await decided(stand) == [(BY, "approve")]


async def test_a_sweep_that_is_cancelled_is_over_when_its_write_is(
    stand: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11: while a host closes, a second sweep asks nothing again that is just being noted."""
    begun, late = asyncio.Event(), asyncio.Event()
    async with stand.serving():
        await stand.pair()
    async with stand.make() as host:
        await host.publish("letters", "letter", title="A letter", payload=LETTER, message_id="l")
        store, channel = host._desk().parts.store, cast("Any", host._channels.all[0])
        with monkeypatch.context() as patch:
            patch.setattr(type(channel), "heed", AsyncMock(return_value=True))
            await host.drain()
        real = store.move_slip

        async def move(*args: Any, **more: Any) -> None:
            begun.set()
            await late.wait()
            await real(*args, **more)

        monkeypatch.setattr(store, "move_slip", move)
        first = asyncio.ensure_future(channel._link.ask())
        await begun.wait()
        first.cancel()
        second = asyncio.ensure_future(channel._link.ask())
        await asyncio.wait([first, second], timeout=0.2)
        late.set()
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert len(stand.questions()) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_host_that_is_killed_at_a_press_loses_nothing(stand: Phone, when: str) -> None:
    """G11: the update is confirmed only when its act is on the disk, and the act counts once."""
    async with stand.serving():
        buttons = await stand.asked()
    number = stand.chat.press(ADA, buttons["Yes"], press="the press")
    args = [sys.executable, "-m", "tests.desk.phone_child", stand.url, stand.chat.url, when]
    child = await asyncio.create_subprocess_exec(*args, stderr=subprocess.PIPE)
    _, told = await child.communicate()
    assert child.returncode == -signal.SIGKILL, told.decode()
    assert "the press" not in dict(stand.chat.answers)
    assert number in [each["update_id"] for each in stand.chat.updates]
    async with stand.serving():
        await stand.until(lambda: "the press" in dict(stand.chat.answers))
        said = dict(stand.chat.answers)["the press"]
        assert said == (SENT if when == "before" else f"Approved by {BY}. {NOTHING}")
        await stand.until(lambda: stand.sent and stand.chat.edits)
        await stand.until(lambda: stand.chat.updates == [])
        assert await decided(stand) == [(BY, "approve")]
    assert len(stand.sent) == 1


async def test_an_old_question_is_asked_again_and_a_clock_set_back_revives_none(
    stand: Phone,
) -> None:
    """G11: after a week another message asks."""
    clock = Shifted()
    async with stand.serving(env=clock) as host:
        buttons = await stand.asked()
        clock.shift_ms = SLIP_MS + 1000
        await host.publish("letters", "letter", title="wakes", message_id="w", payload={})
        await stand.until(lambda: stand.chat.edits)
        assert "too old to be answered" in stand.chat.edits[0][1]
        clock.shift_ms = 0
        told = await stand.press(buttons["Yes"])
        assert told.startswith("This message is not valid any more.")
        assert await decided(stand) == []
    clock.close()


async def test_a_restored_store_honours_no_button_and_no_account(stand: Phone) -> None:
    """G11, H5: one of them may have been revoked after the backup was made."""
    async with stand.serving() as host:
        buttons = await stand.asked()
        await host.backup(stand.folder / "copy.db")
    (stand.folder / "copy.db").rename(stand.folder / "duly.db")
    for suffix in ("-wal", "-shm"):
        (stand.folder / f"duly.db{suffix}").unlink(missing_ok=True)
    async with stand.serving() as host:
        told = await stand.press(buttons["Yes"])
        assert told == f"This account is not paired with Duly here. {NOTHING}"
        (found,) = await host.channels()
        assert found.accounts == ()
        await stand.pair()
        told = await stand.press(buttons["Yes"])
        assert told.startswith("This message is not valid any more.")
        assert await decided(stand) == []
    assert stand.sent == []


# -- What the other side does wrong ---------------------------------------------------------------


async def test_a_flood_holds_up_no_answer(stand: Phone) -> None:
    """G11: of ten thousand updates of strangers a few are answered, and the one that counts is."""
    async with stand.serving():
        buttons = await stand.asked()
        hostile = ("\u202e", "y." + "a" * 22, "x" * 5000, None, 7, {"a": 1}, "n.\x00")
        for number in range(9_999):
            if number % 3:
                stand.chat.press(EVE, hostile[number % 7])
            else:
                stand.chat.put(message={"from": {"id": "x"}, "chat": [], "text": {}})
        assert await stand.press(buttons["Yes"]) == SENT
        await stand.until(lambda: stand.sent)
        strangers = [told for _, told in stand.chat.answers if told != SENT]
        assert len(strangers) <= 110 * asker.STRANGERS_MAX
        assert await decided(stand) == [(BY, "approve")]


async def test_a_second_poller_and_broken_answers_are_told_and_outlasted(stand: Phone) -> None:
    """G11, K8: 409, 429, 500, dropped and halved answers; then it goes on by itself."""
    stand.chat.on["getUpdates"] = [
        refuse(409, "Conflict: terminated by other getUpdates request"),
        refuse(429, "Too Many Requests", retry_after=0),
        shop.status(500),
        shop.cut_after,
        shop.raw(b"HTTP/1.1 200 X\r\nContent-Length: 99\r\n\r\n[", is_done=False),
        shop.raw(b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n[]", is_done=False),
        refuse(401, "Unauthorized"),
    ]
    async with stand.serving() as host:
        await stand.until(lambda: not stand.chat.on["getUpdates"])
        stand.chat.on["sendMessage"] = [shop.well, refuse(429, "Too Many", retry_after=0)]
        stand.chat.on["editMessageText"] = [shop.cut_after, shop.status(500)]
        stand.chat.on["answerCallbackQuery"] = [refuse(400, "query is too old")]
        buttons = await stand.asked()
        stand.chat.press(ADA, buttons["Yes"])
        await stand.until(lambda: stand.sent and stand.chat.edits)
        await stand.until(lambda: host._channels.all[0].problem is None)  # type: ignore[attr-defined]
    assert len(stand.sent) == 1


async def test_a_message_that_is_refused_keeps_no_other_from_its_way(stand: Phone) -> None:
    """G11: of two calls the first cannot be shown; the second is asked all the same."""
    async with stand.serving() as host:
        await stand.pair()
        other = SOURCE.replace('"letters"', '"more"')
        await host.deploy(duly.Source("python", other), grant=True)
        stand.chat.on["sendMessage"] = [refuse(400, "Bad Request: no such text")] * 3
        await stand.publish()
        await stand.until(lambda: not stand.chat.on["sendMessage"])
        await host.publish("more", "letter", title="More", payload=LETTER, message_id="m")
        await stand.question(count=2)


async def test_an_error_that_no_rule_foresaw_ends_no_host(
    stand: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11, A5: it is the problem of its channel, without its words; then it goes on."""
    fails = [True]
    real = desk_slip.show_call

    def broken(*args: Any, **more: Any) -> Any:
        if fails:
            raise ZeroDivisionError("secret words")
        return real(*args, **more)

    monkeypatch.setattr(asker, "show_call", broken)
    async with stand.serving() as host:
        await stand.pair()
        await stand.publish()
        channel: Any = host._channels.all[0]
        await stand.until(lambda: channel.problem == "It failed inside (ZeroDivisionError).")
        fails.clear()
        await stand.question()


async def test_retention_removes_slips_that_are_over(stand: Phone) -> None:
    """H5: and none that still asks."""
    clock = Shifted()
    policy = replace(ASKED, retention_days=1)
    async with stand.serving(env=clock, policy=policy) as host:
        buttons = await stand.asked()
        await stand.press(buttons["No"])
        await stand.edited(1)
        await stand.publish(2)
        await stand.question(count=2)
        count = "select status, count(*) from slip group by status order by status"

        desk = host._desk()
        connection = desk.parts.store.backend.connection  # type: ignore[attr-defined]

        async def rows() -> list[tuple[str, int]]:
            # The writer's thread may run this, and no host can be asked there.
            return await desk.look(lambda tx: [*connection.execute(count)])

        await stand.until(lambda: stand.chat.edits)
        clock.shift_ms = 2 * DAY_MS
        await host.tidy()
        assert await rows() == [("asked", 1)]
    clock.close()


async def test_a_channel_without_a_token_says_so(stand: Phone) -> None:
    """G11, A5: and no line holds a token."""
    async with stand.make() as host:
        await host.drop_secret("channels", f"{PHONE}.token")
    async with stand.serving() as host:
        channel = host._channels.all[0]
        await stand.until(lambda: getattr(channel, "problem", None))
        (found,) = await host.channels()
        assert found.problem is not None
        assert "has no token" in found.problem
        await host.set_secret("channels", f"{PHONE}.token", "no token of a bot")
        await stand.until(lambda: "none of a bot" in getattr(channel, "problem", ""))
        assert "no token of a bot" not in str(await host.channels())
