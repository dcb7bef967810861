"""Mails of a Gmail account, by Google's own interface: search, read, send, label, archive.

    [connectors.gmail]
    use = "gmail"
    client_id = "123-abc.apps.googleusercontent.com"
    address = "Ada <ada@example.com>"

An account with an app password needs none of this: see `mail_account.py`.

Law 1: a mail is a draft first. Its id is on the disk before it is sent (L14), and a draft is sent
       once: then it is gone. So no mail is sent twice, also when an answer is lost.
Law 2: whether it was sent is seen in its thread: there is a mail with the mark of the call among
       the sent ones, or still the draft. Of a thread with neither nothing is said.
Law 3: a search returns every mail that came since, by the history that Google keeps. Where that
       does not reach back, it begins anew: a mail may come again, and none is left out (K11).
Law 4: a label is set after the version of the mail is on the disk (L14). If the answer is lost and
       the mail is another version without the label, a person may have taken it away: that is
       asked, and the label is not set again.
Law 5: a mail is written by strangers: it is read in a locked process (K7).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.google import CLIENT_NEED, Google, list_at, made, one_segment, text_at
from duly.connectors.json_answer import pick
from duly.connectors.letter import MARK_HEADER, TRIAL, bounded, mark_of, write_letter
from duly.connectors.mail import Mail, plain
from duly.connectors.mail_part import Attached
from duly.connectors.mailbox import Query as MailQuery
from duly.connectors.need import Need
from duly.connectors.reader import Unreadable
from duly.connectors.signature import Address
from duly.connectors.status import Meaning
from duly.errors import ConfigError, Invalid, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.address import parse_address
from duly.rules.blob import Blob
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json

PAGE_MAILS: Final = 20  # each is asked for by itself
MAIL_BYTES_MAX: Final = 25 * 1024 * 1024
RAW_BYTES_MAX: Final = MAIL_BYTES_MAX * 4 // 3 + 64 * 1024  # in base64, and what goes with it
HEADER_CHARS_MAX: Final = 200
SEND_S: Final = 60.0
LAG_S: Final = 120.0
ID: Final = re.compile(r"[0-9A-Za-z_-]{1,100}")
HISTORY: Final = re.compile(r"([0-9]{1,20})(?::(.{1,500}))?", re.ASCII)
HEADERS: Final = ("From", "To", "Subject", "Date", "Message-ID")
INBOX: Final = "INBOX"
# The draft is gone: it was sent before, or a person deleted it. Which of the two is asked.
SENT: Final[Mapping[int, Meaning]] = MappingProxyType({404: Meaning.UNKNOWN})

# One of its keys is a word of Python's own.
GmailItem = TypedDict(
    "GmailItem",
    {
        "id": str,
        "thread": str,
        "message_id": str | None,
        "from": str,
        "to": str,
        "subject": str,
        "date": str,
        "snippet": str,
        "labels": list[str],
    },
)


class WholeGmail(GmailItem):
    """A mail with its text and the names of what is attached."""

    text: str
    attachments: list[str]
    problem: str | None


class SentGmail(TypedDict):
    """The result of a send."""

    id: str
    thread: str


class LabelledGmail(TypedDict):
    """The result of a change of labels."""

    id: str


@dataclass(frozen=True, slots=True)
class _Fetched:
    data: bytes


class Gmail(Attached, Google):
    """One account; `address` is who sends."""

    name = "gmail"
    home = "https://gmail.googleapis.com"
    base_path = "/gmail/v1/users/me"
    # To send a draft is `compose`; to find it again among the sent mails, it has to be read.
    scopes = MappingProxyType(
        {
            "read": ("gmail.readonly",),
            "send": ("gmail.compose", "gmail.readonly"),
            "label": ("gmail.modify",),
            "archive": ("gmail.modify",),
        }
    )
    needs = (CLIENT_NEED, Need("address", "the address that sends", "Ada <ada@example.com>"))

    def __init__(
        self,
        client_id: str,
        address: str,
        *,
        url: str = "",
        secret: str = "sign_in",
        client_secret: str = "client_secret",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "gmail",
    ) -> None:
        super().__init__(
            client_id,
            url=url,
            secret=secret,
            client_secret=client_secret,
            allow=allow,
            ca=ca,
            name=name,
            body_bytes_max=RAW_BYTES_MAX,
        )
        try:
            self._plain = parse_address(address, "address")
        except Invalid as error:
            raise ConfigError(str(error)) from None
        self._address = address

    # -- Reading ----------------------------------------------------------------------------------

    @read(timeout_s=60)
    async def search(
        self, query: str = "", after: str | None = None, label: str = INBOX
    ) -> Page[GmailItem]:
        """List the mails that came since, of one label: the inbox, if none is given.

        `query="subject:invoice from:bob newer_than:7d"`: every term must fit; a part of a word is
        enough, in capitals or not. The first search begins with the newest. Returns a page of {id,
        thread, message_id, from, to, subject, date, snippet, labels}.
        """
        self.require("read")
        wanted = MailQuery.read(query)
        label_id = await self._label_id(label)
        if after is not None and (found := HISTORY.fullmatch(after)) is None:
            raise Refused(f"after is {after[:50]!r}, which is no cursor of a search.")
        if after is None:
            return await self._scan(wanted, label_id, None, "")
        assert found is not None
        since, token = found[1], found[2] or ""
        if token.startswith("all."):
            return await self._scan(wanted, label_id, since, token.removeprefix("all."))
        return await self._changes(wanted, label_id, since, token)

    @read(by_id=True, timeout_s=60)
    async def get(self, id: str) -> WholeGmail | None:  # noqa: A002  # as every other connector
        """Read one mail with its text and the names of what is attached.

        Returns {id, thread, message_id, from, to, subject, date, snippet, labels, text,
        attachments, problem}, or nothing if there is no such mail any more.
        """
        self.require("read")
        item = await self._item(id)
        found = await self._fetch_one(id) if item is not None else None
        if item is None or found is None:
            return None
        try:
            mail = await self.in_thread(self.readers.read, "mail", found[1].data, Mail)
        except Unreadable as error:
            mail = Mail(problem=f"It cannot be read as a mail: {error}.")
        return {
            **item,
            "text": mail.text,
            "attachments": list(mail.attachments),
            "problem": mail.problem,
        }

    async def _scan(
        self, wanted: MailQuery, label: str, since: str | None, token: str
    ) -> Page[GmailItem]:
        """List everything there is; what comes meanwhile is in the history since it began."""
        if since is None:
            since = text_at(await self.fetch("/profile"), "historyId")
            if not since.isdecimal():
                raise Transient(f"{self.name}: the profile has no number of the history.")
        query: dict[str, Json] = {"labelIds": label, "maxResults": str(PAGE_MAILS)}
        if wanted.newer_than_ms is not None:
            query["q"] = f"newer_than:{max(1, -(-wanted.newer_than_ms // DAY_MS))}d"
        if token:
            query["pageToken"] = token
        answer = await self.fetch("/messages", query)
        items = await self._fitting(wanted, label, _ids(list_at(answer, "messages")))
        following = text_at(answer, "nextPageToken")
        cursor = f"{since}:all.{following}" if following else since
        return Page(items, last_cursor=cursor, has_more=bool(following))

    async def _changes(
        self, wanted: MailQuery, label: str, since: str, token: str
    ) -> Page[GmailItem]:
        """List what came since a moment of the history; if that is too old, begin anew (law 3)."""
        query: dict[str, Json] = {
            "startHistoryId": since,
            "historyTypes": ["messageAdded", "labelAdded"],
            "labelId": label,
            "maxResults": str(PAGE_MAILS),
        }
        if token:
            query["pageToken"] = token
        answer = await self.fetch_one("/history", query)
        if answer is None:
            return await self._scan(wanted, label, None, "")
        found = [
            each
            for record in list_at(answer, "history")
            for place in ("messagesAdded", "labelsAdded")
            for each in list_at(record, place)
            if place == "messagesAdded" or label in list_at(each, "labelIds")
        ]
        items = await self._fitting(wanted, label, _ids([pick(each, "message") for each in found]))
        following, newest = text_at(answer, "nextPageToken"), text_at(answer, "historyId")
        if following:
            return Page(items, last_cursor=f"{since}:{following}", has_more=True)
        return Page(items, last_cursor=newest or since, has_more=False)

    async def _fitting(self, wanted: MailQuery, label: str, ids: list[str]) -> list[GmailItem]:
        items = [await self._item(each) for each in ids]
        return [
            each
            for each in items
            if each is not None and label in each["labels"] and wanted.fits(_as_mail(each))
        ]

    async def _item(self, own: str) -> GmailItem | None:
        """Ask for the headers of a mail; None if it is not there any more."""
        query: dict[str, Json] = {"format": "metadata", "metadataHeaders": list(HEADERS)}
        found: Any = await self.fetch_one(f"/messages/{_id(own)}", query)
        if found is None:
            return None
        heads = _headers(found)
        return {
            "id": text_at(found, "id"),
            "thread": text_at(found, "threadId"),
            "message_id": heads.get("message-id"),
            "from": heads.get("from", ""),
            "to": heads.get("to", ""),
            "subject": heads.get("subject", ""),
            "date": heads.get("date", ""),
            "snippet": plain(text_at(found, "snippet"), HEADER_CHARS_MAX),
            "labels": [each for each in list_at(found, "labelIds") if isinstance(each, str)],
        }

    async def _fetch_one(self, id: str) -> tuple[str, _Fetched] | None:  # noqa: A002
        self.require("read")
        found = await self.fetch_one(f"/messages/{_id(id)}", {"format": "raw"})
        if found is None:
            return None
        raw = text_at(found, "raw")
        try:
            return id, _Fetched(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
        except (binascii.Error, ValueError):
            raise Transient(f"{self.name}: the mail came in a form that cannot be read.") from None

    async def _label_id(self, name: str) -> str:
        """Return the id of a label; those of Gmail itself are their own."""
        for each in list_at(await self.fetch("/labels"), "labels"):
            if name in (text_at(each, "name"), text_at(each, "id")):
                return text_at(each, "id")
        raise Refused(f"label: there is no label {name[:80]!r}.")

    # -- Sending ----------------------------------------------------------------------------------

    @mutation(
        noun="mail",
        lag_s=LAG_S,
        timeout_s=2 * SEND_S,
        key_in="handle",
        asked="exactly",
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
    ) -> SentGmail:
        """Send a mail of plain text, with blobs attached to it.

        In `to` and `cc` stands `ada@example.com` or `Ada <ada@example.com>`, also as `from` has it.
        `reply_to` is the `message_id` of the mail that this one answers.
        Returns {id, thread}.
        """
        self.require("send")
        handle = _handle(call)
        if handle is None:
            files = [(each, await self.open_blob(each)) for each in bounded(attachments or ())]
            words: Any = {"to": to, "subject": subject, "text": text, "cc": cc or ()}
            letter = await self.in_thread(
                write_letter, call, self._address, **words, reply_to=reply_to, files=files
            )
            raw = base64.urlsafe_b64encode(letter.data).decode()
            try:
                draft = await self.change_at(
                    call, "POST", "/drafts", {"message": {"raw": raw}}, timeout_s=SEND_S
                )
            except (UnknownOutcome, Transient) as error:
                # A draft may be left over. No mail was sent: that is the second step (law 1).
                after_s = getattr(error, "retry_after_s", None)
                raise NotSent(f"No mail was sent: {error}", retry_after_s=after_s) from error
            handle = text_at(draft, "id"), text_at(draft, "message.threadId")
            if not all(map(ID.fullmatch, handle)):
                raise NotSent("No mail was sent: the answer names no draft.")
            await call.keep([mark_of(call.key), *handle])
        sent = await self.change_at(
            call, "POST", "/drafts/send", {"id": handle[0]}, statuses=SENT, timeout_s=SEND_S
        )
        return {"id": made(call, sent), "thread": text_at(sent, "threadId") or handle[1]}

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        """Look in the thread of the draft: the sent mail has the mark of this very call."""
        handle = _handle(call)
        if handle is None:
            return NotApplied()  # a mail is sent only after its draft was kept
        query: dict[str, Json] = {"format": "metadata", "metadataHeaders": [MARK_HEADER]}
        thread = await self.look(f"/threads/{_id(handle[1])}", query)
        marked = [
            each
            for each in list_at(thread, "messages")
            if _headers(each).get(MARK_HEADER.lower()) == mark_of(call.key)
        ]
        for each in marked:
            if "SENT" in list_at(each, "labelIds"):
                return Applied({"id": text_at(each, "id"), "thread": handle[1]})
        if any("DRAFT" in list_at(each, "labelIds") for each in marked):
            return NotApplied()
        return Unsure("neither the draft nor a sent mail with the mark is in its thread any more")

    @send.trial
    def send_tried(self) -> dict[str, Json]:
        """Sends one mail from this account to itself, and looks for it among the sent mails."""
        return {"to": [self._plain], **TRIAL}

    # -- Filing -----------------------------------------------------------------------------------

    @mutation(
        risk="low",
        noun="mail",
        lag_s=60,
        key_in="id",
        asked="exactly",
        proof="itself",
        labels={"id": "Mail", "label": "Label"},
    )
    async def label(
        self,
        call: Call,
        id: str,  # noqa: A002  # as above
        label: str,
        on: bool = True,
    ) -> LabelledGmail:
        """Set a label at a mail, or take it away.

        Returns {id}.
        """
        self.require("label")
        try:
            label_id = await self._label_id(label)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        return await self._modify(call, id, label_id, is_on=on)

    @label.reconcile
    async def label_happened(self, call: Call) -> Verdict:
        """Look whether the mail has the label, or has it no more."""
        label = await self._label_id(str(call.args["label"]))
        return await self._labelled(call, label, is_on=call.args.get("on", True) is not False)

    @mutation(
        risk="low",
        noun="mail",
        lag_s=60,
        key_in="id",
        asked="exactly",
        proof="itself",
        labels={"id": "Mail"},
    )
    async def archive(self, call: Call, id: str) -> LabelledGmail:  # noqa: A002  # as above
        """Take a mail out of the inbox.

        Returns {id}.
        """
        self.require("archive")
        return await self._modify(call, id, INBOX, is_on=False)

    @archive.reconcile
    async def archive_happened(self, call: Call) -> Verdict:
        """Look whether the mail is still in the inbox."""
        return await self._labelled(call, INBOX, is_on=False)

    async def _modify(self, call: Call, own: str, label: str, *, is_on: bool) -> LabelledGmail:
        if _version(call) is None:
            found = await self.look_before(f"/messages/{_id(own)}", {"format": "minimal"})
            if found is None:
                raise Refused("id: there is no such mail any more.")
            await call.keep([mark_of(call.key), text_at(found, "historyId")])
        body: Json = {"addLabelIds" if is_on else "removeLabelIds": [label]}
        answer = await self.change_at(call, "POST", f"/messages/{_id(own)}/modify", body)
        return {"id": made(call, answer)}

    async def _labelled(self, call: Call, label: str, *, is_on: bool) -> Verdict:
        own = str(call.args["id"])
        found = await self.look(f"/messages/{_id(own)}", {"format": "minimal"})
        if found is None:
            return Unsure("the mail is not there any more")
        if text_at(found, "id") != own:
            return Unsure("the answer does not show the mail")
        if (label in list_at(found, "labelIds")) is is_on:
            return Applied({"id": own})
        version = _version(call)
        if version is None or version == (text_at(found, "historyId") or None):
            return NotApplied()  # the change is sent only after the version was kept
        return Unsure("the mail was changed since, so this may have been done and undone")

    def _relies_on(self, method: str) -> Json:
        return [str(self.base), self._plain]


def _ids(found: list[Any]) -> list[str]:
    """Return the ids of mails, each once, in their order."""
    return list(dict.fromkeys(own for each in found if (own := text_at(each, "id"))))


def _id(own: str) -> str:
    if not ID.fullmatch(own):
        raise Refused(f"{own[:80]!r} is no id of a mail. Take it from a search.")
    return one_segment(own, "id")


def _handle(call: Call) -> tuple[str, str] | None:
    """Return the draft of this very call and its thread, if they were kept."""
    match call.handle:
        case [str(mark), str(draft), str(thread)] if mark == mark_of(call.key):
            return draft, thread
    return None


def _version(call: Call) -> str | None:
    """Return the version that the mail had before this very call; None if it sent nothing."""
    match call.handle:
        case [str(mark), str(version)] if mark == mark_of(call.key):
            return version
    return None


def _headers(found: Any) -> dict[str, str]:
    """Return the headers of a mail, as one line each, by their names in lower case."""
    pairs = (
        (text_at(each, "name"), text_at(each, "value"))
        for each in list_at(found, "payload.headers")
    )
    return {name.lower(): plain(value, HEADER_CHARS_MAX) for name, value in reversed([*pairs])}


def _as_mail(item: GmailItem) -> Mail:
    return Mail(
        message_id=item["message_id"],
        sender=item["from"],
        to=item["to"],
        subject=item["subject"],
        text=item["snippet"],
    )
