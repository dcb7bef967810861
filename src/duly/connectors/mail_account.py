"""A mail account over the network: IMAP to read and file mails, SMTP to send them.

    [connectors.mail]
    use = "mail"
    address = "Ada <ada@example.com>"
    imap = "imap.example.com"
    smtp = "smtp.example.com"

Law 1: a search returns every mail once, in the order of arrival, by the ids of its folder. It never
       marks a mail as seen (K11).
Law 2: a mail is written by strangers: it is read in a locked process (K7), as far as it can be.
Law 3: a sent mail carries a mark made from its key. It is found again in the folder of sent mails.
       That it is not there is said only where no mail that came since was removed; the host
       believes it only after a trial with this account (K10).
Law 4: what files a mail (move, flag, draft) leaves a mark in the folder, and is found by it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from duly.connectors.arrival import PAGE_MAX
from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.clock import Timed
from duly.connectors.found_mail import (
    denied_change,
    end_of,
    find_mail,
    has_mark,
    mark_before,
    mark_done,
    spell_flag,
    spell_since,
)
from duly.connectors.imap import Denied, FetchedMail, ImapAccount, ImapSession, OpenFolder
from duly.connectors.letter import (
    TRIAL,
    WrittenMail,
    bounded,
    keyword_of,
    message_id_of,
    write_letter,
)
from duly.connectors.line_wire import LineServer
from duly.connectors.mail import Mail
from duly.connectors.mail_part import Attached
from duly.connectors.mailbox import HEAD_BYTES_MAX, LOOKED_AT_MAX, LOOKED_MS_MAX, MAIL_BYTES_MAX
from duly.connectors.mailbox import Query as MailQuery
from duly.connectors.post import (
    MAIL_NEEDS,
    FiledMail,
    PostItem,
    SentMail,
    WholePost,
    item_of,
    last_of,
    read_id,
    read_server,
)
from duly.connectors.reach import make_context, why_of, within
from duly.connectors.reader import Unreadable
from duly.connectors.response import BrokenExchange
from duly.connectors.signature import Address
from duly.connectors.smtp import Letter, SmtpAccount, send_letter
from duly.errors import ConfigError, Invalid, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.address import parse_address
from duly.rules.blob import Blob
from duly.rules.url import read_host
from duly.rules.value import Json

WINDOW: Final = 5_000  # ids of one search on the server: its answer is one line
WINDOWS_MAX: Final = 40
BATCH: Final = 20  # mails that are fetched together
READ_S: Final = 30.0
FIND_S: Final = 20.0
BEFORE_S: Final = 5.0  # for a look that a send can do without
SENT_LAG_S: Final = 600.0
SENT: Final = r"\Sent"
DRAFTS: Final = r"\Drafts"


class _Progress:
    """How far a change has come."""

    is_sent = False


class MailAccount(Timed, Attached):
    """One account: `address` is who it is, `user` who signs in, if that is another.

    `imap` and `smtp` are hosts, with a port where it is not 993 and 465. `allow` names hosts that
    may be private, `ca` is a file with the certificates to trust. `sent` and `drafts` are folders,
    if they are not those that the server itself has for it.
    """

    name = "mail"
    needs = MAIL_NEEDS

    def __init__(
        self,
        address: str,
        *,
        imap: str | None = None,
        smtp: str | None = None,
        user: str | None = None,
        secret: str = "password",
        sent: str | None = None,
        drafts: str | None = None,
        tls: str | None = None,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "mail",
    ) -> None:
        self.name = name
        try:
            plain = parse_address(address, "address")
            allowed = frozenset(read_host(each, path="allow") for each in allow)
        except Invalid as error:
            raise ConfigError(str(error)) from None
        if imap is None and smtp is None:
            raise ConfigError("imap: name a server to read from, or smtp for one to send with.")
        self._address, self._user, self._secret = address, user or plain, secret
        self._plain = plain
        self._imap = None if imap is None else read_server(imap, "imap", 993, tls, allowed)
        self._smtp = None if smtp is None else read_server(smtp, "smtp", 465, tls, allowed)
        servers = [each for each in (self._imap, self._smtp) if each is not None]
        self._origin = " ".join(each.shown for each in servers)
        self._sent, self._drafts, self._secret_names = sent, drafts, (secret,)
        self._ca = None if ca is None else Path(ca)
        self._context: ssl.SSLContext | None = None

    # -- Reading ----------------------------------------------------------------------------------

    @read
    async def search(
        self, query: str = "", after: str | None = None, folder: str = "INBOX"
    ) -> Page[PostItem]:
        """List the mails that arrived in a folder since, in the order of arrival.

        A query has the terms `word`, `"two words"`, `from:ada`, `subject:"two words"` and
        `newer_than:1d`; every one must fit, a part of a word is enough. `from` is as the mail has
        it: `Ada <ada@example.com>` or the address alone.
        Returns a page of {id, folder, message_id, from, subject, date, snippet, problem}.
        """
        wanted = MailQuery.read(query)
        last_ms = self.monotonic_ms() + LOOKED_MS_MAX
        since = spell_since(self.now_ms(), wanted.newer_than_ms if after is None else None)
        async with self._session(READ_S) as session:
            opened = await session.open_folder(folder)
            last = last_of(after, opened)
            items: list[PostItem] = []
            looked_at = windows = 0
            end = opened.next_id - 1
            while last < end and windows < WINDOWS_MAX and len(items) < PAGE_MAX:
                windows += 1
                until = min(last + WINDOW, end)
                found = await session.list_ids(last + 1, until, since)
                is_whole = True
                for batch in range(0, len(found), BATCH):
                    is_late = looked_at > 0 and self.monotonic_ms() > last_ms
                    if len(items) >= PAGE_MAX or looked_at >= LOOKED_AT_MAX or is_late:
                        is_whole = False
                        break
                    uids = found[batch : batch + BATCH]
                    mails = await session.fetch(uids, HEAD_BYTES_MAX)
                    items += await self._fitting(wanted, opened, mails)
                    looked_at, last = looked_at + len(uids), uids[-1]
                if not is_whole:
                    break
                last = until
        return Page(items, last_cursor=f"{opened.validity}.{last}", has_more=last < end)

    @read(by_id=True)
    async def read(self, id: str) -> WholePost | None:  # noqa: A002  # the seeds' own word
        """Read one mail with its text and the names of what is attached.

        Returns {id, folder, message_id, from, subject, date, snippet, problem, to, text,
        attachments} or nothing, if there is no such mail any more.
        """
        found = await self._fetch_one(id)
        if found is None:
            return None
        mail = await self._parse(found[1], MAIL_BYTES_MAX)
        item, attachments = item_of(found[0], found[1].uid, mail), list(mail.attachments)
        return {**item, "to": mail.to, "text": mail.text, "attachments": attachments}

    async def _fetch_one(self, id: str) -> tuple[OpenFolder, FetchedMail] | None:  # noqa: A002
        folder, validity, uid = read_id(id)
        async with self._session(READ_S) as session:
            opened = await session.open_folder(folder)
            if opened.validity != validity:
                return None
            mails = await session.fetch([uid], MAIL_BYTES_MAX)
        return (opened, mails[0]) if mails else None

    async def _fitting(
        self, query: MailQuery, opened: OpenFolder, mails: list[FetchedMail]
    ) -> list[PostItem]:
        found: list[PostItem] = []
        for each in mails:
            mail = await self._parse(each, HEAD_BYTES_MAX)
            if query.fits(mail):
                found.append(item_of(opened, each.uid, mail))
        return found

    async def _parse(self, fetched: FetchedMail, bytes_max: int) -> Mail:
        """Read a mail in the locked process; an unreadable one is returned with a `problem`."""
        try:
            mail = await self.in_thread(self.readers.read, "mail", fetched.data, Mail)
        except Unreadable as error:
            return Mail(problem=f"It cannot be read as a mail: {error}.")
        if fetched.size_bytes > MAIL_BYTES_MAX and mail.is_readable:
            said = f"It has {fetched.size_bytes} bytes; only the first {bytes_max} were read."
            return replace(mail, problem=said)
        return mail

    # -- Sending ----------------------------------------------------------------------------------

    @mutation(
        noun="mail",
        lag_s=SENT_LAG_S,
        key_in="header",
        asked="by_search",
        deleted="seen",
        labels={"to": "To", "cc": "Cc", "subject": "Subject", "text": "Body"},
        editable=("subject", "text"),
    )
    async def send(
        self,
        call: Call,
        to: list[Address],
        subject: str,
        text: str,
        cc: list[Address] | None = None,
        reply_to: str | None = None,
        attachments: list[Blob] | None = None,
    ) -> SentMail:
        """Send a mail of plain text, with blobs attached to it.

        In `to` and `cc` stands `ada@example.com` or `Ada <ada@example.com>`, also as `from` has it.
        `reply_to` is the `message_id` of the mail that this one answers.
        Returns {message_id}.
        """
        if self._smtp is None:
            raise Refused(f"{self.name}: the settings name no server to send with (smtp).")
        words = {"to": to, "subject": subject, "text": text, "cc": cc or (), "reply_to": reply_to}
        letter = await self._letter(call, attachments, **words)
        account = SmtpAccount(self._smtp, self._user, self.secret(self._secret), self.name)
        sent = Letter(letter.sender, letter.receivers, letter.data)
        await call.keep(await self._before_sending())
        await send_letter(account, sent, self._trust(), timeout_s=READ_S)
        return {"message_id": letter.message_id}

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        """Look for the mail of this call in the folder of sent mails."""
        if not isinstance(call.handle, list):
            return NotApplied()  # the mail is sent only after its handle was kept
        if self._imap is None:
            return Unsure("the settings name no server on which sent mails are kept (imap)")
        return await self._look(SENT, call)

    @send.trial
    def send_tried(self) -> dict[str, Json]:
        """Sends one mail from this account to itself, and looks for it among the sent mails."""
        return {"to": [self._plain], **TRIAL}

    @mutation(
        risk="low",
        noun="draft",
        lag_s=60,
        key_in="header",
        asked="exactly",
        deleted="seen",
        labels={"to": "To", "cc": "Cc", "subject": "Subject", "text": "Body"},
        editable=("subject", "text"),
    )
    async def draft(
        self,
        call: Call,
        to: list[Address],
        subject: str,
        text: str,
        cc: list[Address] | None = None,
        reply_to: str | None = None,
    ) -> SentMail:
        """Put a mail into the folder of drafts, for a person to send.

        It is written as for `send`.
        Returns {message_id}.
        """
        words = {"to": to, "subject": subject, "text": text, "cc": cc or (), "reply_to": reply_to}
        letter = await self._letter(call, None, **words)
        async with self._changing() as (session, progress):
            drafts = await self._folder(session, DRAFTS)
            opened = await session.open_folder(drafts)
            # What comes later has a later id: so the folder itself says whether this came (L14).
            await call.keep(end_of(opened))
            progress.is_sent = True
            await session.append(drafts, r"\Draft", letter.data)
        return {"message_id": letter.message_id}

    @draft.reconcile
    async def draft_happened(self, call: Call) -> Verdict:
        """Look for the draft among all that came into the folder since it was about to be made."""
        if not isinstance(call.handle, list):
            return NotApplied()  # the draft is sent only after its handle was kept
        return await self._look(DRAFTS, call)

    @draft.trial
    def draft_tried(self) -> dict[str, Json]:
        """Puts one draft to this account itself into the folder of drafts, and looks for it."""
        return {"to": [self._plain], **TRIAL}

    # -- Filing -----------------------------------------------------------------------------------

    @mutation(risk="low", noun="mail", lag_s=60, key_in="marker", asked="exactly", proof="itself")
    async def move(self, call: Call, id: str, folder: str) -> FiledMail:  # noqa: A002  # as above
        """Move a mail to another folder.

        Returns {id}, the one it had.
        """
        source, validity, uid = read_id(id)
        async with self._changing() as (session, progress):
            if not session.can_move:
                raise Refused(f"{self.name}: the server cannot move mails.")
            await self._open_marked(session, source, validity, uid, call)
            progress.is_sent = True
            await session.move(uid, folder)
        return {"id": id}

    @move.reconcile
    async def move_happened(self, call: Call) -> Verdict:
        """Look for the mark of this call in the folder the mail was to go to."""
        source, validity, uid = read_id(str(call.args["id"]))
        async with self._session(FIND_S) as session:
            await session.open_folder(str(call.args["folder"]))
            is_moved = await has_mark(session, call)
            opened = await session.open_folder(source)
            is_there = opened.validity == validity and bool(await session.search(f"UID {uid}"))
        if is_moved and is_there:  # a server without MOVE was cut off in the middle
            return Unsure(f"the mail was copied, and is still in {source} too")
        if is_moved:
            return Applied({"id": call.args["id"]})
        return NotApplied() if is_there else Unsure("the mail is in neither folder")

    @mutation(risk="low", noun="mail", lag_s=60, key_in="marker", asked="exactly", proof="itself")
    async def flag(
        self,
        call: Call,
        id: str,  # noqa: A002  # as above
        flag: str,
        on: bool = True,
    ) -> FiledMail:
        """Set or take away a flag of a mail: seen, flagged, answered, or a word of your own.

        Returns {id}.
        """
        source, validity, uid = read_id(id)
        spelled = spell_flag(flag)
        async with self._changing() as (session, progress):
            await self._open_marked(session, source, validity, uid, None)
            progress.is_sent = True
            if on:
                await session.mark(uid, f"{spelled} {keyword_of(call.key)}")
            else:
                await session.mark(uid, spelled, is_on=False)
                await mark_done(session, uid, keyword_of(call.key))
        return {"id": id}

    @flag.reconcile
    async def flag_happened(self, call: Call) -> Verdict:
        """Look for the mark of this call at the mail."""
        source, validity, uid = read_id(str(call.args["id"]))
        async with self._session(FIND_S) as session:
            opened = await session.open_folder(source)
            if opened.validity != validity:
                return Unsure(f"the mails of {source} have new ids since")
            if await has_mark(session, call, f"UID {uid}"):
                return Applied({"id": call.args["id"]})
            is_there = await session.search(f"UID {uid}")
        return NotApplied() if is_there else Unsure("the mail is not there any more")

    # -- Within -----------------------------------------------------------------------------------

    def _relies_on(self, method: str) -> Json:
        return [self._origin, self._user, self._plain, self._sent, self._drafts]

    async def _before_sending(self) -> list[Json]:
        """Return where the folder of sent mails ends, so that a gap in it is seen later (L14).

        While its server cannot be reached nothing is sent: a mail that is lost on its way then
        could not be denied, and a person would have to look for it.
        """
        if self._imap is not None:
            try:
                async with self._session(BEFORE_S) as session:
                    return end_of(await session.open_folder(await self._folder(session, SENT)))
            except Transient as error:
                raise NotSent(
                    f"It was not sent: no look at the sent mails before. {error}"
                ) from None
            except Refused:
                pass  # it has no such folder any more: sent all the same
        return end_of(None)

    async def _folder(self, session: ImapSession, use: str) -> str:
        """Return the folder for a use: the one of the settings, or the server's own for it."""
        named = self._sent if use == SENT else self._drafts
        found = named or await session.find_special(use)
        if found is None:
            key = "sent" if use == SENT else "drafts"
            raise Refused(f"{self.name}: the server has no folder for {use}. Name one: {key} =")
        return found

    async def _look(self, use: str, call: Call) -> Verdict:
        """Look for the mail of a call in the folder for its kind."""
        async with self._session(FIND_S) as session:
            try:
                folder = await self._folder(session, use)
            except Refused as error:
                return Unsure(str(error))
            found = await find_mail(session, folder, call)
        if isinstance(found, str):
            return Unsure(found)
        made = {"message_id": message_id_of(call.key, self._plain)}
        return Applied(made) if found else NotApplied()

    async def _open_marked(
        self, session: ImapSession, folder: str, validity: int, uid: int, call: Call | None
    ) -> None:
        """Open the folder of a mail to change it, and mark the mail with its call."""
        opened = await session.open_folder(folder, is_change=True)
        if opened.validity != validity or not await session.search(f"UID {uid}"):
            raise Refused(f"There is no such mail in {folder} any more.")
        if not opened.takes_marks:
            raise Refused(f"{folder} takes no new marks, so a change could not be found again.")
        if call is not None:
            await mark_before(session, uid, folder, call)

    async def _letter(self, call: Call, files: list[Blob] | None, **words: Any) -> WrittenMail:
        """Write a mail, beside the loop; too many files are refused before one is opened."""
        opened = [(each, await self.open_blob(each)) for each in bounded(files or ())]
        return await self.in_thread(write_letter, call, self._address, **words, files=opened)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[tuple[ImapSession, _Progress]]:
        """Open a session for a change; what an error means depends on how far it came (L4)."""
        progress = _Progress()
        server = self._reading_server()
        try:
            async with self._signed_in(READ_S) as session:
                yield session, progress
        except Denied as error:
            raise denied_change(error, server.shown, is_sent=progress.is_sent) from error
        except (OSError, EOFError, BrokenExchange) as error:
            why = why_of(error, READ_S)
            if not progress.is_sent:
                raise NotSent(f"{server.shown}: nothing was changed: {why}.") from error
            raise UnknownOutcome(f"{server.shown}: it may have been done: {why}.") from error

    @asynccontextmanager
    async def _session(self, timeout_s: float) -> AsyncIterator[ImapSession]:
        """Open a session for a read."""
        server = self._reading_server()
        try:
            async with self._signed_in(timeout_s) as session:
                yield session
        except Denied as error:
            raise Refused(f"{server.shown} refused: {error}") from error
        except (OSError, EOFError, BrokenExchange) as error:
            raise Transient(f"{server.shown}: {why_of(error, timeout_s)}.") from error

    @asynccontextmanager
    async def _signed_in(self, timeout_s: float) -> AsyncIterator[ImapSession]:
        server = self._reading_server()
        account = ImapAccount(server, self._user, self.secret(self._secret), self.name)
        async with asyncio.timeout(within(timeout_s)):
            session = await ImapSession.open(account, self._trust())
            try:
                yield session
            finally:
                session.close()

    def _reading_server(self) -> LineServer:
        if self._imap is None:
            raise Refused(f"{self.name}: the settings name no server to read from (imap).")
        return self._imap

    def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = make_context(self._ca)
        return self._context
