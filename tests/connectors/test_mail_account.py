"""A mail account on real servers: every mail once, every send once, and what can be said of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.imap import encode_folder
from duly.connectors.mail_account import MailAccount
from duly.connectors.registry import Registry
from duly.errors import (
    AuthNeeded,
    ConfigError,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.value import Json
from duly.testing import examine
from tests.connectors.filing import FILED, TO_BOB, count_filed, mail_of, make_filing
from tests.connectors.post_office import PASSWORD, PostOffice

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_NUMBERS = count()


@pytest.fixture
def name() -> str:
    """Return a name for an account and its folders that no other test has."""
    return f"a{next(_NUMBERS)}"


def call(tool: str, key: str = "k1", **args: Any) -> Call:
    """Spell a call, as the ledger would; what it keeps is on the call itself."""

    async def keep(handle: Json) -> None:
        pass

    return Call(f"mail.{tool}", args, key, "flow", 1, NOW, keeper=keep)


# -- Reading --------------------------------------------------------------------------------------


async def test_every_mail_is_found_once_in_the_order_of_arrival(
    office: PostOffice, name: str
) -> None:
    """K11: a cursor goes on where it was, also between two pages and after new arrivals."""
    for number in range(3):
        office.put(name, mail_of(number))
    mail = office.account()
    first = await mail.search(folder=name)
    assert [each["subject"] for each in first.items] == ["0", "1", "2"]
    assert first.names["has_more"] is False
    office.put(name, mail_of(3))
    later = await mail.search(folder=name, after=first.names["last_cursor"])
    assert [each["message_id"] for each in later.items] == ["<3@example.org>"]
    again = await mail.search(folder=name, after=later.names["last_cursor"])
    assert (again.items, again.names["last_cursor"]) == ([], later.names["last_cursor"])
    assert office.ids(name, "SEEN") == []


async def test_a_page_that_is_full_goes_on_behind_its_last_mail(
    office: PostOffice, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: no limit of a search loses a mail."""
    monkeypatch.setattr("duly.connectors.mail_account.BATCH", 2)
    monkeypatch.setattr("duly.connectors.mail_account.LOOKED_AT_MAX", 2)
    monkeypatch.setattr("duly.connectors.mail_account.WINDOW", 3)
    for number in range(5):
        office.put(name, mail_of(number))
    mail, after, found, pages = office.account(), None, [], 0
    while True:
        page = await mail.search(folder=name, after=after)
        found += [each["subject"] for each in page.items]
        after, pages = page.names["last_cursor"], pages + 1
        if not page.names["has_more"]:
            break
    assert (found, pages) == (["0", "1", "2", "3", "4"], 3)


async def test_a_folder_that_was_made_anew_is_read_from_its_beginning(
    office: PostOffice, name: str
) -> None:
    """K11: ids of another validity say nothing; the old mail is not taken for a new one."""
    office.put(name, mail_of(0))
    mail = office.account()
    before = await mail.search(folder=name)
    with office.signed_in() as client:
        client.delete(name)
    office.put(name, mail_of(7))
    after = await mail.search(folder=name, after="1." + before.names["last_cursor"].split(".")[1])
    assert [each["subject"] for each in after.items] == ["7"]
    if after.items[0]["id"] != before.items[0]["id"]:
        assert await mail.read(before.items[0]["id"]) is None


async def test_a_query_means_what_it_means_in_a_mailbox(office: PostOffice, name: str) -> None:
    """The terms are those of `mailbox.search`; `newer_than` counts without a cursor only."""
    office.put(name, mail_of(0, "Invoice 7", "ada@example.org"))
    office.put(name, mail_of(1, "Holiday"))
    mail = office.account()
    assert len((await mail.search("from:ada", folder=name)).items) == 1
    assert len((await mail.search('subject:"invoice 7"', folder=name)).items) == 1
    assert len((await mail.search("newer_than:1d", folder=name)).items) == 2
    with pytest.raises(Refused, match="no term"):
        await mail.search("colour:red", folder=name)


async def test_a_mail_of_html_is_read_as_text(office: PostOffice, name: str) -> None:
    """K7: markup of a stranger becomes words, in the locked process."""
    page = b"<html><head><style>x{}</style></head><body><p>Hello</p><script>evil()</script>there"
    office.put(name, b"From: e@x.org\r\nSubject: s\r\nContent-Type: text/html\r\n\r\n" + page)
    mail = office.account()
    (item,) = (await mail.search(folder=name)).items
    whole = await mail.read(item["id"])
    assert whole is not None
    assert whole["text"] == "Hello\nthere"
    assert await mail.read(item["id"].rpartition(".")[0] + ".999") is None


async def test_a_mail_that_breaks_its_reader_costs_only_itself(
    office: PostOffice, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: it is returned with a problem, and the next one is read."""
    office.put(name, mail_of(0))
    office.put(name, mail_of(1))
    mail = office.account()
    read, calls = mail.readers.read, count()

    def broken(reader: str, data: bytes, kind: type[Any]) -> Any:
        from duly.connectors.reader import Unreadable

        if next(calls) == 0:
            raise Unreadable("it took too long")
        return read(reader, data, kind)

    monkeypatch.setattr(mail.readers, "read", broken)
    first, second = (await mail.search(folder=name)).items
    assert "took too long" in (first["problem"] or "")
    assert (second["subject"], second["problem"]) == ("1", None)


@pytest.mark.parametrize("wrong", ["x", "INBOX#1", "INBOX#a.b", "#1.2", f"I#1.{'9' * 5000}"])
async def test_a_name_that_is_no_mail_is_refused(office: PostOffice, wrong: str) -> None:
    """The script's own mistake, before anything is asked."""
    with pytest.raises(Refused, match="no id of a mail"):
        await office.account().read(wrong)


async def test_a_folder_that_is_missing_is_refused(office: PostOffice) -> None:
    """The server says no, in words that name the folder."""
    with pytest.raises(Refused, match="'Nowhere' cannot be opened"):
        await office.account().search(folder="Nowhere")


# -- Sending --------------------------------------------------------------------------------------


async def test_a_mail_is_sent_and_found_again(office: PostOffice, name: str) -> None:
    """L5, L7: by its id and by a header of its own, both made from the key."""
    mail, sent = office.account(name), call("send", **TO_BOB)
    made = await mail.send(sent, **TO_BOB)
    sender, receivers, data = office.taken[-1]
    assert (sender, receivers) == (f"{name}@example.com", ("bob@example.org",))
    assert made["message_id"].encode() in data
    assert b"\r\n.\r\nTwo" in data
    assert await mail.send_happened(sent) == Applied(made)
    assert await mail.send_happened(call("send", "k2", **TO_BOB)) == NotApplied()


async def test_a_lost_answer_is_unknown_and_then_found(office: PostOffice, name: str) -> None:
    """L4, L5: the server took the mail and said nothing."""
    mail, sent = office.account(name), call("send", **TO_BOB)
    office.is_silent = True
    with pytest.raises(UnknownOutcome, match="may have been sent"):
        await mail.send(sent, **TO_BOB)
    office.is_silent = False
    assert isinstance(await mail.send_happened(sent), Applied)


async def test_a_folder_that_was_not_seen_before_denies_nothing(
    office: PostOffice, name: str
) -> None:
    """L5: without a server nothing can be asked."""
    office.make_folder(f"Sent-{name}")
    sent = call("send", **TO_BOB)
    mail = office.account(name)
    assert await mail.send_happened(sent) == NotApplied()  # it was not even begun
    object.__setattr__(sent, "handle", [0, 1])
    assert isinstance(await mail.send_happened(sent), Unsure)
    await mail.send(sent, **TO_BOB)
    assert isinstance(await mail.send_happened(sent), Applied)
    assert isinstance(await office.account(name, sent=None).send_happened(sent), Unsure)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"to": ["bob@example.org", "nobody@example.org"]}, Refused),
        ({"to": ["busy@example.org"]}, Transient),
        ({"subject": "two\nlines"}, Refused),
        ({"subject": "x\r\nBcc: eve@example.org"}, Refused),
        ({"to": ["a@x.org, b@x.org"]}, Refused),
        ({"to": []}, Refused),
        ({"to": ["bob@exämple.org"]}, Refused),
        ({"reply_to": "<1@x>\r\nBcc: eve@x.org"}, Refused),
        ({"text": "a\0b"}, Refused),
    ],
)
async def test_a_mail_goes_to_all_or_to_none(
    office: PostOffice, name: str, args: dict[str, Any], error: type[Exception]
) -> None:
    """L4, K12: a refusal is definite, and nothing of a text becomes a header or a receiver."""
    given = {**TO_BOB, **args}
    before = len(office.taken)
    with pytest.raises(error) as raised:
        await office.account(name).send(call("send", **given), **given)
    assert len(office.taken) == before
    if isinstance(raised.value, Transient):
        assert raised.value.outcome == "refused"


async def test_a_mail_that_is_refused_at_its_end_was_not_sent(
    office: PostOffice, name: str
) -> None:
    """L4: the reply to the last line is an answer, also when it is a no."""
    office.refuses_data = True
    with pytest.raises(Refused, match="552"):
        await office.account(name).send(call("send", **TO_BOB), **TO_BOB)
    office.refuses_data = False


async def test_a_wrong_password_waits_for_a_person(office: PostOffice) -> None:
    """L4: nothing was sent, and a person must sign in."""
    mail = office.account()
    object.__setattr__(mail, "_vault", lambda connector, secret: "wrong")
    for work in (mail.send(call("send", **TO_BOB), **TO_BOB), mail.search()):
        with pytest.raises(AuthNeeded) as raised:
            await work
        assert raised.value.connect == "mail"


# -- Filing ---------------------------------------------------------------------------------------


async def test_a_mail_is_moved_and_flagged_and_found_by_its_mark(
    office: PostOffice, name: str
) -> None:
    """L5: each call leaves a mark of its own; a look-alike is not the call."""
    office.put(name, mail_of(0))
    office.make_folder(f"{name}-done")
    mail = office.account()
    (item,) = (await mail.search(folder=name)).items
    flag = call("flag", "f1", id=item["id"], flag="seen")
    assert await mail.flag_happened(flag) == NotApplied()
    await mail.flag(flag, item["id"], "seen")
    assert await mail.flag_happened(flag) == Applied({"id": item["id"]})
    assert await mail.flag_happened(call("flag", "f2", **flag.args)) == NotApplied()
    assert len(office.ids(name, "SEEN")) == 1
    await mail.flag(call("flag", "f3", id=item["id"], flag="seen"), item["id"], "seen", on=False)
    assert office.ids(name, "SEEN") == []
    move = call("move", "m1", id=item["id"], folder=f"{name}-done")
    assert await mail.move_happened(move) == NotApplied()
    await mail.move(move, item["id"], f"{name}-done")
    assert await mail.move_happened(move) == Applied({"id": item["id"]})
    assert (office.ids(name), len(office.ids(f"{name}-done"))) == ([], 1)
    assert isinstance(await mail.move_happened(call("move", "m2", **move.args)), Unsure)
    with pytest.raises(Refused, match="no such mail"):
        await mail.move(call("move", "m3", **move.args), item["id"], f"{name}-done")
    with pytest.raises(Refused, match="no name of a flag"):
        await mail.flag(call("flag", "f9", id=item["id"], flag="x"), item["id"], "a b")


async def test_a_draft_is_found_among_all_that_came_since(office: PostOffice, name: str) -> None:
    """L5, L14: what the folder had before is kept, so that a gap in it is seen."""
    office.make_folder(name)
    mail, made = office.account(drafts=name), call("draft", **TO_BOB)
    assert await mail.draft_happened(made) == NotApplied()
    result = await mail.draft(made, **TO_BOB)
    assert await mail.draft_happened(made) == Applied(result)
    (uid,) = office.ids(name, "DRAFT")
    with office.signed_in() as client:  # a person throws it away
        client.select(name)
        client.uid("store", str(uid), "+FLAGS", r"(\Deleted)")
        client.expunge()
    assert isinstance(await mail.draft_happened(made), Unsure)


async def test_other_drafts_that_came_since_prove_that_none_is_missing(
    office: PostOffice, name: str
) -> None:
    """L5: no gap, and no mark: it did not happen."""
    office.make_folder(name)
    mail, made = office.account(drafts=name), call("draft", **TO_BOB)
    async with mail._session(10) as session:
        opened = await session.open_folder(name)
    object.__setattr__(made, "handle", [opened.validity, opened.next_id])
    office.put(name, mail_of(1))
    assert await mail.draft_happened(made) == NotApplied()
    object.__setattr__(made, "handle", [opened.validity + 1, opened.next_id])
    assert isinstance(await mail.draft_happened(made), Unsure)


# -- The exam -------------------------------------------------------------------------------------


@pytest.fixture
def _few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try some points of many: each costs ten sign-ins. `TEST_EXAM=all` tries every line."""
    if os.environ.get("TEST_EXAM") != "all":
        monkeypatch.setattr("duly.testing.exam.POINTS_MAX", 3)
        monkeypatch.setattr("duly.testing.exam.STOPS_MAX", 1)


@pytest.mark.usefixtures("_few_points")
def test_a_send_passes_the_exam(one_office: PostOffice, tmp_path: Path) -> None:
    """L4, L5: killed, failing and stopped at every line, a mail is sent once and known."""
    prefix = f"e{next(_NUMBERS)}-"

    def effects(folder: Path) -> int:
        return len(one_office.ids(f"Sent-{prefix}{folder.name}"))

    def make(folder: Path) -> MailAccount:
        one_office.make_folder(f"Sent-{prefix}{folder.name}")
        return one_office.account(f"{prefix}{folder.name}")

    report = examine(make, "send", TO_BOB, effects=effects, folder=tmp_path / "exam")
    assert (report.applied > 0, report.not_applied > 0, report.unsure) == (True, True, 0)


@pytest.mark.parametrize("tool", FILED)
@pytest.mark.usefixtures("_few_points")
def test_what_files_a_mail_passes_the_exam(
    one_office: PostOffice, tmp_path: Path, tool: str
) -> None:
    """L4, L5, L14: the same for what changes a folder."""
    prefix = f"x{next(_NUMBERS)}-"
    report = examine(
        lambda folder: make_filing(one_office, tool, prefix, folder),
        tool,
        FILED[tool].args,
        other_args=FILED[tool].other_args,
        effects=count_filed(one_office, tool, prefix),
        folder=tmp_path / "exam",
        modules=["duly.connectors.mail_account"],
    )
    assert (report.applied > 0, report.not_applied > 0) == (True, True)


# -- The settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "name a server"),
        ({"imap": "imap.example.com:x"}, "no port"),
        ({"imap": "imap.example.com:2993"}, "how it begins"),
        ({"imap": "0x7f000001"}, "imap"),
        ({"imap": "imap.example.com", "tls": "off"}, "in the clear"),
        ({"imap": "imap.example.com", "tls": "maybe"}, "tls"),
        ({"imap": "imap.example.com", "address": "ada, eve"}, "address"),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, Any], said: str) -> None:
    """K3, K12: before anything is sent."""
    with pytest.raises(ConfigError, match=said):
        MailAccount(**{"address": "ada@example.com", **given})


def test_the_tools_of_an_account() -> None:
    """A1: what a person sees of a mail before they agree."""
    catalog = Registry([MailAccount("ada@example.com", imap="imap.example.com")]).catalog
    send = catalog.find("mail.send")
    assert (send.reconciles, send.lag_s, send.idempotent) == (True, 600, False)
    labels = {each.name: each.label for each in send.parameters if each.label}
    assert labels == {"to": "To", "cc": "Cc", "subject": "Subject", "text": "Body"}


@pytest.mark.parametrize(
    ("name", "spelled"),
    [("INBOX", "INBOX"), ("Entwürfe", "Entw&APw-rfe"), ("A&B", "A&-B"), ("送信", "&kAFP4Q-")],
)
def test_a_folder_in_any_alphabet_has_its_name_on_the_server(name: str, spelled: str) -> None:
    """RFC 3501, 5.1.3: other letters in a base64 of its own."""
    assert encode_folder(name) == spelled


async def test_a_trial_of_the_account_finds_its_own_mail_among_the_sent_ones(
    office: PostOffice, name: str, tmp_path: Path
) -> None:
    """K10: one mail to oneself, found again; then the host believes the folder."""
    office.make_folder(f"Sent-{name}")
    mail = office.account(name)
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[mail]) as host:
        await host.set_secret("mail", "password", PASSWORD)
        (send, *_) = (await host.connection("mail")).tools
        assert dict(send.form)["To"] == f'["{name}@example.com"]'
        assert not send.answering.is_believed
        proven = await host.prove("mail.send")
        assert proven.answering.is_believed, proven
