"""A mailbox on disk: a folder of .eml files, or a Maildir. It is only ever read.

Law 1: a mail that arrives is given to whoever keeps the cursor, in the order of arrival, whatever
       date it bears (`arrival.py` says what that can miss).
Law 2: a mail keeps its id. In a Maildir that is the name without its flags, which change when
       somebody reads the mail; in a folder it is the file's name.
Law 3: no mail is so broken or so large that it stops the others, and no search lasts until its
       time is up: it goes on from there the next time.
Law 4: a mail is passed over only if it was read, or can never be. If the machine is at fault, the
       search fails and is made again.

    terms of a query            a mail has it if
    invoice                     the word is in its subject, its sender or its first words
    from:ada                    … in its sender
    subject:"two words"         … in its subject
    newer_than:1d               its file is younger than that (s, m, h, d)

All terms must be met; capitals do not matter.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duly.connectors.arrival import PAGE_MAX, Arrival, Cursor
from duly.connectors.base import Page, read
from duly.connectors.clock import Timed
from duly.connectors.folder import Folder, classify, definite, list_files, read_file
from duly.connectors.mail import Mail, read_mail
from duly.errors import NotSent, Refused
from duly.rules.schedule import UNIT_MS
from duly.rules.value import Json

MAIL_BYTES_MAX: Final = 10 * 1024 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024  # as much of a mail as a search looks at
LOOKED_AT_MAX: Final = 1000  # mails that one search opens
LOOKED_MS_MAX: Final = 10_000  # how long it goes on opening them
TRIES_MAX: Final = 3  # how often a mail may be moved while it is read
QUERY_CHARS_MAX: Final = 500

# A mail of which the disk says this is given with what can be said of it.
SHUT: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EIO}
)
MAILDIR: Final = ("new", "cur")  # in this order: a mail moves from the first to the second
FLAGS: Final = re.compile("[:;!]2,")  # where a colon cannot stand in a name, others do
TERM: Final = re.compile(r'(?:([a-z_]+):)?(?:"([^"]*)"|(\S+))', re.IGNORECASE)
AGE: Final = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mail lies now."""

    folder: str | None
    name: str
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody looks for."""

    terms: tuple[tuple[str, str], ...]
    newer_than_ms: int | None = None

    @classmethod
    def read(cls, text: str) -> Query:
        """Read a query, or refuse a term nobody knows."""
        if len(text) > QUERY_CHARS_MAX:
            raise Refused(f"A query has at most {QUERY_CHARS_MAX} characters.")
        terms: list[tuple[str, str]] = []
        newer_than_ms: int | None = None
        for field, quoted, bare in TERM.findall(text):
            kind, words = field.lower(), (quoted or bare).casefold()
            if kind == "newer_than":
                newer_than_ms = _age_ms(words)
            elif kind in FIELDS:
                terms.append((kind, words))
            else:
                known = ", ".join(f"{each}:" for each in FIELDS if each)
                raise Refused(
                    f'The query has "{field}:", which nobody knows. Use words, {known} and'
                    " newer_than:."
                )
        return cls(tuple(terms), newer_than_ms)

    def is_too_old(self, status: os.stat_result, now_ms: int) -> bool:
        """Say whether a mail's file is older than what is asked for."""
        age_ms = now_ms - status.st_mtime_ns // 1_000_000
        return self.newer_than_ms is not None and age_ms > self.newer_than_ms

    def fits(self, mail: Mail) -> bool:
        """Say whether a mail meets every term about its words; one that nobody can read may."""
        is_unread = mail.problem is not None and not (mail.sender or mail.subject or mail.text)
        return is_unread or all(
            words in FIELDS[kind](mail).casefold() for kind, words in self.terms
        )


FIELDS: Final[Mapping[str, Callable[[Mail], str]]] = {
    "": lambda mail: f"{mail.subject}\n{mail.sender}\n{mail.snippet}",
    "from": lambda mail: mail.sender,
    "subject": lambda mail: mail.subject,
}


class Mailbox(Timed):
    """The mails of one folder."""

    name = "mailbox"

    def __init__(self, path: str | Path, *, name: str = "mailbox") -> None:
        self.name = name
        self._folder = Folder.at(path, name)
        self._is_maildir = False
        self._look_for_maildir()

    @read
    async def search(self, query: str = "", after: str | None = None) -> Page:
        """List the mails that arrived since, in the order of arrival.

        Answers a page of {id, message_id, from, subject, date, snippet, problem}.
        """
        return await self.in_thread(
            self._search, Query.read(query), Cursor.read(after), self.now_ms()
        )

    @read(by_id=True)
    async def read(self, id: str) -> dict[str, Json] | None:  # noqa: A002  # the seeds' own word
        """Read one mail with its text and the names of what is attached.

        Answers {id, message_id, from, subject, date, snippet, problem, to, text, attachments}, or
        nothing if there is no such mail.
        """
        return await self.in_thread(self._read, id)

    def _search(self, query: Query, cursor: Cursor, now_ms: int) -> Page:
        places = self._places()
        present = {Arrival(place.status.st_ctime_ns, name): place for name, place in places.items()}
        unseen = cursor.unseen(present)
        items: list[dict[str, Json]] = []
        passed: list[Arrival] = []
        looked_at, last_ms = 0, self.monotonic_ms() + LOOKED_MS_MAX
        for arrival in unseen:
            if len(items) >= PAGE_MAX or looked_at >= LOOKED_AT_MAX:
                break
            if looked_at and self.monotonic_ms() > last_ms:
                break
            if query.is_too_old(present[arrival].status, now_ms):
                passed.append(arrival)
                continue
            looked_at += 1
            mail = self._open(present[arrival], HEAD_BYTES_MAX)
            if mail is None:
                continue  # It is on its way to another place, and is met there.
            passed.append(arrival)
            if query.fits(mail):
                items.append(_item(arrival.name, mail))
        last_cursor = cursor.move(present, passed).write()
        return Page(items, last_cursor=last_cursor, has_more=len(unseen) > len(passed))

    def _read(self, id: str) -> dict[str, Json] | None:  # noqa: A002  # as above
        for _ in range(TRIES_MAX):
            place = self._places().get(id)
            mail = None if place is None else self._open(place, MAIL_BYTES_MAX)
            if mail is not None:
                break
        else:
            # A listing may miss what is renamed meanwhile, but hardly each time.
            if place is None:
                return None
            raise NotSent(f"{id[:100]!r} is moved all the time.")
        attachments: list[Json] = [*mail.attachments]
        return {**_item(id, mail), "to": mail.to, "text": mail.text, "attachments": attachments}

    def _look_for_maildir(self) -> None:
        """See whether it is a Maildir; one whose disk is mounted late is none at first."""
        self._is_maildir = self._is_maildir or all(
            (self._folder.path / each).is_dir() for each in (*MAILDIR, "tmp")
        )

    def _places(self) -> dict[str, Place]:
        """Find every mail by its id; one that is being moved is found where it goes."""
        self._look_for_maildir()
        found: dict[str, Place] = {}
        for folder in MAILDIR if self._is_maildir else (None,):
            what = folder or self.name
            with definite(what), self._folder.open([folder] if folder else []) as here:
                for name, status in list_files(here, what):
                    if self._is_mail(name):
                        base = FLAGS.split(name)[0] if self._is_maildir else name
                        found[base] = Place(folder, name, status)
        return found

    def _is_mail(self, name: str) -> bool:
        if name.startswith("."):
            return False
        return self._is_maildir or name.lower().endswith(".eml")

    def _open(self, place: Place, limit_bytes: int) -> Mail | None:
        """Read a mail as far as the limit; None if it went away while we looked."""
        try:
            with self._folder.open([place.folder] if place.folder else []) as here:
                found = read_file(here, place.name, limit_bytes)
        except OSError as error:
            if error.errno not in SHUT:
                raise classify(error, place.name) from error
            return Mail(problem=f"It cannot be opened: {error.strerror}.")
        if found is None:
            return None
        data, status = found
        problem = None
        if status.st_size > MAIL_BYTES_MAX:
            problem = f"It has {status.st_size} bytes; only the first {limit_bytes} were read."
        return read_mail(data[:limit_bytes], problem)


def _item(id: str, mail: Mail) -> dict[str, Json]:  # noqa: A002  # as above
    return {
        "id": id,
        "message_id": mail.message_id,
        "from": mail.sender,
        "subject": mail.subject,
        "date": mail.date,
        "snippet": mail.snippet,
        "problem": mail.problem,
    }


def _age_ms(text: str) -> int:
    found = AGE.fullmatch(text)
    if found is None:
        raise Refused(f"newer_than:{text[:40]} is no age. Write it as 1d, 12h, 30m or 90s.")
    return int(found[1]) * UNIT_MS[found[2]]
