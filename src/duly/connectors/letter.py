"""Writes the mails that a host sends: plain text, with the mark of their call (K12, L5).

Law 1: the id and one header of a mail are made from the key of its call. By them it is found again,
       and the same call always makes the same mail.
Law 2: an address is one address; a text of the script never becomes a header or another receiver.
       So headers are written here: the library decodes what looks encoded in a text that it is
       given, and a line end in it began a header of its own.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256
from typing import Final

from duly.connectors.base import Call
from duly.errors import Invalid, Refused
from duly.rules.address import parse_address
from duly.rules.blob import Blob, plain_name

MARK_PREFIX: Final = "duly-"
MARK_HEADER: Final = "X-Duly-Call"
MARK_CHARS: Final = 32
# What is sent to oneself to find out whether sent mails are kept (K10).
TRIAL: Final = {
    "subject": "Duly: trial",
    "text": "Duly sent this mail to find out whether sent mails are kept. You may delete it.",
}
SUBJECT_CHARS_MAX: Final = 900
TEXT_CHARS_MAX: Final = 1_000_000
RECEIVERS_MAX: Final = 50
FILES_MAX: Final = 20
FILES_BYTES_MAX: Final = 18 * 1024 * 1024  # servers take 25 MiB, and base64 is a third longer
ID_CHARS_MAX: Final = 900  # a line of a mail has at most 998
WORD_BYTES_MAX: Final = 45  # of an encoded word, which has at most 75 characters (RFC 2047)
MARKED: Final = re.compile(
    rb"^(?:x-duly-call:\s*|message-id:\s*<duly\.)([0-9a-f]{32})\b", re.IGNORECASE | re.MULTILINE
)
BETWEEN: Final = "\r\n "  # a header goes on in the next line


@dataclass(frozen=True, slots=True)
class WrittenMail:
    """A mail that is ready to be sent, and what it is found again by."""

    sender: str
    receivers: tuple[str, ...]
    message_id: str
    data: bytes


def mark_of(key: str) -> str:
    """Return the mark of a call: it tells calls apart, and does not tell the key."""
    return sha256(f"duly mail {key}".encode()).hexdigest()[:MARK_CHARS]


def keyword_of(key: str) -> str:
    """Return the flag of a server by which a mail is known that a call has changed."""
    return f"{MARK_PREFIX}{mark_of(key)[:16]}"


def message_id_of(key: str, sender: str) -> str:
    """Return the id of the mail that a call makes."""
    return f"<duly.{mark_of(key)}@{sender.rpartition('@')[2]}>"


def is_marked(data: bytes, key: str) -> bool:
    """Tell whether a mail is the one that a call makes, by its own headers."""
    mark = mark_of(key).encode()
    found = MARKED.finditer(data.partition(b"\r\n\r\n")[0])
    return any(each[1] == mark for each in found)


def write_letter(
    call: Call,
    sender: str,
    *,
    to: Sequence[str],
    subject: str,
    text: str,
    cc: Sequence[str] = (),
    reply_to: str | None = None,
    files: Sequence[tuple[Blob, bytes]] = (),
) -> WrittenMail:
    """Write the mail of a call; `files` are attached to it."""
    if not to or len(to) + len(cc) > RECEIVERS_MAX:
        raise Refused(f"A mail goes to 1 to {RECEIVERS_MAX} receivers.")
    if len(subject) > SUBJECT_CHARS_MAX or not subject.isprintable():
        raise Refused(f"The subject is one line of at most {SUBJECT_CHARS_MAX} characters.")
    if len(text) > TEXT_CHARS_MAX or "\0" in text:
        raise Refused(f"The text has at most {TEXT_CHARS_MAX:,} characters and no zero.")
    plain = _plain(sender, "address")
    headers = {
        "From": _shown(sender, "address"),
        "To": _listed(to, "to"),
        "Cc": _listed(cc, "cc"),
        "Subject": _spelled(subject),
        "Date": format_datetime(call.first_sent_at),
        "Message-ID": message_id_of(call.key, plain),
        MARK_HEADER: mark_of(call.key),
    }
    if reply_to is not None:
        is_id = reply_to.isascii() and reply_to.isprintable() and len(reply_to) <= ID_CHARS_MAX
        if not is_id or " " in reply_to or "=?" in reply_to:
            raise Refused("reply_to is no id of a mail.")
        headers |= {"In-Reply-To": reply_to, "References": reply_to}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
    body = EmailMessage(policy=SMTP)
    body.set_content(text, charset="utf-8", cte="quoted-printable")
    _attach(body, files, mark_of(call.key))
    data = head.encode("ascii") + body.as_bytes()
    receivers = tuple(_plain(each, "to") for each in (*to, *cc))
    return WrittenMail(plain, receivers, message_id_of(call.key, plain), data)


def bounded(files: Sequence[Blob]) -> Sequence[Blob]:
    """Return files, or refuse more than a mail takes; their handles say how large they are."""
    if len(files) > FILES_MAX or sum(each["size"] for each in files) > FILES_BYTES_MAX:
        raise Refused(f"At most {FILES_MAX} files of {FILES_BYTES_MAX:,} bytes are attached.")
    return files


def _attach(body: EmailMessage, files: Sequence[tuple[Blob, bytes]], mark: str) -> None:
    """Attach files; the same call always makes the same mail, also between its parts (law 1)."""
    bounded([{**blob, "size": len(data)} for blob, data in files])
    for blob, data in files:
        main, _, sub = blob["type"].partition("/")
        # The library decodes what looks like an encoded word (law 2).
        name = plain_name(blob["name"]).replace("=?", "__")
        body.add_attachment(data, maintype=main, subtype=sub, filename=name)
    if files:
        body.set_boundary(f"duly-{mark}")


def _plain(text: str, path: str) -> str:
    try:
        found = parse_address(text, path)
    except Invalid as error:
        raise Refused(str(error)) from None
    if not found.isascii() or any(each in found for each in "<> \r\n"):
        raise Refused(f"{path}: {text[:100]!r} cannot be sent to. Write it in ASCII.")
    return found


def _listed(receivers: Sequence[str], path: str) -> str:
    return f",{BETWEEN}".join(_shown(each, path) for each in receivers)


def _shown(text: str, path: str) -> str:
    """Write one address as a header has it, with the name that stands before it."""
    plain = _plain(text, path)
    name = text.rpartition("<")[0].strip(' "')
    if not name:
        return plain
    spelled = _spelled(name)
    # A name has no quotes in it, and no backslashes: `parse_address` refuses both.
    return f'"{name}" <{plain}>' if spelled == name else f"{spelled}{BETWEEN}<{plain}>"


def _spelled(text: str) -> str:
    """Write a text as it stands; in encoded words, if a reader would take it for something else."""
    if text.isascii() and "=?" not in text:
        return text
    words, word = [], b""
    for character in text:
        data = character.encode()
        if len(word) + len(data) > WORD_BYTES_MAX:
            words.append(word)
            word = b""
        word += data
    return BETWEEN.join(f"=?utf-8?b?{base64.b64encode(each).decode()}?=" for each in (*words, word))
