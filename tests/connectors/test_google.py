"""Google's services, against a double that is as strict as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.errors import AuthNeeded, ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.testing import WEB_REPLIES, examine_network
from duly.testing.doubles.base import HOST, Mishap, PlannedMishap
from duly.testing.doubles.google_mail import AUTH
from tests.connectors.google_stand import (
    BOOK,
    MAILS,
    TOKENS,
    Detour,
    StockedGoogle,
    make,
    secrets_of,
    write_mail,
)

SENT_AT = datetime(2026, 5, 1, tzinfo=UTC)
MAIL = {"to": ["bob@example.org"], "subject": "Hello", "text": "One"}
EVENT = {"title": "Tea", "start": "2026-05-01T09:00:00+02:00", "end": "2026-05-01T10:00:00+02:00"}


@pytest.fixture(scope="module")
def google() -> Iterator[StockedGoogle]:
    with StockedGoogle() as found:
        found.give_tokens(TOKENS)
        yield found


@pytest.fixture
def token(google: StockedGoogle, request: pytest.FixtureRequest) -> str:
    google.mishaps.clear()
    return f"{TOKENS}{abs(hash(request.node.nodeid))}"


def call_of(tool: str, key: str = "k-1", attempt: int = 1, handle: Any = None, **args: Any) -> Call:
    kept: list[Any] = []

    async def keep(given: Any) -> None:
        kept.append(given)

    return Call(tool, args, key, "w", attempt, SENT_AT, handle=handle, keeper=keep)


def run(work: Any) -> Any:
    return asyncio.run(work)


# -- The exam -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "tool", "path", "args", "other"),
    [
        ("gmail", "send", "/drafts/send", MAIL, MAIL),
        ("gmail", "label", "/modify", {"id": MAILS[0], "label": "Bills"}, {"id": MAILS[1]}),
        ("gmail", "archive", "/modify", {"id": MAILS[0]}, {"id": MAILS[1]}),
        ("sheets", "append", ":append", {"row": {"customer": "=1+1", "total": 2.5}}, {}),
        ("sheets", "update", "batchUpdate", {"key": "k1", "row": {"total": 7}}, {"key": "k2"}),
        ("google_calendar", "create", "/events", EVENT, {}),
        (
            "google_calendar",
            "update",
            "/events",
            {"id": "event1", "etag": '"1"', "title": "New"},
            {"id": "event2"},
        ),
        ("drive", "create", "/upload", {"name": "a.txt", "text": "One"}, {}),
    ],
)
def test_a_change_passes_the_exam_of_the_network(
    google: StockedGoogle,
    tmp_path: Path,
    kind: str,
    tool: str,
    path: str,
    args: Any,
    other: Any,
) -> None:
    """L4, L5, L14: cut, lost, silent, in drops, senseless, and every status."""
    here = f"{TOKENS}{kind}-{tool}-"

    def reach(folder: Path, port: int, *, asks: bool = False) -> Any:
        made = make(kind, google, secrets_of(f"{here}{folder.name}"))
        made.transport = Detour(port, path, asks=asks)
        return made

    report = examine_network(
        reach,
        tool,
        args,
        other_args={**args, **other},
        server=(HOST, google.port),
        effects=lambda folder: google.count(f"{here}{folder.name}"),
        folder=tmp_path / "exam",
        replies=WEB_REPLIES,
        asking=partial(reach, asks=True),
    )
    assert report.points > 30
    assert "it said unknown, it was done, reconcile said Applied" in str(report)
    assert "the server answers 401 No, and does nothing: it said sign in" in str(report)


# -- Scopes, sign-in and limits -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "tool", "args", "had", "missing"),
    [
        ("gmail", "search", {}, "gmail.compose", "gmail.readonly"),
        ("gmail", "send", MAIL, "gmail.readonly", "gmail.compose"),
        ("gmail", "archive", {"id": MAILS[0]}, "gmail.readonly", "gmail.modify"),
        ("sheets", "append", {"row": {"total": 1}}, "spreadsheets.readonly", "spreadsheets"),
        ("google_calendar", "create", EVENT, "calendar.events.readonly", "calendar.events"),
        ("drive", "read", {"id": "x"}, "drive.file", "drive.readonly"),
    ],
)
def test_a_call_without_its_scope_is_not_sent(
    google: StockedGoogle, token: str, kind: str, tool: str, args: Any, had: str, missing: str
) -> None:
    """K9: the sentence says which scope, and what to do."""
    made = make(kind, google, secrets_of(token, f"{AUTH}{had}"))
    before = len(google.asks)
    is_change = tool in ("send", "archive", "append", "create")
    given = [call_of(f"{kind}.{tool}")] if is_change else []
    with pytest.raises(AuthNeeded, match=f"{missing}. Sign in once more: duly connect {kind}"):
        run(getattr(made, tool)(*given, **args))
    assert len(google.asks) == before


def test_a_scope_that_google_itself_misses_is_a_sign_in(google: StockedGoogle, token: str) -> None:
    """K9: a person took a scope back, or the secret says more than the token has."""
    google.give_token(token, [f"{AUTH}gmail.readonly"])
    made = make("gmail", google, secrets_of(token))
    with pytest.raises(AuthNeeded):
        run(made.archive(call_of("gmail.archive"), id=MAILS[0]))
    google.revoke(token)


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (403, {"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}, {}),
        (403, {"error": {"errors": [{"reason": "rateLimitExceeded"}]}}, {}),
        (429, {"error": {"status": "RESOURCE_EXHAUSTED"}}, {"Retry-After": "7"}),
    ],
)
def test_a_limit_is_temporary_and_nothing_was_done(
    google: StockedGoogle, token: str, status: int, body: Any, headers: dict[str, str]
) -> None:
    """K8."""
    made = make("google_calendar", google, secrets_of(token))
    google.plan(PlannedMishap(Mishap.STATUS, "POST", status, body, headers))
    with pytest.raises(Transient) as raised:
        run(made.create(call_of("google_calendar.create"), **EVENT))
    assert raised.value.outcome == "refused"
    assert raised.value.retry_after_s == (7 if headers else None)
    google.plan(PlannedMishap(Mishap.STATUS, "GET", status, body, headers))
    with pytest.raises(Transient):
        run(made.list("2026-05-01", "2026-05-02"))


# -- Gmail ----------------------------------------------------------------------------------------


def test_a_search_returns_each_mail_that_came_and_the_history_goes_on(
    google: StockedGoogle, token: str
) -> None:
    """K11: also when the history does not reach back any more."""
    mailbox = make("gmail", google, secrets_of(token))
    first = run(mailbox.search("subject:invoice"))
    assert [each["subject"] for each in first.items] == ["Invoice 1"]
    assert first.items[0]["from"] == "bob@example.org"
    assert not first.names["has_more"]
    google.put_mail(token, write_mail("Invoice 2"))
    google.put_mail(token, write_mail("Invoice 3"), "TRASH")
    then = run(mailbox.search("subject:invoice", first.names["last_cursor"]))
    assert [each["subject"] for each in then.items] == ["Invoice 2"]
    assert run(mailbox.search("", then.names["last_cursor"])).items == []
    google.account(token)["oldest"] = 10**6
    anew = run(mailbox.search("subject:invoice", then.names["last_cursor"]))
    assert [each["subject"] for each in anew.items] == ["Invoice 2", "Invoice 1"]
    with pytest.raises(Refused, match="no cursor"):
        run(mailbox.search("", "elsewhere"))
    with pytest.raises(Refused, match="no label"):
        run(mailbox.search("", None, "Nowhere"))


def test_a_search_of_many_mails_goes_from_page_to_page(google: StockedGoogle, token: str) -> None:
    """K11: what comes during the search is not lost."""
    for each in range(23):
        google.put_mail(token, write_mail(f"Mail {each}"))
    mailbox = make("gmail", google, secrets_of(token))
    page = run(mailbox.search("newer_than:3d"))
    found = [each["subject"] for each in page.items]
    google.put_mail(token, write_mail("Late"))
    while page.names["has_more"] or page.items:
        page = run(mailbox.search("newer_than:3d", page.names["last_cursor"]))
        found += [each["subject"] for each in page.items]
    assert {*found} == {"Invoice 1", "Hello", "Late", *(f"Mail {each}" for each in range(23))}


def test_a_mail_is_read_with_its_attachments(google: StockedGoogle, token: str) -> None:
    """K7, K15."""
    mailbox = make("gmail", google, secrets_of(token))
    blobs = MemoryBlobs()
    with using_blobs(blobs):
        mail = run(mailbox.get(MAILS[0]))
        file = run(mailbox.attachment(MAILS[0]))
    assert (mail["text"].strip(), mail["attachments"]) == ("Invoice 1, please.", ["a.pdf"])
    assert mail["labels"] == ["INBOX", "UNREAD"]
    assert (file["name"], file["type"], file["size"]) == ("a.pdf", "application/pdf", 6)
    assert run(mailbox.get("00ff")) is None
    with pytest.raises(Refused, match="no id of a mail"):
        run(mailbox.get("../drafts"))


def test_a_lost_draft_sends_nothing_and_a_kept_one_is_sent_once(
    google: StockedGoogle, token: str
) -> None:
    """L14: the draft is known before it is sent; one of another key is not used."""
    mailbox = make("gmail", google, secrets_of(token))
    google.plan(PlannedMishap(Mishap.LOST, "/drafts$"))
    with pytest.raises(NotSent, match="No mail was sent"):
        run(mailbox.send(call_of("gmail.send"), **MAIL))
    assert google.sent_mails(token) == []
    call = call_of("gmail.send")
    google.plan(PlannedMishap(Mishap.LOST, "/send$"))
    with pytest.raises(UnknownOutcome):
        run(mailbox.send(call, **MAIL))
    again = call_of("gmail.send", attempt=2, handle=call.handle)
    with pytest.raises(UnknownOutcome, match="404"):
        run(mailbox.send(again, **MAIL))
    verdict = run(mailbox.send_happened(again))
    assert isinstance(verdict, Applied)
    assert len(google.sent_mails(token)) == 1
    other = call_of("gmail.send", "k-2", handle=call.handle)
    assert run(mailbox.send_happened(other)) == NotApplied()
    assert run(mailbox.send(other, **MAIL))["id"] != verdict.result["id"]
    assert len(google.sent_mails(token)) == 2


def test_a_draft_that_a_person_deleted_is_neither_sent_nor_unsent(
    google: StockedGoogle, token: str
) -> None:
    """L5."""
    mailbox = make("gmail", google, secrets_of(token))
    google.plan(PlannedMishap(Mishap.CUT, "/send$"))
    call = call_of("gmail.send")
    with pytest.raises(UnknownOutcome):
        run(mailbox.send(call, **MAIL))
    assert run(mailbox.send_happened(call)) == NotApplied()
    account = google.account(token)
    account["messages"].pop(account["drafts"].popitem()[1])
    assert isinstance(run(mailbox.send_happened(call)), Unsure)


def test_a_label_is_set_and_taken_away(google: StockedGoogle, token: str) -> None:
    mailbox = make("gmail", google, secrets_of(token))
    run(mailbox.label(call_of("gmail.label"), id=MAILS[0], label="Bills"))
    assert "Label_1" in run(mailbox.get(MAILS[0]))["labels"]
    off: dict[str, Any] = {"id": MAILS[0], "label": "Bills", "on": False}
    call = call_of("gmail.label", **off)
    assert run(mailbox.label_happened(call)) == NotApplied()
    run(mailbox.label(call, **off))
    assert run(mailbox.label_happened(call)) == Applied({"id": MAILS[0]})
    run(mailbox.archive(call_of("gmail.archive"), id=MAILS[0]))
    assert run(mailbox.get(MAILS[0]))["labels"] == ["UNREAD"]
    assert isinstance(run(mailbox.archive_happened(call_of("x", id="00ff"))), Unsure)


# -- Sheets ---------------------------------------------------------------------------------------


def test_rows_are_read_appended_and_changed(google: StockedGoogle, token: str) -> None:
    """K12: a text stays a text."""
    sheet = make("sheets", google, secrets_of(token))
    page = run(sheet.read())
    assert page.items[0] == {
        "id": "k1",
        "row": 2,
        "key": "k1",
        "cells": {"customer": "Bob", "total": 1, "paid": True},
    }
    cursor = page.names["last_cursor"]
    assert (cursor.partition(".")[0], page.names["has_more"]) == ("2", False)
    made = run(sheet.append(call_of("sheets.append"), row={"customer": "=HYPERLINK(1)"}))
    rows = google.account(token)["books"][BOOK]["Bills"]
    assert rows[3] == ["=HYPERLINK(1)", "", "", made["key"]]
    asked = google.asked(":append")[-1]
    assert asked.query["valueInputOption"] == "RAW"
    assert [each["row"] for each in run(sheet.read(cursor)).items] == [4]
    run(sheet.update(call_of("sheets.update"), key=made["key"], row={"total": 3, "paid": None}))
    assert rows[3] == ["=HYPERLINK(1)", 3, "", made["key"]]


def test_many_rows_come_in_pages(google: StockedGoogle, token: str) -> None:
    google.put_sheet(token, BOOK, "Bills", [["a", "duly_key"], *[[n, ""] for n in range(1, 1203)]])
    sheet = make("sheets", google, secrets_of(token))
    seen: list[int] = []
    after, has_more = None, True
    while has_more:
        page = run(sheet.read(after))
        seen += [each["cells"]["a"] for each in page.items]
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert seen == [*range(1, 1203)]


def test_a_sheet_without_its_key_column_is_not_written(google: StockedGoogle, token: str) -> None:
    """K1: what could not be found again is not sent."""
    sheet = make("sheets", google, secrets_of(token))
    call = call_of("sheets.append")
    run(sheet.append(call, row={"total": 1}))
    google.account(token)["books"][BOOK]["Bills"][0][3] = "other"
    with pytest.raises(Refused, match="write duly_key into the first row"):
        run(sheet.append(call_of("sheets.append", "k-2"), row={"total": 1}))
    assert isinstance(run(sheet.append_happened(call)), Unsure)
    assert google.count(token) == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "at least one column"),
        ({"nowhere": 1}, "no column 'nowhere'"),
        ({"duly_key": "x"}, "no column 'duly_key'"),
        ({"total": [1]}, "no text, number"),
        ({"total": "x" * 50_001}, "at most 50000 characters"),
    ],
)
def test_what_is_no_row_is_refused(google: StockedGoogle, token: str, row: Any, said: str) -> None:
    sheet = make("sheets", google, secrets_of(token))
    with pytest.raises(Refused, match=said):
        run(sheet.append(call_of("sheets.append"), row=row))
    assert google.count(token) == 0


def test_a_key_that_two_rows_have_is_not_changed(google: StockedGoogle, token: str) -> None:
    sheet = make("sheets", google, secrets_of(token))
    google.account(token)["books"][BOOK]["Bills"][2][3] = "k1"
    with pytest.raises(Refused, match="several rows"):
        run(sheet.update(call_of("sheets.update"), key="k1", row={"total": 1}))
    with pytest.raises(Refused, match="no row has the key"):
        run(sheet.update(call_of("sheets.update"), key="k9", row={"total": 1}))


# -- Calendar -------------------------------------------------------------------------------------


def test_events_are_made_listed_and_changed(google: StockedGoogle, token: str) -> None:
    calendar = make("google_calendar", google, secrets_of(token))
    call = call_of("google_calendar.create")
    made = run(calendar.create(call, **EVENT))
    page = run(calendar.list("2026-05-01", "2026-05-02"))
    shown = {each["id"]: each for each in page.items}[made["id"]]
    assert (shown["title"], shown["all_day"]) == ("Tea", False)
    assert shown["start"] == "2026-05-01T09:00:00+02:00"
    for start, end in (("2026-05-02", "2026-05-03"), ("2026-04-30", "2026-05-01")):
        others = run(calendar.list(start, end)).items
        assert made["id"] not in [each["id"] for each in others]
    change = {"id": made["id"], "etag": made["etag"], "start": "2026-06-01", "end": "2026-06-02"}
    later = call_of("google_calendar.update", "k-2", **change)
    assert run(calendar.update_happened(later)) == NotApplied()
    run(calendar.update(later, **change))
    assert run(calendar.get(made["id"]))["all_day"]
    with pytest.raises(Refused, match="412"):
        run(calendar.update(call_of("google_calendar.update", "k-3", **change), **change))
    google.account(token)["events"]["primary", made["id"]]["status"] = "cancelled"
    assert isinstance(run(calendar.create_happened(call)), Applied)


def test_an_id_that_is_taken_is_asked_about_and_not_refused(
    google: StockedGoogle, token: str
) -> None:
    """L7: the first send was made, and its answer lost; the second meets its own event."""
    calendar = make("google_calendar", google, secrets_of(token))
    google.plan(PlannedMishap(Mishap.LOST, "POST"))
    for _ in range(2):
        with pytest.raises(UnknownOutcome):
            run(calendar.create(call_of("google_calendar.create"), **EVENT))
    assert google.count(token) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"title": " "}, "has a title"),
        ({"start": "tomorrow"}, "is no time"),
        ({"start": "2026-05-01T09:00:00"}, "is no time"),
        ({"start": "2026-05-01"}, "both times, or both dates"),
        ({"end": EVENT["start"]}, "ends after it has begun"),
        ({"location": "x" * 8_001}, "at most 8000 characters"),
    ],
)
def test_what_is_no_event_is_refused(
    google: StockedGoogle, token: str, change: dict[str, str], said: str
) -> None:
    calendar = make("google_calendar", google, secrets_of(token))
    with pytest.raises(Refused, match=said):
        run(calendar.create(call_of("google_calendar.create"), **{**EVENT, **change}))
    assert google.count(token) == 0


# -- Drive ----------------------------------------------------------------------------------------


def test_files_are_made_listed_and_read(google: StockedGoogle, token: str) -> None:
    """K15: bytes travel as blobs."""
    drive = make("drive", google, secrets_of(token))
    blobs = MemoryBlobs()
    data = bytes(range(256)) * 10 + b"\r\n--duly"
    file: Any = blobs.put(data, "a.bin", "application/x-thing")
    with using_blobs(blobs):
        made = run(drive.create(call_of("drive.create"), name="it's.bin", file=file, folder="f1"))
        back = run(drive.read(made["id"]))
        assert run(blobs.open(back)) == data
    assert (back["name"], back["type"]) == ("it's.bin", "application/x-thing")
    other = google.put_file(token, "note.txt", b"hi")
    assert {each["id"] for each in run(drive.list()).items} == {made["id"], other}
    assert [each["id"] for each in run(drive.list("f1")).items] == [made["id"]]
    assert [each["name"] for each in run(drive.list(name="it's.bin")).items] == ["it's.bin"]
    document = google.put_file(token, "Plan", b"Text", "application/vnd.google-apps.document")
    with using_blobs(blobs):
        found = run(drive.read(document))
        assert (found["name"], found["type"]) == ("Plan.txt", "text/plain")
        assert run(drive.read("nothing")) is None
    folder = google.put_file(token, "F", b"", "application/vnd.google-apps.folder")
    with pytest.raises(Refused, match="no contents"):
        run(drive.read(folder))


def test_a_file_in_the_bin_was_made(google: StockedGoogle, token: str) -> None:
    """L5."""
    drive = make("drive", google, secrets_of(token))
    call = call_of("drive.create")
    made = run(drive.create(call, name="a.txt", text="One"))
    google.account(token)["files"][made["id"]]["trashed"] = True
    assert run(drive.create_happened(call)) == Applied({"id": made["id"], "name": "a.txt"})
    google.plan(PlannedMishap(Mishap.STATUS, "GET", 200, {"files": [], "incompleteSearch": True}))
    assert isinstance(run(drive.create_happened(call_of("drive.create", "k-2"))), Unsure)


def test_a_drive_of_its_own_files_asks_for_less(google: StockedGoogle, token: str) -> None:
    """K9."""
    drive = make("drive", google, secrets_of(token, f"{AUTH}drive.file"), only_own=True)
    assert run(drive.list()).items == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"name": ""}, "has a name"),
        ({"name": "a\nb"}, "has a name"),
        ({"name": "a", "folder": "x' or '1"}, "no id of a file"),
        ({"name": "a", "text": "x" * 1_000_001}, "1,000,000 characters"),
        (
            {"name": "a", "file": {"blob": "x", "name": "a", "type": "b/c", "size": 5 * 2**20 + 1}},
            "5,242,880 bytes",
        ),
    ],
)
def test_what_is_no_file_is_refused(
    google: StockedGoogle, token: str, args: Any, said: str
) -> None:
    drive = make("drive", google, secrets_of(token))
    with pytest.raises(Refused, match=said):
        run(drive.create(call_of("drive.create"), **args))
    assert google.count(token) == 0


def test_settings_that_cannot_be_right_are_refused(google: StockedGoogle) -> None:
    from duly.connectors.gmail import Gmail
    from duly.connectors.google_calendar import GoogleCalendar
    from duly.connectors.sheets import Sheets

    with pytest.raises(ConfigError, match="client_id"):
        GoogleCalendar("")
    with pytest.raises(ConfigError, match="address"):
        Gmail("client", "not an address")
    with pytest.raises(ConfigError, match="spreadsheet"):
        Sheets("client", "https://docs.google.com/x", "Bills")
    with pytest.raises(ConfigError, match="sheet: "):
        Sheets("client", BOOK, "")
    with pytest.raises(ConfigError, match="calendar: "):
        GoogleCalendar("client", calendar="")
