"""Reads a mail: its headers as plain text, its text, the names of its attachments.

Law: a mail is written by strangers. What cannot be read is left out, what is too long is cut, and
`problem` says so. Reading that takes too long is ended from outside: a host runs this in a locked
process (`reader.py`, K7), never in its own.
"""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.policy import Compat32
from email.utils import parsedate_to_datetime
from encodings import aliases
from html.parser import HTMLParser
from itertools import islice
from typing import Final

# Long enough to be read, short enough for a title of 500 characters that names both.
HEADER_CHARS_MAX: Final = 200
MESSAGE_ID_CHARS_MAX: Final = 500
SNIPPET_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 100_000
ATTACHMENTS_MAX: Final = 100
RAW_HEADER_CHARS_MAX: Final = 4000  # before it is decoded, which shortens it
PARTS_MAX: Final = 500
SEPARATOR: Final = b"\0"  # between the number of an attachment and its mail
# Codecs of Python that are no charsets. No mail is written in them, and punycode takes quadratic
# time.
NO_CHARSETS: Final = frozenset({"punycode", "idna", "unicode-escape", "raw-unicode-escape"})
# Charsets that no other name leads to.
FURTHER_CHARSETS: Final = ("koi8_u", "cp720", "cp737", "cp874", "mac_romanian", "utf_8_sig")
WARM: Final = b"""\
Message-ID: <1@example.com>
From: =?utf-8?q?Ada?= <ada@example.com>
Date: Mon, 5 Jan 2026 10:00:00 +0100
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: %b; charset=iso-8859-1
Content-Transfer-Encoding: %b

x
--b
Content-Disposition: attachment; filename*0*=utf-8''a%%20b; filename*1=.txt

x
--b--
"""
UNSPOKEN: Final = frozenset({"script", "style", "head", "title"})
BLOCKS: Final = frozenset({"br", "p", "div", "table", "tr", "ul", "ol", "li", "h1", "h2", "h3"})


class Cut(Compat32):
    """Reads headers as they stand, cut to a length.

    The standard library takes quadratic time to find the parameters of a header: a mail of 64 KiB
    held a search for ten seconds, and one of 10 MiB would have held it for days.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Read one header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:RAW_HEADER_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as far as it can be read; a header that is missing is empty, a date None."""

    message_id: str | None = None
    sender: str = ""
    to: str = ""
    subject: str = ""
    date: str | None = None
    text: str = ""
    attachments: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def is_readable(self) -> bool:
        """Whether anything could be read."""
        return self.problem is None or bool(self.sender or self.subject or self.text)

    @property
    def snippet(self) -> str:
        """The first words of the text, on one line."""
        return plain(self.text, SNIPPET_CHARS_MAX)


def read_mail(data: bytes) -> Mail:
    """Read a mail; parts that are broken are missing in the result, and `problem` names them."""
    problem: str | None = None
    try:
        message = BytesParser(policy=Cut()).parsebytes(data)
        text, attachments = _contents(message)
    except Exception as error:
        # A stranger chose these bytes, and the parser may raise anything.
        return Mail(problem=f"It cannot be read as a mail: {type(error).__name__}.")
    message_id = _header(message, "message-id", MESSAGE_ID_CHARS_MAX)
    if len(text) > TEXT_CHARS_MAX:
        problem = f"Only the first {TEXT_CHARS_MAX} characters of its text are here."
    if not message_id and not message.get("from") and problem is None:
        problem = "It has neither a sender nor an id; it may be no mail at all."
    return Mail(
        message_id=message_id or None,
        sender=_header(message, "from"),
        to=_header(message, "to"),
        subject=_header(message, "subject"),
        date=_date(message),
        text=text[:TEXT_CHARS_MAX],
        attachments=attachments,
        problem=problem,
    )


def read_id(data: bytes) -> str:
    """Read the Message-ID of a mail out of its headers alone; none is empty."""
    headers = BytesParser(policy=Cut()).parsebytes(data, headersonly=True)
    return _header(headers, "message-id", MESSAGE_ID_CHARS_MAX)


@dataclass(frozen=True, slots=True)
class MailPart:
    """One attachment; no data if the mail has no such one."""

    name: str = ""
    type: str = ""
    data: bytes | None = None


def read_part(asked: bytes) -> MailPart:
    """Read one attachment of a mail; its number stands before the mail."""
    number, _, data = asked.partition(SEPARATOR)
    message = BytesParser(policy=Cut()).parsebytes(data)
    found = (
        (name, part)
        for part in islice(message.walk(), PARTS_MAX)
        if not part.is_multipart() and (name := attached_name(part)) is not None
    )
    name, wanted = next(islice(found, int(number) - 1, None), ("", None))
    if wanted is None:
        return MailPart()
    payload = wanted.get_payload(decode=True)
    body = payload if isinstance(payload, bytes) else b""
    return MailPart(name, wanted.get_content_type(), body)


def warm_up() -> None:
    """Import what the readers import late: a locked process can import nothing."""
    for name in {*aliases.aliases.values(), *FURTHER_CHARSETS}:
        with suppress(LookupError):  # Some exist on other systems only.
            codecs.lookup(name)
    for body in (b"text/plain", b"text/html"):
        for coding in (b"base64", b"quoted-printable", b"x-uuencode", b"7bit"):
            read_mail(WARM % (body, coding))
            read_part(b"1" + SEPARATOR + WARM % (body, coding))


def plain(text: str, chars_max: int) -> str:
    """Bring a text on one line without control characters, cut to a length."""
    words = " ".join(text[: chars_max * 10].split())
    shown = "".join(each for each in words if each.isprintable())
    return shown if len(shown) <= chars_max else f"{shown[: chars_max - 1]}…"


def _header(message: Message, name: str, chars_max: int = HEADER_CHARS_MAX) -> str:
    for key, value in message.raw_items():
        if key.lower() == name:
            return plain(_decoded(str(value)), chars_max)
    return ""


def _decoded(raw: str) -> str:
    """Decode a header, word by word; a word in an unknown charset is kept as it stands."""
    text = _whole(raw)
    try:
        parts = decode_header(text)
    except Exception:  # A word that claims to be encoded and is not.
        return text
    return "".join(
        part if isinstance(part, str) else _text_of(part, charset) for part, charset in parts
    )


def _whole(text: str) -> str:
    """Read bytes that are not ASCII as UTF-8; half a character becomes a question mark."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text_of(data: bytes, charset: str | None) -> str:
    for name in (charset or "utf-8", "utf-8"):
        try:
            if codecs.lookup(name).name not in NO_CHARSETS:
                return data.decode(name)
        except (LookupError, ValueError):  # An unknown charset, or bytes that do not fit it.
            continue
    return data.decode("latin-1")


def _date(message: Message) -> str | None:
    raw = _header(message, "date")
    try:
        moment = parsedate_to_datetime(raw)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _contents(message: Message) -> tuple[str, tuple[str, ...]]:
    """Find the text, plain before HTML, and the names of the attachments."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for part in islice(message.walk(), PARTS_MAX):
        if part.is_multipart():
            continue
        kind, name = part.get_content_type(), attached_name(part)
        if name is not None:
            names.append(name)
        elif kind in ("text/plain", "text/html") and kind not in texts:
            payload = part.get_payload(decode=True)
            data = payload if isinstance(payload, bytes) else b""
            texts[kind] = _text_of(data, part.get_content_charset())
    text = texts.get("text/plain")
    if text is None or not text.strip():
        text = spoken(texts["text/html"]) if "text/html" in texts else text or ""
    return _whole(text.replace("\r\n", "\n").replace("\0", "")), tuple(names[:ATTACHMENTS_MAX])


def attached_name(part: Message) -> str | None:
    """Return the name under which a part is attached; None if it is not."""
    name = part.get_filename()
    if name is None and part.get_content_disposition() != "attachment":
        return None
    return plain(_decoded(str(name or part.get_content_type())), HEADER_CHARS_MAX)


def spoken(page: str) -> str:
    """Take the words out of a page of HTML, a line for each block."""
    reader = _Words()
    reader.feed(page[: TEXT_CHARS_MAX * 10])
    reader.close()  # it holds back what may be the half of a character reference
    lines = (" ".join(line.split()) for line in "".join(reader.words).splitlines())
    return "\n".join(line for line in lines if line)


class _Words(HTMLParser):
    """Takes the words out of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self._unspoken = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in UNSPOKEN:
            self._unspoken += 1
        elif tag == "body":
            self._unspoken = 0  # Many pages never close their head.
        elif tag in BLOCKS:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in UNSPOKEN:
            self._unspoken = max(0, self._unspoken - 1)
        elif tag in BLOCKS:
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unspoken:
            self.words.append(data)
