"""The second part of a demo: a mail server, a database and webhooks, and a host that is killed.

Law 1  The connectors are the ready-made ones; the outside is real servers of the demo itself.
Law 2  The host dies when the mail server has taken an answer and has not said so yet.
Law 3  What is counted is counted at the outside: rows in the database, mails and messages at the
       servers. A difference with the ledger is named, and is an error.
"""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from duly.api.clock import Env
from duly.api.session import Session, connect
from duly.api.word import Known, MutationStatus
from duly.faces.demo.folder import DemoFolder
from duly.faces.demo.post_server import INBOX, Post
from duly.faces.demo.process import LOOK_S, Process, serving
from duly.faces.demo.tell import STUCK_S, Mismatch, heading, tell

NAME: Final = "mail-desk"
FILE: Final = "mail_desk.py"
BOOKS: Final = "books.db"
PAGE: Final = 1000
MAILS: Final = (
    ("billing@shop.example", "Invoice 4711 is due"),
    ("Front Desk <desk@hotel.example>", "Your room is ready"),
    ("no-reply@tickets.example", "Ticket 12 is closed"),
)
HELD: Final = 2  # the answer to this mail is the one whose reply never comes
KINDS: Final = {"books.add_mail": "rows", "mail.send": "answers", "chat.send": "messages"}
PROVEN: Final = "proven"
ASKED: Final = "the folder of sent mails was asked, nothing was sent again"


@dataclass(slots=True)
class PostWalk:
    """The second part, in a folder of its own."""

    folder: DemoFolder
    env: Env
    post: Post

    async def run(self) -> None:
        """Walk through all of it."""
        heading("Now over the network: a mail server, a database and webhooks, on this machine")
        async with self.post:
            self._build()
            imap, smtp, http = self.post.ports
            tell(f"IMAP at port {imap}, SMTP at {smtp}, webhooks at {http}; the table is {BOOKS}.")
            async with serving(self.folder, self.env) as (process, session):
                tell(f"The host is process {process.child.pid}.")
                await self._deploy(session)
                await self._prove(session)
                self.post.hold_at = len(self.post.sent) + HELD
                self._deliver(MAILS[:HELD])
                await self._until(process, self._is_held)
                tell("The mail server has taken an answer, and its reply is held back:")
                tell(f"To: {self.post.sent[-1]['To']}, {self.post.sent[-1]['Subject']}")
                tell(f"kill -9 {process.child.pid}")
                process.kill()
                tell(f"Process {process.child.pid} was ended by SIGKILL.")
            call = await self._look()
            self._deliver(MAILS[HELD:])
            tell(f"{len(MAILS) - HELD} more mail arrives while no host runs.")
            heading("The host starts again, and asks the mail server")
            async with serving(self.folder, self.env) as (process, session):
                tell(f"The host is process {process.child.pid}.")
                await self._until(process, lambda: self._is_done(session))
                settled: Any = await session.call("mutation", id=call["id"])
                how = (settled.get("known") or {}).get("how")
                status, attempt = settled["status"], settled["attempt"]
                tell(f"The ledger has settled the call as {status}, attempt {attempt}.")
                tell(f"How: {ASKED if how == Known.ASKED else how}.")
                await self._account(session)

    def _build(self) -> None:
        """Make the project and its database."""
        kept, path = files("duly.faces.demo").joinpath("text"), self.folder.path
        (path / "workflows").mkdir(parents=True)
        imap, smtp, http = (str(each) for each in self.post.ports)
        text = kept.joinpath("post.toml.txt").read_text("utf-8")
        for word, port in (("IMAP", imap), ("SMTP", smtp), ("HTTP", http)):
            text = text.replace(f":{word}", f":{port}")
        (path / "duly.toml").write_text(text, "utf-8")
        script = kept.joinpath(f"{FILE}.txt").read_text("utf-8")
        (path / "workflows" / FILE).write_text(script, "utf-8")
        with closing(sqlite3.connect(path / BOOKS)) as books:
            books.execute(kept.joinpath("books.sql.txt").read_text("utf-8"))

    async def _deploy(self, session: Session) -> None:
        for connector, name in (("mail", "password"), ("chat", "signing")):
            signing = f"whsec_{b64encode(self.env.random_bytes(24)).decode()}"
            secret = signing if name == "signing" else "demo"
            await session.call("set_secret", connector=connector, name=name, value=secret)
        text = (self.folder.path / "workflows" / FILE).read_text("utf-8")
        source: Any = {"language": "python", "text": text, "name": FILE}
        await session.call("deploy", source=source, grant=True, strict=True)
        tell(f"{NAME} is deployed: each mail becomes a row, an answer and a message.")

    async def _prove(self, session: Session) -> None:
        """Send one mail to oneself, as a person does once with an account (K10)."""
        proof: Any = await session.call("prove", tool="mail.send")
        last = proof["last"] or {}
        if last.get("status") != PROVEN:
            raise Mismatch(f"mail.send: the trial with the account says {last}")
        tell("duly prove mail.send: a mail to itself was found among the sent ones.")

    def _deliver(self, mails: Sequence[tuple[str, str]]) -> None:
        inbox = self.post.folders[INBOX]
        for sender, subject in mails:
            head = f"From: {sender}\r\nTo: desk@demo.example\r\nSubject: {subject}\r\n"
            number = len(inbox) + 1
            text = f"{head}Message-ID: <{number}@desk.example>\r\n\r\nPlease have a look.\r\n"
            inbox.append(text.encode())

    async def _look(self) -> dict[str, Any]:
        """Look at what the ledger knows, now that no host runs."""
        word = MutationStatus.IN_FLIGHT.value
        async with connect(self.folder.project()) as session:
            found: Any = await session.call("mutations", status=word, limit=PAGE)
        if [each["tool"] for each in found] != ["mail.send"]:
            raise Mismatch(f"the ledger has {len(found)} calls that are {word}, not 1 answer")
        tell(f"The ledger has the call as {word}, which says neither yes nor no.")
        call: dict[str, Any] = found[0]
        return call

    async def _is_held(self) -> bool:
        return self.post.held.is_set()

    async def _is_done(self, session: Session) -> bool:
        applied = Counter(await self._applied(session))
        return all(applied[kind] >= len(MAILS) for kind in KINDS.values())

    async def _applied(self, session: Session) -> list[str]:
        rows: Any = await session.call("mutations", workflow=NAME, limit=PAGE)
        return [KINDS[each["tool"]] for each in rows if each["status"] == MutationStatus.APPLIED]

    async def _account(self, session: Session) -> None:
        """Count at the outside and in the ledger, and say where the two do not agree."""
        heading("The account, from the database, the servers and the ledger")
        applied = Counter(await self._applied(session))
        outside = self._outside()
        tell(f"{'':<10} {'mails':>5} {'outside':>8} {'applied':>8}")
        for kind, found in outside.items():
            tell(f"{kind:<10} {len(MAILS):>5} {found.total():>8} {applied[kind]:>8}")
        problems = compare_post(range(1, len(MAILS) + 1), outside, applied)
        if problems:
            raise Mismatch("\n".join(["Outside and ledger do not agree.", *problems]))
        tell("Every mail is exactly one row, one answer and one message.")

    def _outside(self) -> dict[str, Counter[int]]:
        """Count what there is of each mail, by its number."""
        with closing(sqlite3.connect(self.folder.path / BOOKS)) as books:
            asked = files("duly.faces.demo").joinpath("text/books_count.sql.txt")
            rows = [str(each) for (each,) in books.execute(asked.read_text("utf-8"))]
        answers = [str(each["In-Reply-To"]) for each in self.post.sent if each["In-Reply-To"]]
        messages = [str(each["id"]) for each in self.post.messages]
        return {
            "rows": Counter(int(each.rpartition(".")[2]) for each in rows),
            "answers": Counter(int(each[1:].partition("@")[0]) for each in answers),
            "messages": Counter(int(each.rpartition(".")[2]) for each in messages),
        }

    async def _until(self, process: Process, is_over: Callable[[], Awaitable[bool]]) -> None:
        """Wait; refuse to go on where nothing comes to an end for long."""
        last_ms = self.env.monotonic_ms() + STUCK_S * 1000
        while not await is_over():
            process.check()
            if self.env.monotonic_ms() > last_ms:
                raise self.folder.refusal("stuck", seconds=STUCK_S, log=str(self.folder.log))
            await self.env.sleep(LOOK_S)


def compare_post(
    mails: Sequence[int], outside: Mapping[str, Counter[int]], applied: Mapping[str, int]
) -> list[str]:
    """Say of which mails outside and ledger do not agree; of none, if all is well."""
    found = [
        f"mail {mail}: {counted[mail]} {kind}, not {int(mail in mails)}"
        for kind, counted in outside.items()
        for mail in sorted({*mails, *counted})
        if counted[mail] != int(mail in mails)
    ]
    return found + [
        f"{kind}: {counted.total()} outside, and {applied.get(kind, 0)} applied in the ledger"
        for kind, counted in outside.items()
        if counted.total() != applied.get(kind, 0)
    ]
