"""Finds the mail that a call made in a folder of its server, or makes sure that it is not there.

Law 1: a mail is known by its own headers. The search of a server may name other mails, or miss one
       that it has not indexed yet; its word alone decides nothing.
Law 2: ids of a folder only grow. Before a mail is sent, its call keeps where the folder ends (L14).
       So all that came since can be looked at, and a gap shows that something was removed.
"""

from __future__ import annotations

from typing import Final

from duly.connectors.base import Call
from duly.connectors.imap import Denied, ImapSession, OpenFolder, check_flag
from duly.connectors.letter import MARK_HEADER, is_marked, keyword_of, mark_of
from duly.errors import ConnectorError, Refused, Transient, UnknownOutcome
from duly.rules.schedule import DAY_MS, moment
from duly.rules.value import Json

BATCH: Final = 20  # mails that are fetched together
HEADERS_BYTES_MAX: Final = 64 * 1024
CAME_MAX: Final = 500  # mails of which each is looked at
FLAGS: Final = {"seen": r"\Seen", "flagged": r"\Flagged", "answered": r"\Answered"}
FULL: Final = (
    "Some servers limit how many different marks a folder has: take old ones away, words that begin"
    " with duly-, from mails whose changes are settled."
)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
UNSEEN: Final = 0  # no folder has this validity


def end_of(opened: OpenFolder | None) -> list[Json]:
    """Return where a folder ends, as a call keeps it; None if it could not be opened."""
    return [UNSEEN, 1] if opened is None else [opened.validity, opened.next_id]


async def find_mail(session: ImapSession, folder: str, call: Call) -> bool | str:
    """Tell whether the mail of a call is in a folder; a text says why that is not known."""
    assert isinstance(call.handle, list), call.key
    validity, first = (int(str(each)) for each in call.handle)
    opened = await session.open_folder(folder)
    mark = mark_of(call.key)
    named = await session.search(
        f'OR HEADER {MARK_HEADER} "{mark}" HEADER Message-ID "duly.{mark}@"'
    )
    if any(await _look_at(session, named[-BATCH:], call)):
        return True
    if named:
        return f"{folder}: the server names mails that are not the one of this call"
    if opened.validity != validity:
        why = "could not be seen before" if validity == UNSEEN else "has new ids since"
        return f"it is not in {folder}, which {why}"
    came = opened.next_id - first
    if not 0 <= came <= CAME_MAX:
        return f"more than {CAME_MAX} mails came into {folder} since"
    there = await session.search(f"UID {first}:{opened.next_id - 1}") if came else []
    seen = await _look_at(session, there, call)
    if any(seen):
        return True
    missing = came - len(seen)
    return f"mails that came into {folder} since were removed ({missing})" if missing else False


async def has_mark(session: ImapSession, call: Call, *terms: str) -> bool:
    """Tell whether a mail with these terms has the mark of a call.

    A server that does not know the search for marks may name every mail. It names one for a mark
    that no mail has, too, and its word is not taken then (law 1).
    """
    if not await session.search(*terms, f"KEYWORD {keyword_of(call.key)}"):
        return False
    if await session.search(*terms, f"KEYWORD {keyword_of(f'never {call.key}')}"):
        raise Transient("The server names mails for a mark that they do not have.")
    return True


def spell_flag(name: str) -> str:
    """Return a flag as the server has it."""
    return FLAGS.get(name) or check_flag(name)


def spell_since(now_ms: int, age_ms: int | None) -> list[str]:
    """Spell the age of a first search; the server compares days in a zone of its own."""
    if age_ms is None:
        return []
    day = moment(now_ms - age_ms - DAY_MS)
    return [f"SINCE {day.day}-{MONTHS[day.month - 1]}-{day.year}"]


async def mark_before(session: ImapSession, uid: int, folder: str, call: Call) -> None:
    """Mark a mail with the call that is to change it; without its mark it is not changed."""
    try:
        await session.mark(uid, keyword_of(call.key))
    except Denied as error:
        said = f"{folder}: the server takes no further mark and said {error}. {FULL}"
        raise Refused(said) from error


def denied_change(error: Denied, server: str, *, is_sent: bool) -> ConnectorError:
    """Return what it means that a server denied a part of a change (L4)."""
    if is_sent and error.is_doubtful:
        return UnknownOutcome(f"{server} failed, and may have done it: {error}")
    more = f" {FULL}" if error.code == "LIMIT" else ""
    return Refused(f"{server} did not do it: {error}{more}")


async def mark_done(session: ImapSession, uid: int, keyword: str) -> None:
    """Mark a mail whose change was made; it stays made if the mark is refused."""
    try:
        await session.mark(uid, keyword)
    except Denied as error:
        raise UnknownOutcome(f"It was done, but could not be marked: {error}") from error


async def _look_at(session: ImapSession, uids: list[int], call: Call) -> list[bool]:
    """Tell of each mail that is still there whether it is the one of the call."""
    seen: list[bool] = []
    for start in range(0, len(uids), BATCH):
        mails = await session.fetch(uids[start : start + BATCH], HEADERS_BYTES_MAX)
        seen += [is_marked(each.data, call.key) for each in mails]
    return seen
