"""A mailbox on disk: a folder of .eml files, or a Maildir. It is only ever read.

Law 1: a mail that arrives is given to the caller that keeps the cursor, in the order of arrival,
       not by the date in it (`arrival.py`).
Law 2: a mail keeps its id, and another mail has another one, also under a file name that was used
       before (K11). The id is the file's name, `#`, and a digest of the Message-ID or, where there
       is none, of the content. In a Maildir the name stands without its flags, which change when
       a person reads the mail.
Law 3: no mail is so broken or so large that it stops the others: each is read in a process that is
       killed when it takes too long (K7), and then given with a `problem`. No search lasts until
       its time is up: it goes on from there the next time.
Law 4: the cursor passes a mail only if it was read, or can never be read. If the machine is at
       fault, the search fails and is retried.

    terms of a query            a mail has it if
    invoice                     the word is in its subject, its sender or its first words
    from:ada                    … in its sender
    subject:"two words"         … in its subject
    newer_than:1d               its file is younger than that (s, m, h, d); only without a cursor

All terms must be met; capitals do not matter.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypedDict

from duly.connectors.arrival import PAGE_MAX, Arrival, Cursor
from duly.connectors.base import Page, read
from duly.connectors.clock import Timed
from duly.connectors.folder import (
    Folder,
    Foldered,
    classify,
    definite,
    list_files,
    pass_tick,
    read_file,
)
from duly.connectors.mail import Mail
from duly.connectors.mail_part import Attached
from duly.connectors.need import Need
from duly.connectors.reader import Unreadable
from duly.errors import NotSent, Refused
from duly.rules.schedule import UNIT_MS

MAIL_BYTES_MAX: Final = 10 * 1024 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024  # as much of a mail as a search looks at
LOOKED_AT_MAX: Final = 1000  # mails that one search opens
LOOKED_MS_MAX: Final = 10_000  # how long it goes on opening them
TRIES_MAX: Final = 3  # how often a mail may be moved while it is read
QUERY_CHARS_MAX: Final = 500
ID_MARK: Final = "#"  # between the name of a mail's file and what tells it from another mail
ID_CHARS: Final = 16

# A mail that the disk refuses with one of these is returned with what is known of it.
SHUT: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EIO}
)
MAILDIR: Final = ("new", "cur")  # in this order: a mail moves from the first to the second
FLAGS: Final = re.compile("[:;!]2,")  # where a colon cannot stand in a name, others do
TERM: Final = re.compile(r'(?:([a-z_]+):)?(?:"([^"]*)"|(\S+))', re.IGNORECASE)
AGE: Final = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)


@dataclass(frozen=True, slots=True)
class MailPlace:
    """Where a mail lies now; `base` is the part of its name that stays."""

    folder: str | None
    name: str
    base: str
    status: os.stat_result

    @property
    def arrival(self) -> Arrival:
        """Which file it is, as a cursor knows it."""
        return Arrival(self.status.st_ctime_ns, self.base, self.status.st_ino)

    @property
    def shut_id(self) -> str:
        """The id of a mail that cannot be opened: what is in it says nothing."""
        status = self.status
        return id_of(self.base, f"shut:{status.st_ino}:{status.st_mtime_ns}:{status.st_size}")


@dataclass(frozen=True, slots=True)
class Opened:
    """A mail as it was read, and its id."""

    id: str
    mail: Mail
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Query:
    """The terms of a search."""

    terms: tuple[tuple[str, str], ...]
    newer_than_ms: int | None = None

    @classmethod
    def read(cls, text: str) -> Query:
        """Read a query, or refuse an unknown term."""
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
                    f'The query has "{field}:", which is no term. Use words, {known} and'
                    " newer_than:."
                )
        return cls(tuple(terms), newer_than_ms)

    def is_too_old(self, status: os.stat_result, now_ms: int) -> bool:
        """Tell whether a mail's file is older than the query asks for."""
        age_ms = now_ms - status.st_mtime_ns // 1_000_000
        return self.newer_than_ms is not None and age_ms > self.newer_than_ms

    def fits(self, mail: Mail) -> bool:
        """Tell whether a mail meets every term about its words; an unreadable one does."""
        return not mail.is_readable or all(
            words in FIELDS[kind](mail).casefold() for kind, words in self.terms
        )


FIELDS: Final[Mapping[str, Callable[[Mail], str]]] = {
    "": lambda mail: f"{mail.subject}\n{mail.sender}\n{mail.snippet}",
    "from": lambda mail: mail.sender,
    "subject": lambda mail: mail.subject,
}


# One of its keys is a word of Python's own.
MailItem = TypedDict(
    "MailItem",
    {
        "id": str,
        "file": str,
        "message_id": str | None,
        "from": str,
        "subject": str,
        "date": str | None,
        "snippet": str,
        "problem": str | None,
    },
)


class WholeMail(MailItem):
    """A mail with its text and the names of what is attached."""

    to: str
    text: str
    attachments: list[str]


class Mailbox(Timed, Attached, Foldered):
    """The mails of one folder."""

    name = "mailbox"
    needs = (Need("path", "the folder of mails", "mails"),)

    def __init__(self, path: str | Path, *, name: str = "mailbox") -> None:
        self.name = name
        self._folder = Folder.at(path, name)
        self._is_maildir = False
        self._look_for_maildir()

    @read
    async def search(self, query: str = "", after: str | None = None) -> Page[MailItem]:
        """List the mails that arrived since, in the order of arrival.

        A query has the terms `word`, `"two words"`, `from:ada`, `subject:"two words"` and
        `newer_than:1d`; every one must fit, a part of a word is enough. `from` is as the mail has
        it: `Ada <ada@example.com>` or the address alone.
        Returns a page of {id, file, message_id, from, subject, date, snippet, problem}.
        """
        return await self.in_thread(self._search, Query.read(query), after, self.now_ms())

    @read(by_id=True)
    async def read(self, id: str) -> WholeMail | None:  # noqa: A002  # the seeds' own word
        """Read one mail with its text and the names of what is attached.

        Returns {id, file, message_id, from, subject, date, snippet, problem, to, text, attachments}
        or nothing, if there is no such mail.
        """
        found = await self.in_thread(self._find, id)
        return None if found is None else _whole(found)

    async def _fetch_one(self, id: str) -> tuple[None, Opened] | None:  # noqa: A002  # as above
        found = await self.in_thread(self._find, id)
        return None if found is None else (None, found)

    def _search(self, query: Query, after: str | None, now_ms: int) -> Page[MailItem]:
        present = {place.arrival: place for place in self._places()}
        sight = Cursor.read(after).compare(present)
        unseen = sight.unseen
        if unseen:
            pass_tick()
        # An age counts in the first search only: a host that was off over a weekend would miss
        # Friday's mail (K11). All older mails are passed at once, not page by page.
        passed = [
            each
            for each in unseen
            if after is None and query.is_too_old(present[each].status, now_ms)
        ]
        old = set(passed)
        items: list[MailItem] = []
        looked_at, last_ms = 0, self.monotonic_ms() + LOOKED_MS_MAX
        for arrival in unseen:
            if arrival in old:
                continue
            if len(items) >= PAGE_MAX or looked_at >= LOOKED_AT_MAX:
                break
            if looked_at and self.monotonic_ms() > last_ms:
                break
            looked_at += 1
            opened = self._open(present[arrival], HEAD_BYTES_MAX)
            if opened is None:
                continue  # It is being moved, and is found in its new place.
            passed.append(arrival)
            if query.fits(opened.mail):
                items.append(_item(opened))
        last_cursor = sight.move(passed).write()
        return Page(items, last_cursor=last_cursor, has_more=len(unseen) > len(passed))

    def _find(self, id: str) -> Opened | None:  # noqa: A002  # as above
        base, is_id, _ = id.rpartition(ID_MARK)
        for _ in range(TRIES_MAX):
            # A name may be used again, in a Maildir even by two mails at once, so the content
            # decides.
            places = [place for place in self._places() if is_id and place.base == base]
            found = [self._open(place, MAIL_BYTES_MAX) for place in places]
            for place, opened in zip(places, found, strict=True):
                if opened is not None and id in (opened.id, place.shut_id):
                    return Opened(id, opened.mail, opened.data)
            if places and None not in found:
                return None
        # A listing may miss a file that is renamed meanwhile, but hardly every time.
        if not places:
            return None
        raise NotSent(f"{id[:100]!r} is moved all the time.")

    def _look_for_maildir(self) -> None:
        """Check whether it is a Maildir; before its disk is mounted it does not look like one."""
        self._is_maildir = self._is_maildir or all(
            (self._folder.path / each).is_dir() for each in (*MAILDIR, "tmp")
        )

    def _places(self) -> list[MailPlace]:
        """Find every mail; one that is being moved is found where it goes."""
        self._look_for_maildir()
        found: dict[tuple[str, int], MailPlace] = {}
        for folder in MAILDIR if self._is_maildir else (None,):
            what = folder or self.name
            with definite(what), self._folder.open([folder] if folder else []) as here:
                is_private = self._folder.hides(here)
                for name, status in list_files(here, what):
                    if self._is_mail(name) and not is_private(name, status):
                        base = FLAGS.split(name)[0] if self._is_maildir else name
                        found[base, status.st_ino] = MailPlace(folder, name, base, status)
        return list(found.values())

    def _is_mail(self, name: str) -> bool:
        if name.startswith("."):
            return False
        return self._is_maildir or name.lower().endswith(".eml")

    def _open(self, place: MailPlace, limit_bytes: int) -> Opened | None:
        """Read a mail up to the limit; None if it was removed meanwhile."""
        try:
            with self._folder.open([place.folder] if place.folder else []) as here:
                found = read_file(here, place.name, limit_bytes)
        except OSError as error:
            if error.errno not in SHUT:
                raise classify(error, place.name) from error
            return Opened(place.shut_id, Mail(problem=f"It cannot be opened: {error.strerror}."))
        if found is None:
            return None
        data, status = found
        mail = self._parse(data[:limit_bytes])
        if status.st_size > MAIL_BYTES_MAX and mail.is_readable:
            problem = f"It has {status.st_size} bytes; only the first {limit_bytes} were read."
            mail = replace(mail, problem=problem)
        # Only the headers that a search reads, so that search and read find the same id.
        head = data[:HEAD_BYTES_MAX]
        is_known = mail.is_readable and len(data) == len(head)
        message_id = mail.message_id if is_known else self._parse_id(head)
        content = f"content:{status.st_size}:{sha256(head).hexdigest()}"
        own = id_of(place.base, f"id:{message_id}" if message_id else content)
        return Opened(own, mail, data[:limit_bytes])

    def _parse(self, data: bytes) -> Mail:
        """Read a mail in the locked process; an unreadable one is returned with a `problem`."""
        try:
            return self.readers.read("mail", data, Mail)
        except Unreadable as error:
            return Mail(problem=f"It cannot be read as a mail: {error}.")

    def _parse_id(self, head: bytes) -> str:
        try:
            return self.readers.read("mail.id", head, str)
        except Unreadable:
            return ""


def id_of(base: str, said: str) -> str:
    """Make the id of a mail from the name of its file and what the mail says."""
    return f"{base}{ID_MARK}{sha256(said.encode()).hexdigest()[:ID_CHARS]}"


def _item(opened: Opened) -> MailItem:
    mail = opened.mail
    return {
        "id": opened.id,
        "file": opened.id.rpartition(ID_MARK)[0],
        "message_id": mail.message_id,
        "from": mail.sender,
        "subject": mail.subject,
        "date": mail.date,
        "snippet": mail.snippet,
        "problem": mail.problem,
    }


def _whole(opened: Opened) -> WholeMail:
    mail, attachments = opened.mail, list(opened.mail.attachments)
    return {**_item(opened), "to": mail.to, "text": mail.text, "attachments": attachments}


def _age_ms(text: str) -> int:
    found = AGE.fullmatch(text)
    if found is None:
        raise Refused(f"newer_than:{text[:40]} is no age. Write it as 1d, 12h, 30m or 90s.")
    return int(found[1]) * UNIT_MS[found[2]]
