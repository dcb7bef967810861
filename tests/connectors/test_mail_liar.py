"""IMAP servers that say less than they have: no mail is lost, and no half of a change is a no."""

from __future__ import annotations

import asyncio

import pytest

from duly.connectors.imap import RANGES_MAX
from duly.errors import Refused, Transient, UnknownOutcome
from tests.connectors.filing import mail_of
from tests.connectors.test_mail_account import call
from tests.connectors.test_mail_server import Talk, alone, talking

MAILS = (1, 2)
MOVED = {"id": "INBOX#7.1", "folder": "Done"}


def is_named(uid: int, given: bytes) -> bool:
    """Tell whether an id is in a set of ids such as 1:4,7."""
    for each in given.split(b","):
        low, _, high = each.partition(b":")
        if int(low) <= uid <= int(high or low):
            return True
    return False


def folder(
    says: bytes | None,
    *,
    mails: tuple[int, ...] = MAILS,
    denies: bytes = b"never",
    word: bytes = b"NO not you",
    more: bytes = b"",
) -> Talk:
    """Speak IMAP over a folder; a search is answered by `says`, one command is denied."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hello\r\n")
        while line := await reader.readline():
            tag, rest = line.split(b" ", 1)
            words = rest.split()
            if rest.startswith(denies):
                writer.write(tag + b" " + word + b"\r\n")
                continue
            if rest.startswith(b"CAPABILITY"):
                writer.write(b"* CAPABILITY IMAP4rev1 UIDPLUS" + more + b"\r\n")
            elif rest.startswith((b"EXAMINE", b"SELECT")):
                writer.write(b"* OK [UIDVALIDITY 7] x\r\n* OK [PERMANENTFLAGS (\\*)] x\r\n")
                writer.write(b"* OK [UIDNEXT %d] x\r\n" % (mails[-1] + 1))
            elif rest.startswith(b"UID SEARCH") and says is not None:
                writer.write(says)
            elif rest.startswith(b"UID FETCH"):
                for uid in (each for each in mails if is_named(each, words[2])):
                    text = mail_of(uid)
                    size = len(text)
                    body = b" RFC822.SIZE %d BODY[]<0> {%d}\r\n%b" % (size, size, text)
                    shown = body if b"BODY" in rest else b""
                    writer.write(b"* %d FETCH (UID %d%b)\r\n" % (uid, uid, shown))
            writer.write(tag + b" OK done\r\n")
            await writer.drain()

    return talk


@pytest.mark.parametrize(
    "says",
    [
        b"* SEARCH 1 2\r\n",
        b"* SEARCH 1\r\n",  # its index is behind
        b"* SEARCH 2 9 40\r\n",
        b"* SEARCH\r\n",
        b'* ESEARCH (TAG "D1") UID ALL 1:2\r\n',
        None,
    ],
)
async def test_a_search_that_misses_a_mail_loses_none(says: bytes | None) -> None:
    """K11: the cursor passes an id only if no mail has it."""
    async with talking(folder(says)) as port:
        page = await alone(port).search()
    assert [each["subject"] for each in page.items] == ["1", "2"]
    assert page.names["last_cursor"] == "7.2"


async def test_an_age_that_was_not_compared_is_no_empty_folder() -> None:
    """K11: only the server knows the age of a mail, so without its word nothing is passed."""
    async with talking(folder(None)) as port:
        with pytest.raises(Transient, match="did not say what it found"):
            await alone(port).search("newer_than:1d")


async def test_very_many_gaps_are_asked_for_in_several_commands() -> None:
    """K6, K11: one more than a command names."""
    every = tuple(range(1, 2 * RANGES_MAX + 2))
    named = b" ".join(b"%d" % each for each in every[::2])
    async with talking(folder(b"* SEARCH %b\r\n" % named, mails=every)) as port:
        mail, after, found = alone(port), None, []
        while after != f"7.{every[-1]}":
            page = await mail.search(after=after)
            found += [int(each["subject"]) for each in page.items]
            after = str(page.names["last_cursor"])
    assert found == [*every]


async def test_a_folder_whose_ids_went_back_is_read_from_its_beginning() -> None:
    """K11: it was restored from a copy, and gives ids that the cursor has passed."""
    async with talking(folder(b"* SEARCH 1 2\r\n")) as port:
        mail = alone(port)
        assert not (await mail.search(after="7.2")).items
        page = await mail.search(after="7.3")
    assert [each["subject"] for each in page.items] == ["1", "2"]


@pytest.mark.parametrize("denies", [b"UID STORE 1 +FLAGS.SILENT (\\Deleted", b"UID EXPUNGE"])
async def test_a_mail_that_was_copied_and_not_removed_is_no_refusal(denies: bytes) -> None:
    """L4: a second move, with another key, would make a second copy."""
    async with talking(folder(b"* SEARCH 1\r\n", denies=denies)) as port:
        with pytest.raises(UnknownOutcome, match="it was copied, and then"):
            await alone(port).move(call("move", **MOVED), **MOVED)


async def test_a_mail_that_was_not_copied_is_refused() -> None:
    """L4: nothing was done then."""
    async with talking(folder(b"* SEARCH 1\r\n", denies=b"UID COPY")) as port:
        with pytest.raises(Refused, match="did not do it"):
            await alone(port).move(call("move", **MOVED), **MOVED)


MOVES = {
    b"NO not you": UnknownOutcome,
    b"NO [SERVERBUG] it broke": UnknownOutcome,
    b"NO [UNAVAILABLE] later": UnknownOutcome,
    b"NO [EXPUNGEISSUED] gone": UnknownOutcome,
    b"NO [TRYCREATE] no such folder": Refused,
    b"NO [OVERQUOTA] full": Refused,
    b"BAD what": Refused,
}


@pytest.mark.parametrize("word", MOVES)
async def test_a_no_to_a_move_is_a_no_only_where_nothing_was_copied(word: bytes) -> None:
    """L4: a server may have copied the mail, and then said NO: another key copies it anew."""
    talk = folder(b"* SEARCH 1\r\n", denies=b"UID MOVE", word=word, more=b" MOVE")
    async with talking(talk) as port:
        with pytest.raises(MOVES[word]):
            await alone(port).move(call("move", **MOVED), **MOVED)


@pytest.mark.parametrize(
    ("tool", "args", "denies"),
    [
        ("move", MOVED, b"UID COPY"),
        ("flag", {"id": "INBOX#7.1", "flag": "seen"}, b"UID STORE"),
    ],
)
async def test_a_server_that_fails_has_not_refused(
    tool: str, args: dict[str, str], denies: bytes
) -> None:
    """L4: its own fault says nothing of what it did before."""
    says = folder(b"* SEARCH 1\r\n", denies=denies, word=b"NO [SERVERBUG] it broke")
    async with talking(says) as port:
        with pytest.raises(UnknownOutcome, match="failed, and may have done it"):
            await getattr(alone(port), tool)(call(tool, **args), **args)


@pytest.mark.parametrize("word", [b"NO [LIMIT] x", b"NO Too many user flags in mailbox"])
async def test_a_folder_that_takes_no_further_mark_says_what_to_do(word: bytes) -> None:
    """N: servers limit the marks of a folder; what cannot be marked is not moved."""
    says = folder(b"* SEARCH 1\r\n", denies=b"UID STORE 1 +FLAGS.SILENT (duly", word=word)
    async with talking(says) as port:
        with pytest.raises(Refused, match="take old ones away, words that begin with duly-"):
            await alone(port).move(call("move", **MOVED), **MOVED)
