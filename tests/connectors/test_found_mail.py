"""Mails that are looked for on a server: what was removed, what it hides, what it makes up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.letter import is_marked, mark_of
from duly.errors import NotSent, Transient
from tests.connectors.dovecot import free_port
from tests.connectors.filing import TO_BOB, mail_of
from tests.connectors.post_office import HOST, PostOffice
from tests.connectors.test_mail_account import call
from tests.connectors.test_mail_server import Talk, alone, talking

MARKED = f"X-Duly-Call: {mark_of('k1')}\r\n\r\nText".encode()


async def test_a_sent_mail_that_a_person_removed_is_not_denied(office: PostOffice) -> None:
    """L5: its absence would have sent it a second time."""
    office.make_folder("Sent-gap")
    mail, sent = office.account("gap"), call("send", **TO_BOB)
    await mail.send(sent, **TO_BOB)
    (uid,) = office.ids("Sent-gap")
    with office.signed_in() as client:
        client.select("Sent-gap")
        client.uid("store", str(uid), "+FLAGS", r"(\Deleted)")
        client.expunge()
    verdict = await mail.send_happened(sent)
    assert verdict == Unsure("mails that came into Sent-gap since were removed (1)")


async def test_a_folder_that_could_not_be_seen_before_denies_nothing(office: PostOffice) -> None:
    """L4, L5: a mail is sent also while its folder cannot be opened, and then cannot be denied."""
    office.keeps_sent = False
    mail, sent = office.account("unseen"), call("send", **TO_BOB)
    await mail.send(sent, **TO_BOB)
    office.make_folder("Sent-unseen")
    verdict = await mail.send_happened(sent)
    assert verdict == Unsure("it is not in Sent-unseen, which could not be seen before")
    office.keeps_sent = True


async def test_nothing_is_sent_while_it_could_not_be_denied(one_office: PostOffice) -> None:
    """L4, L5: the sent mails cannot be seen, so this one is not sent yet; no person is asked."""
    before = len(one_office.taken)
    mail = one_office.account("away", imap=f"{HOST}:{free_port()}")
    with pytest.raises(NotSent, match="no look at the sent mails"):
        await mail.send(call("send", **TO_BOB), **TO_BOB)
    assert len(one_office.taken) == before


def imap_with(
    named: str, there: str, mails: dict[int, bytes], *, between: bytes = b"", times: int = 1
) -> Talk:
    """Speak IMAP over a folder with mails 1 and 2, whose searches say what a test wants."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hello\r\n")
        while line := await reader.readline():
            tag, rest = line.split(b" ", 1)
            if rest.startswith(b"EXAMINE"):
                writer.write(b"* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 3] x\r\n")
            elif rest.startswith(b"UID SEARCH"):
                found = named if b"HEADER" in rest else there
                writer.write(f"* SEARCH {found}\r\n".encode())
            elif rest.startswith(b"UID FETCH"):
                wanted = [int(each) for each in rest.split()[2].split(b",")]
                for uid in wanted * times:
                    writer.write(between)
                    if uid in mails:
                        size = len(mails[uid])
                        head = f"* {uid} FETCH (UID {uid} RFC822.SIZE {size} BODY[]<0> {{{size}}}"
                        writer.write(head.encode() + b"\r\n" + mails[uid] + b")\r\n")
            writer.write(tag + b" OK done\r\n")
            await writer.drain()

    return talk


@pytest.mark.parametrize(
    ("named", "there", "mails", "kind"),
    [
        ("1", "1 2", {1: MARKED, 2: b"x"}, Applied),
        # The search finds nothing, and the mail is there.
        ("", "1 2", {1: mail_of(1), 2: MARKED}, Applied),
        # The search finds everything, as some servers do with a header that they do not know.
        ("1 2", "1 2", {1: mail_of(1), 2: mail_of(2)}, Unsure),
        # One of two is not even named, or the other is named twice.
        ("", "2", {1: mail_of(1), 2: mail_of(2)}, Unsure),
        ("", "2 2", {1: mail_of(1), 2: mail_of(2)}, Unsure),
        ("", "1 2", {1: mail_of(1), 2: mail_of(2)}, NotApplied),
    ],
)
@pytest.mark.parametrize("tool", ["send", "draft"])
async def test_a_server_is_not_taken_at_its_word(
    tool: str, named: str, there: str, mails: dict[int, bytes], kind: type[Any]
) -> None:
    """L5: what is said of a call is said by the mails themselves."""
    made = call(tool, **TO_BOB)
    object.__setattr__(made, "handle", [7, 1])
    async with talking(imap_with(named, there, mails)) as port:
        mail = alone(port, sent="Sent", drafts="Drafts")
        ask = mail.send_happened if tool == "send" else mail.draft_happened
        assert isinstance(await ask(made), kind)


@pytest.mark.parametrize("tool", ["move", "flag"])
async def test_a_mark_that_every_mail_has_is_no_mark(tool: str) -> None:
    """L5: a server that does not know the search for marks names all; nothing was done."""
    args = {"id": "INBOX#7.1", "folder": "Done"} if tool == "move" else {"id": "INBOX#7.1"}
    async with talking(imap_with("", "1 2", {})) as port:
        mail = alone(port)
        ask = mail.move_happened if tool == "move" else mail.flag_happened
        with pytest.raises(Transient, match="a mark that they do not have"):
            await ask(call(tool, **args))


async def test_a_mail_that_is_there_and_is_not_given_is_not_passed_over() -> None:
    """K11: the cursor would have gone behind it, and no script would ever have seen it."""
    made = call("send", **TO_BOB)
    object.__setattr__(made, "handle", [7, 1])
    async with talking(imap_with("", "1 2", {1: mail_of(1)})) as port:
        mail = alone(port, sent="Sent")
        for work in (mail.search(), mail.read("INBOX#7.2"), mail.send_happened(made)):
            with pytest.raises(Transient, match="does not give it"):
                await work


async def test_flags_that_change_meanwhile_are_no_mails() -> None:
    """RFC 9051, 7.5.2: a server tells of them in the middle of anything, and a mail comes once."""
    flags = b"* 1 FETCH (FLAGS (\\Seen))\r\n"
    talk = imap_with("", "1 1 2", {1: mail_of(1), 2: mail_of(2)}, between=flags, times=2)
    async with talking(talk) as port:
        page = await alone(port).search()
    assert [each["subject"] for each in page.items] == ["1", "2"]


@pytest.mark.parametrize(
    ("head", "is_it"),
    [
        (f"X-Duly-Call: {mark_of('k1')}", True),
        (f"subject: x\r\nMESSAGE-ID:\r\n <duly.{mark_of('k1')}@x.org>", True),
        (f"X-Duly-Call: {mark_of('k2')}", False),
        (f"In-Reply-To: <duly.{mark_of('k1')}@x.org>", False),
        (f"Subject: X-Duly-Call: {mark_of('k1')}", False),
        (f"Subject: x\r\n\r\nX-Duly-Call: {mark_of('k1')}", False),
    ],
)
def test_a_mail_is_known_by_its_own_headers(head: str, is_it: bool) -> None:
    """L5: an answer to a mail, or a text about it, is not the mail."""
    assert is_marked(f"From: a@x.org\r\n{head}\r\n".encode(), "k1") is is_it
