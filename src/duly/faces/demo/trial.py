"""One program with an outside of its own: a mail server, a table, and the network between them.

Law 1  All programs get the same mails at the same moment, and have the same kind of outside.
Law 2  What is counted is counted at the outside: mails at the mail server, rows in the table. No
       program is asked, and none is believed (L3).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from duly.api.clock import Env
from duly.faces.demo.invoice import place_of
from duly.faces.demo.network import Network
from duly.faces.demo.post_server import INBOX, Post
from duly.faces.demo.program import Program, read_text

BOOKS: Final = "books.db"
PERSON: Final = "person@demo.example"
TAKES_S: Final = 0.1  # how long the server needs to say that it has taken a mail
QUIET_MS: Final = 30_000  # after it, what is missing counts as lost


@dataclass(frozen=True, slots=True)
class Tally:
    """What the outside counts of one program."""

    arrived: int
    rows: int
    replies: int
    twice: int
    lost: int
    questions: int
    missing: int  # mails without a row or without a reply, whether they are lost or under way

    @property
    def is_right(self) -> bool:
        """Tell whether nothing was done twice and nothing was lost."""
        return self.twice == 0 and self.lost == 0

    @property
    def is_whole(self) -> bool:
        """Tell whether each mail has its row and its reply, or a question in their place."""
        return self.missing <= self.questions


def count(
    places: range, rows: Counter[int], replies: Counter[int], asked: int, *, is_quiet: bool
) -> Tally:
    """Count what became of the mails at these places."""
    missing = sum(1 for each in places if rows[each] == 0 or replies[each] == 0)
    strange = [each for each in {*rows, *replies} if each not in places]
    twice = sum(each - 1 for each in (*rows.values(), *replies.values()) if each > 1)
    return Tally(
        arrived=len(places),
        rows=rows.total(),
        replies=replies.total(),
        twice=twice + sum(rows[each] + replies[each] for each in strange),
        lost=max(0, missing - asked) if is_quiet else 0,
        questions=asked,
        missing=missing,
    )


@dataclass(slots=True)
class Trial:
    """A program and its outside, in a folder of its own."""

    name: str
    says: str
    path: Path
    env: Env
    program: Program
    source: str = ""  # the script that it runs
    _post: Post = field(default_factory=Post)
    _networks: list[Network] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _moved: tuple[tuple[int, ...], int] = ((), 0)  # what was counted last, and since when

    async def __aenter__(self) -> Self:
        self.path.mkdir(parents=True)
        with closing(sqlite3.connect(self.path / BOOKS)) as books:
            books.execute(read_text("invoices.sql"))
        self._post.pause = partial(self.env.sleep, TAKES_S)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._post)
            for port in self._post.ports[:2]:
                network = await stack.enter_async_context(Network(self.env, port))
                self._networks.append(network)
            stack.callback(self.program.end)
            imap, smtp = (each.port for each in self._networks)
            await self.program.begin(imap, smtp)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def deliver(self, mail: bytes) -> None:
        """Let one more mail arrive."""
        self._post.folders[INBOX].append(mail)

    def cut(self) -> None:
        """Cut the network."""
        for each in self._networks:
            each.cut()

    def mend(self) -> None:
        """Let the network work again."""
        for each in self._networks:
            each.mend()

    def stir(self) -> None:
        """Begin anew to wait for quiet: something was done to the program."""
        self._moved = ((), self.env.monotonic_ms())

    def tally(self) -> Tally:
        """Count at the mail server and in the table."""
        replies, asked = Counter[int](), 0
        for each in self._post.sent:
            place = place_of(str(each["In-Reply-To"] or ""))
            if place is not None:
                replies[place] += 1
            elif PERSON in str(each["To"] or ""):
                asked += 1
        rows = self._rows()
        places = range(1, len(self._post.folders[INBOX]) + 1)
        seen = (len(places), rows.total(), replies.total(), asked)
        if seen != self._moved[0]:
            self._moved = (seen, self.env.monotonic_ms())
        is_quiet = self.env.monotonic_ms() - self._moved[1] >= QUIET_MS
        return count(places, rows, replies, asked, is_quiet=is_quiet)

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing has happened outside for long, by what was counted last."""
        return self.env.monotonic_ms() - self._moved[1] >= QUIET_MS

    def _rows(self) -> Counter[int]:
        found = Counter[int]()
        with closing(sqlite3.connect(self.path / BOOKS)) as books:
            for (mail,) in books.execute(read_text("invoices_count.sql")):
                found[place_of(str(mail)) or 0] += 1
        return found
