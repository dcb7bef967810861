"""Slack: a message is posted once, found by its metadata, and is never more than a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.connectors.key_place import spell
from duly.connectors.slack import Slack
from duly.errors import AuthNeeded, NotSent, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.testing.doubles.base import Mishap, PlannedMishap
from duly.testing.doubles.slack import BOT, CHANNEL, SlackDouble
from tests.connectors.service_exam import TOKEN, happened, make_call, reach, send, take_exam

pytestmark = pytest.mark.anyio

FIRST, SECOND = "1800000000.000001", "1800000000.000002"
POST: dict[str, Any] = {"channel": CHANNEL, "text": "Tea <!channel> & *more*"}


class Desk(SlackDouble):
    """A workspace in which the app has posted two messages."""

    def new_account(self) -> dict[str, Any]:
        own = [{"type": "message", "user": BOT, "text": "x", "ts": ts} for ts in (FIRST, SECOND)]
        return {**super().new_account(), "messages": own}


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Desk() as made:
        yield made


@pytest.fixture
def slack(desk: Desk) -> Any:
    desk.accounts.clear()
    desk.mishaps.clear()
    desk.give_token(TOKEN)
    return reach(desk, Slack)


@pytest.mark.parametrize(
    ("tool", "args", "other"),
    [
        ("post", POST, {}),
        ("post", {**POST, "thread": FIRST}, {}),
        ("update", {**POST, "ts": FIRST}, {"ts": SECOND}),
        ("react", {"channel": CHANNEL, "ts": FIRST, "emoji": "tea"}, {"ts": SECOND}),
    ],
)
def test_a_change_passes_the_exam_for_the_network(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    args: dict[str, Any],
    other: dict[str, Any],
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    desk.accounts.clear()
    report = take_exam(desk, Slack, tool, args, tmp_path, monkeypatch, other=other)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


def test_an_upload_passes_the_exam_at_its_last_step(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L14: its first step leaves nothing that a person sees."""
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"%PDF", "a.pdf", "application/pdf")
    desk.accounts.clear()
    with using_blobs(blobs):
        args = {"channel": CHANNEL, "file": file}
        report = take_exam(desk, Slack, "upload", args, tmp_path, monkeypatch, skips=2)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


async def test_a_file_that_a_person_deleted_is_not_uploaded_again(desk: Desk, slack: Any) -> None:
    """L6: Slack says of a deleted file that it was; of one that was not completed it knows none."""
    call = replace(make_call("slack.upload", channel=CHANNEL, file={}), handle="F001")
    assert await slack.upload_happened(call) == NotApplied()
    desk.account(TOKEN)["deleted"].append("F001")
    assert isinstance(await slack.upload_happened(call), Unsure)
    for key, wanted in (
        ("k1", Unsure),
        ("k2", NotApplied),
    ):  # the file of another call says nothing
        own = replace(call, handle=[spell("{key_short}", key), "F001"])
        assert isinstance(await slack.upload_happened(own), wanted)


async def test_a_text_is_never_a_mention(desk: Desk, slack: Any) -> None:
    """K12: it comes back as it was given."""
    made = await send(slack, "post", **POST)
    assert made["channel"] == CHANNEL
    sent = desk.asked("POST /chat.postMessage")[-1].body.decode()
    assert "Tea &lt;!channel&gt; &amp; *more*" in sent
    assert '"mrkdwn":false' in sent
    assert '"parse":"none"' in sent
    page = await slack.history(CHANNEL)
    assert page.items[-1]["text"] == POST["text"]


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("token_revoked", AuthNeeded),
        ("missing_scope", PermissionDenied),
        ("not_in_channel", PermissionDenied),
        ("msg_too_long", Refused),
        ("message_limit_exceeded", PermissionDenied),
        ("posting_to_channel_denied", PermissionDenied),
        ("team_not_found", Refused),
        ("update_failed", UnknownOutcome),
        ("ratelimited", Transient),
        ("fatal_error", UnknownOutcome),
        ("a_word_of_tomorrow", UnknownOutcome),
        ("", UnknownOutcome),
    ],
)
async def test_a_refusal_with_status_200_is_understood(
    desk: Desk, slack: Any, word: str, error: type[Exception]
) -> None:
    """L4: a word that is not known says nothing about a change."""
    said = {"ok": False, "error": word}
    plan = PlannedMishap(Mishap.STATUS, status=200, body=said)
    desk.plan(plan)
    with pytest.raises(error) as caught:
        await send(slack, "post", **POST)
    if isinstance(caught.value, Transient):
        assert caught.value.outcome == "refused"
    desk.plan(plan)
    wanted = Transient if error in (UnknownOutcome, Transient) else error
    with pytest.raises(wanted):
        await slack.history(CHANNEL)


async def test_a_rate_limit_says_when(desk: Desk, slack: Any) -> None:
    """K8: Retry-After."""
    desk.plan(PlannedMishap(Mishap.STATUS, status=429, headers={"Retry-After": "30"}))
    with pytest.raises(Transient) as caught:
        await send(slack, "post", **POST)
    assert (caught.value.retry_after_s, caught.value.outcome) == (30, "refused")


async def test_what_slack_would_refuse_is_refused(desk: Desk, slack: Any) -> None:
    """K12: and the double refuses what the connector lets through."""
    before = len(desk.asks)
    for args in (
        {"channel": "#tea", "text": "x"},
        {"channel": CHANNEL, "text": " "},
        {"channel": CHANNEL, "text": "x" * 40_001},
        {"channel": CHANNEL, "text": "&" * 8_001},
        {"channel": CHANNEL, "text": "x", "thread": "1"},
    ):
        with pytest.raises(Refused):
            await send(slack, "post", **args)
    with pytest.raises(Refused):
        await send(slack, "react", channel=CHANNEL, ts=FIRST, emoji=":tea:")
    with pytest.raises(Refused, match="1 to 4,000"):
        await send(slack, "update", channel=CHANNEL, ts=FIRST, text="x" * 4_001)
    assert len(desk.asks) == before
    with pytest.raises(Refused, match="channel_not_found"):
        await send(slack, "post", channel="C0000000", text="x")
    with pytest.raises(Refused, match="thread_not_found"):
        await send(slack, "post", channel=CHANNEL, text="x", thread="1.000001")
    desk.give_token("reader", ("channels:history",))
    with pytest.raises(PermissionDenied, match=r"missing_scope \(chat:write\)"):
        await send(reach(desk, Slack, "reader"), "post", **POST)
    with pytest.raises(AuthNeeded, match="invalid_auth"):
        await send(reach(desk, Slack, "none"), "post", **POST)


async def test_a_message_that_was_changed_since_leaves_it_to_a_person(slack: Any) -> None:
    """L5: whether it was changed by this call cannot be known any more."""
    args = {"channel": CHANNEL, "ts": FIRST, "text": "new"}
    assert await happened(slack, "update", **args) == NotApplied()
    await send(slack, "update", **args)
    assert isinstance(await happened(slack, "update", **args), Applied)
    assert isinstance(await happened(slack, "update", "k2", **args), Unsure)
    with pytest.raises(Refused, match="message_not_found"):
        await send(slack, "update", channel=CHANNEL, ts="1.000001", text="x")


async def test_a_reaction_that_is_there_is_enough(slack: Any) -> None:
    args = {"channel": CHANNEL, "ts": FIRST, "emoji": "tea"}
    await send(slack, "react", **args)
    await send(slack, "react", "k2", **args)
    assert await happened(slack, "react", **args) == Applied()


async def test_no_message_is_missed(
    desk: Desk, slack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: the newest come first from Slack, in small pages, and the oldest first to a script."""
    monkeypatch.setattr(desk, "page_max", 15)
    first = await slack.history(CHANNEL)
    assert [each["id"] for each in first.items] == [FIRST, SECOND]
    wanted = [desk.write(TOKEN, f"Hello {number}") for number in range(130)]
    seen, after = [], first.names["last_cursor"]
    while True:
        page = await slack.history(CHANNEL, after=after)
        seen += [each["id"] for each in page.items]
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            break
    assert seen == wanted
    assert (await slack.history(CHANNEL, after=after)).items == []
    monkeypatch.setattr("duly.connectors.slack.PAGES_MAX", 2)
    with pytest.raises(Refused, match="more than 400 messages since"):
        await slack.history(CHANNEL, after=SECOND)
    posted = await happened(slack, "post", **POST)
    assert isinstance(posted, Unsure)


async def test_channels_and_files_are_listed(desk: Desk, slack: Any) -> None:
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"%PDF", "a.pdf", "application/pdf")
    with using_blobs(blobs):
        made = await _upload(slack, file)
    (listed,) = (await slack.files(CHANNEL)).items
    assert (listed["id"], listed["name"], listed["size"]) == (made["file"], "a.pdf", 4)
    (channel,) = (await slack.channels()).items
    assert channel == {"id": CHANNEL, "name": "tea", "topic": "Tea", "is_member": True}


async def test_a_file_goes_to_the_account_of_its_token(desk: Desk, slack: Any) -> None:
    """K4: also where several tokens are of one account, and bytes that do not fit are refused."""
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"%PDF", "a.pdf", "application/pdf")
    desk.give_token(TOKEN, account="ada")
    try:
        with using_blobs(blobs):
            made = await _upload(slack, file)
            assert [each["id"] for each in desk.account("ada")["files"]] == [made["file"]]
            desk.plan(PlannedMishap(Mishap.STATUS, "POST /upload", status=400))
            with pytest.raises(NotSent, match="400"):
                await _upload(slack, file)
    finally:
        desk.give_token(TOKEN)


async def test_an_empty_file_is_refused_before_anything_is_sent(desk: Desk, slack: Any) -> None:
    """L4: Slack wants at least one byte, so nothing is asked."""
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"", "a.pdf", "application/pdf")
    desk.asks.clear()
    with using_blobs(blobs), pytest.raises(Refused, match="no bytes"):
        await _upload(slack, file)
    assert desk.asks == []


async def test_a_place_for_a_file_elsewhere_is_not_used(desk: Desk, slack: Any) -> None:
    """K3, K4: bytes go to Slack alone."""
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"%PDF", "a.pdf", "application/pdf")
    for url in ("https://evil.example/x", "http://files.slack.com/x", "no"):
        said = {"ok": True, "upload_url": url, "file_id": "F1"}
        desk.plan(PlannedMishap(Mishap.STATUS, "getUpload", status=200, body=said))
        with using_blobs(blobs), pytest.raises(NotSent, match="Slack named"):
            await _upload(slack, file)


async def _upload(slack: Any, file: Any) -> Any:
    from dataclasses import replace

    from tests.connectors.service_exam import make_call

    async def keep(handle: Any) -> None:
        return None

    args = {"channel": CHANNEL, "file": file}
    return await slack.upload(replace(make_call("slack.upload", **args), keeper=keep), **args)
