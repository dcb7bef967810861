"""What real mail servers do that a double would not think of: names, sizes, dialects, TLS."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.imap import decode_folder, encode_folder, read_tokens
from duly.connectors.mailbox import MAIL_BYTES_MAX
from duly.connectors.response import BrokenExchange
from duly.errors import AuthNeeded, Refused, Transient
from tests.connectors.dovecot import Dovecot, find
from tests.connectors.filing import TO_BOB, mail_of
from tests.connectors.post_office import HOST, PASSWORD, PostOffice, Pymap
from tests.connectors.test_mail_account import call
from tests.connectors.test_mail_server import alone, imap_that_says, talking

NAMES = ("Entwürfe", "送信済み", "A&B", "Tom & 🙂 / x", 'He said "no" \\ yes', "a b (c) {3} %*")


@pytest.mark.parametrize("folder", NAMES)
async def test_a_folder_has_its_name_in_any_alphabet(one_office: PostOffice, folder: str) -> None:
    """RFC 3501, 5.1.3: what one client makes, another one finds, also where it is filed to."""
    one_office.put(folder, mail_of(1))
    mail = one_office.account()
    (item,) = (await mail.search(folder=folder)).items
    assert (item["folder"], item["subject"]) == (folder, "1")
    assert await mail.read(item["id"]) is not None
    assert decode_folder(encode_folder(folder).encode()) == folder
    one_office.make_folder(f"{folder} 2")
    move = call("move", folder, id=item["id"], folder=f"{folder} 2")
    await mail.move(move, item["id"], f"{folder} 2")
    assert isinstance(await mail.move_happened(move), Applied)


async def test_mails_of_one_moment_are_told_apart(office: PostOffice) -> None:
    """K11: they came within one second, and each is found once."""
    with office.signed_in() as client:
        client.create("moment")
        for number in range(25):
            client.append("moment", "", '" 1-Jan-2026 00:00:00 +0000"', mail_of(number))
    mail, after, found = office.account(), None, []
    for _ in range(3):
        page = await mail.search(folder="moment", after=after)
        found += [each["subject"] for each in page.items]
        after = page.names["last_cursor"]
    assert found == [str(each) for each in range(25)]


async def test_a_folder_that_was_made_anew_has_other_ids(one_office: PostOffice) -> None:
    """K11: Dovecot gives a new validity at once; a cursor and an id of the old one mean nothing."""
    one_office.put("anew", mail_of(0))
    mail = one_office.account()
    before = await mail.search(folder="anew")
    with one_office.signed_in() as client:
        client.delete("anew")
    one_office.put("anew", mail_of(7))
    after = await mail.search(folder="anew", after=before.names["last_cursor"])
    assert [each["subject"] for each in after.items] == ["7"]
    assert await mail.read(before.items[0]["id"]) is None
    for tool, more in (("move", {"folder": "x"}), ("flag", {"flag": "seen"})):
        made: dict[str, Any] = {"id": before.items[0]["id"], **more}
        with pytest.raises(Refused, match="no such mail"):
            await getattr(mail, tool)(call(tool, **made), **made)


async def test_the_server_s_own_folders_are_found(one_office: PostOffice) -> None:
    """RFC 6154: without a word in the settings, by the mark of the server, in its language."""
    if not one_office.is_dovecot:  # pymap marks no folders
        return
    mail = one_office.account("special", sent=None)
    begun = call("send", **TO_BOB)
    object.__setattr__(begun, "handle", [1, 1])
    verdict = await mail.send_happened(begun)
    assert isinstance(verdict, Unsure)
    assert r"no folder for \Sent" in verdict.reason
    one_office.make_folder("Gesendet")
    sent = call("send", **TO_BOB)
    async with mail._session(10) as session:
        assert await session.find_special(r"\Sent") == "Gesendet"
    one_office.keeps_sent = False
    await mail.send(sent, **TO_BOB)
    one_office.keeps_sent = True
    assert sent.handle is not None
    assert await mail.send_happened(sent) == NotApplied()
    one_office.put("Gesendet", one_office.taken[-1][2])
    assert isinstance(await mail.send_happened(sent), Applied)


async def test_a_server_without_marked_folders_is_asked_for_a_name(
    other_office: PostOffice,
) -> None:
    """RFC 6154: such a server lists its folders, and none of them is for drafts."""
    with pytest.raises(Refused, match="drafts ="):
        await other_office.account().draft(call("draft", **TO_BOB), **TO_BOB)


@pytest.fixture(scope="module")
def plain(one_office: PostOffice) -> Iterator[Dovecot | Pymap]:
    """Run a Dovecot that does not say that it can move, as older servers."""
    program, certificate = find(), one_office.certificate
    made = (
        Pymap(certificate)
        if program is None
        else Dovecot(
            program,
            certificate,
            PASSWORD,
            "imap_capability = IMAP4rev1 UIDPLUS LITERAL+ STARTTLS\n",
        )
    )
    yield made
    made.close()


async def test_a_server_without_move_copies_and_removes_one_mail(
    one_office: PostOffice, plain: Dovecot | Pymap
) -> None:
    """L5: and nothing else that a person had marked to be removed; a half of it is not denied."""
    at = f"{HOST}:{plain.port}"
    mail = one_office.account(imap=at, tls="starttls", drafts="INBOX")
    for number in range(2):
        await mail.draft(call("draft", f"d{number}", **TO_BOB), **TO_BOB)
    first, second = (await mail.search()).items
    async with mail._session(10) as session:
        await session.command("CREATE", "done")
        await session.open_folder("INBOX", is_change=True)
        await session.mark(int(second["id"].rpartition(".")[2]), r"\Deleted")
    move = call("move", id=first["id"], folder="done")
    await mail.move(move, first["id"], "done")
    assert await mail.move_happened(move) == Applied({"id": first["id"]})
    assert [each["id"] for each in (await mail.search()).items] == [second["id"]]
    half = call("move", "half", id=second["id"], folder="done")
    async with mail._session(10) as session:
        uid = int(second["id"].rpartition(".")[2])
        await mail._open_marked(
            session, "INBOX", int(second["id"].split("#")[1].split(".")[0]), uid, half
        )
        await session.command("UID COPY", str(uid), "done")
    assert await mail.move_happened(half) == Unsure(
        "the mail was copied, and is still in INBOX too"
    )


async def test_a_large_mail_with_attachments_is_read_as_far_as_it_goes(
    office: PostOffice,
) -> None:
    """K6, K7: its names are read, and one past the limit says so."""
    large = EmailMessage()
    large["From"], large["Subject"] = "eve@example.org", "Größe ✓"
    large.set_content("See the picture.\n")
    large.add_attachment(b"\0" * 3_000_000, maintype="image", subtype="png", filename="bild ü.png")
    whole = large.as_bytes().replace(b"\n", b"\r\n")
    office.put("large", whole)
    head, rest = whole.split(b"\r\n\r\n", 1)
    office.put("large", head + b"\r\n\r\n" + rest + b"x" * (MAIL_BYTES_MAX - len(whole) + 1))
    mail = office.account()
    fits, too_large = (await mail.search(folder="large")).items
    assert (fits["subject"], fits["problem"]) == ("Größe ✓", None)
    found = await mail.read(fits["id"])
    assert found is not None
    assert (found["text"], found["attachments"]) == ("See the picture.\n", ["bild ü.png"])
    assert f"only the first {64 * 1024} were read" in (too_large["problem"] or "")


@pytest.mark.parametrize("tls", ["direct", "starttls"])
async def test_tls_begins_either_way(one_office: PostOffice, tls: str) -> None:
    """K3: with the port's own TLS, or after STARTTLS; both prove the server's name."""
    port = one_office.imap.port if tls == "starttls" else one_office.imap.tls_port
    if port is None:  # pymap knows STARTTLS alone
        return
    assert (await one_office.account(imap=f"{HOST}:{port}", tls=tls).search()) is not None
    with pytest.raises(Transient, match="certificate"):
        await one_office.account(imap=f"{HOST}:{port}", tls=tls, ca=None).search()
    with pytest.raises(Transient, match="certificate"):
        await one_office.account(imap=f"127.0.0.2:{port}", tls=tls, allow=["127.0.0.2"]).search()


async def test_a_sign_in_that_is_refused_waits_for_a_person(one_office: PostOffice) -> None:
    """L4: of every kind of call, and none of them is unknown."""
    mail = one_office.account(drafts="x")
    object.__setattr__(mail, "_vault", lambda connector, secret: 'wr"on\\g')
    flag: dict[str, Any] = {"id": "INBOX#1.1", "flag": "seen"}
    for work in (
        mail.draft(call("draft", **TO_BOB), **TO_BOB),
        mail.flag(call("flag", **flag), **flag),
        mail.read("INBOX#1.1"),
    ):
        with pytest.raises(AuthNeeded, match="did not accept the sign-in"):
            await work


@pytest.mark.parametrize("line", [b"()" * 30_000, b'"\\a"' * 15_000, b"1 " * 30_000])
def test_no_line_holds_the_host(line: bytes) -> None:
    """K6, L13: a line has so many words at most: 64 KiB of them took a tenth of a second."""
    begun_s = time.process_time()
    with pytest.raises(BrokenExchange, match="cannot be read"):
        read_tokens([b"X " + line])
    assert time.process_time() - begun_s < 1
    assert len(read_tokens([b"SEARCH " + b"1234567890 " * 5_000])) == 5_001


async def test_others_get_their_turn_between_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """L13: lines that lie there already are read without a wait, so one is made."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1
        await asyncio.sleep(0)

    monkeypatch.setattr("duly.connectors.imap.give_turn", turn)
    lines = [b"* X " + b"a" * 10_000 + b"\r\n"] * 20
    ok = b"* OK [UIDVALIDITY 1]\r\n* OK [UIDNEXT 1]\r\nTAG OK\r\n"
    async with talking(imap_that_says(*lines, ok)) as port:
        await alone(port).search()
    assert turns >= 5


async def test_a_long_mail_does_not_hold_the_host(office: PostOffice) -> None:
    """L13: it is written in a thread, and arrives as it was written."""
    text = ".\n" * 40_000
    office.keeps_sent = False
    await office.account().send(call("send", **TO_BOB), **{**TO_BOB, "text": text})
    office.keeps_sent = True
    assert office.taken[-1][2].endswith(b"\r\n.\r\n.\r\n.\r\n")
    assert office.taken[-1][2].count(b"\r\n.") == 40_000


def test_a_name_that_makes_no_sense_is_no_folder() -> None:
    """RFC 3501, 5.1.3: a name that makes no sense is an error and no other folder."""
    for wrong in (b"&AA-", b"\xff", b"&2D0-"):
        with pytest.raises(BrokenExchange, match="cannot be read"):
            decode_folder(wrong)
