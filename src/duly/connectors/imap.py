"""Speaks IMAP with one server, over one connection, for one call (RFC 9051 and 3501).

Law 1: a folder is opened for reading unless the call changes it, and no read marks a mail as seen.
Law 2: a mail is known by its folder, the validity of its ids, and its id. Where the validity has
       changed, no earlier id means anything.
Law 3: what a server sends is limited: each line, each mail, and all of it (K6). No line holds the
       host: it has so many words at most, and others get their turn after some lines.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self, TypeAlias

from duly.connectors.line_wire import LineServer, LineWire
from duly.connectors.reach import Resolve
from duly.connectors.response import BrokenExchange
from duly.env import give_turn
from duly.errors import AuthNeeded, Refused, Transient

Token: TypeAlias = "bytes | list[Any]"

LITERAL: Final = re.compile(rb"\{([0-9]{1,30})\+?\}$")
TOKEN: Final = re.compile(rb'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"]+))')
# Only at the beginning, as the protocol has it: looked for everywhere, 64 KiB took ten seconds.
CODE: Final = re.compile(rb"(?:OK|NO|BAD) \[([A-Z][A-Z0-9-]*)(?: ([^\]]*))?\]", re.IGNORECASE)
LITERAL_BYTES_MAX: Final = 16 * 1024 * 1024
RESPONSES_MAX: Final = 20_000  # of one command
DEPTH_MAX: Final = 20
TOKENS_MAX: Final = 12_000  # of one response; a search names 5,000 mails at most
TURN_BYTES: Final = 32 * 1024  # of lines that are read before others get their turn
WORDS_CHARS_MAX: Final = 300
RANGES_MAX: Final = 200  # of ids in one command; servers take lines of 8 KB
# Codes of RFC 5530 and 9051. Of a move, which is a copy and a removal, only these are a no.
DOUBTS: Final = frozenset({"SERVERBUG", "UNAVAILABLE", "CORRUPTION"})
REFUSALS: Final = frozenset({"TRYCREATE", "NONEXISTENT", "NOPERM", "CANNOT", "OVERQUOTA", "LIMIT"})
ATOM: Final = re.compile(r"[A-Za-z0-9_.$-]{1,100}")


@dataclass(frozen=True, slots=True)
class ImapAccount:
    """Where mail lies, and who reads it."""

    server: LineServer
    user: str
    password: str
    connector: str


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder that was opened: the validity of its ids, the next id, and if it takes new marks."""

    name: str
    validity: int
    next_id: int
    takes_marks: bool


@dataclass(frozen=True, slots=True)
class FetchedMail:
    """What was read of one mail."""

    uid: int
    size_bytes: int
    flags: tuple[str, ...]
    data: bytes


class Denied(Exception):
    """The server said NO or BAD; `code` is its code, for programs."""

    def __init__(self, words: str, code: str = "") -> None:
        super().__init__(words)
        self.code = code

    @property
    def is_doubtful(self) -> bool:
        """Tell whether the server itself failed, so that the command may have had an effect."""
        return self.code in DOUBTS

    @property
    def is_certain(self) -> bool:
        """Tell whether the command was refused before it had an effect."""
        return self.code in REFUSALS or str(self)[:4].upper() == "BAD "


class UnsaidSearch(BrokenExchange):
    """A search had no result, not even an empty one."""


class ImapSession:
    """A connection that has signed in."""

    def __init__(self, wire: LineWire, account: ImapAccount) -> None:
        self._wire = wire
        self._account = account
        self._count = 0
        self._capabilities: frozenset[bytes] = frozenset()

    @classmethod
    async def open(
        cls, account: ImapAccount, context: ssl.SSLContext, resolve: Resolve | None = None
    ) -> Self:
        """Connect, begin TLS and sign in."""
        wire = await LineWire.open(account.server, context, resolve)
        session = cls(wire, account)
        try:
            greeting = await wire.read_line()
            if not greeting.upper().startswith(b"* OK"):
                raise BrokenExchange("it did not greet")
            if account.server.tls == "starttls":
                await session.command("STARTTLS")
                await wire.start_tls(context)
            await session._sign_in()
            return session
        except BaseException:
            wire.abort()
            raise

    def close(self) -> None:
        """End the connection."""
        self._wire.abort()

    async def _sign_in(self) -> None:
        user, password = self._account.user, self._account.password
        try:
            await self.command("LOGIN", quote(user), quote(password))
        except Denied as error:
            shown = self._account.server.shown
            if error.code == "UNAVAILABLE":
                raise Transient(f"{shown}: {error}", outcome="refused") from None
            said = f"{shown} did not accept the sign-in: {error}"
            raise AuthNeeded(said, connect=self._account.connector) from None
        lines = await self.command("CAPABILITY")
        words = (each.upper() for line in lines for each in line if isinstance(each, bytes))
        self._capabilities = frozenset(words)

    @property
    def can_move(self) -> bool:
        """Tell whether the server moves one mail: at once, or as a copy and a removal."""
        return not self._capabilities.isdisjoint((b"MOVE", b"UIDPLUS"))

    # -- Folders and mails ------------------------------------------------------------------------

    async def open_folder(self, name: str, *, is_change: bool = False) -> OpenFolder:
        """Open a folder; one that does not exist is refused."""
        word = "SELECT" if is_change else "EXAMINE"
        try:
            _, texts = await self._command(word, quote(encode_folder(name)))
        except Denied as error:
            raise Refused(f"The folder {name!r} cannot be opened: {error}") from None
        codes = (CODE.match(text) for text in texts)
        found = {each[1].upper(): each[2] or b"" for each in codes if each is not None}
        try:
            validity, next_id = int(found[b"UIDVALIDITY"]), int(found[b"UIDNEXT"])
        except (KeyError, ValueError):
            raise BrokenExchange("it opens a folder without saying how mails are known") from None
        return OpenFolder(name, validity, next_id, rb"\*" in found.get(b"PERMANENTFLAGS", b""))

    async def search(self, *terms: str) -> list[int]:
        """Return the ids of the mails that have all terms, in order."""
        lines = await self.command("UID SEARCH", *terms)
        found = [line[1:] for line in lines if line and line[0] == b"SEARCH"]
        if not found:  # a server says so too when it finds nothing (RFC 3501, 6.4.4)
            raise UnsaidSearch("it did not say what it found")
        try:
            return sorted({int(each) for line in found for each in line})  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise BrokenExchange("it found something that is no number") from None

    async def list_ids(self, first: int, last: int, age: Sequence[str] = ()) -> list[int]:
        """Return the ids of all mails from one id to another, in order; with terms for their age.

        A search may miss a mail, since an index of the server is behind. So the ids that it leaves
        out are asked for by themselves: a mail is passed over only if it is gone, or too old (K11).
        """
        try:
            named = await self.search(f"UID {first}:{last}", *age)
        except UnsaidSearch:
            if age:
                raise
            named = []
        found = {each for each in named if first <= each <= last}
        edges = [first - 1, *sorted(found), last + 1]
        gaps = [(low + 1, high - 1) for low, high in pairwise(edges) if high - low > 1]
        for at in range(0, 0 if age else len(gaps), RANGES_MAX):
            found |= await self._fetch_ids(gaps[at : at + RANGES_MAX])
        return sorted(each for each in found if first <= each <= last)

    async def _fetch_ids(self, ranges: Sequence[tuple[int, int]]) -> set[int]:
        """Return which mails of these ranges of ids are there."""
        spelled = ",".join(str(low) if low == high else f"{low}:{high}" for low, high in ranges)
        lines = await self.command("UID FETCH", spelled, "(UID)")
        return {_uid_of(line[2]) for line in lines if len(line) == 3 and line[1] == b"FETCH"}

    async def fetch(self, uids: Iterable[int], bytes_max: int) -> list[FetchedMail]:
        """Read the beginning of mails; those that are gone are missing.

        One that the server has and does not give is an error, and no mail that is gone.
        """
        wanted = set(uids)
        if not wanted:
            return []
        named = ",".join(str(each) for each in sorted(wanted))
        what = f"(UID RFC822.SIZE FLAGS BODY.PEEK[]<0.{bytes_max}>)"
        lines = await self.command("UID FETCH", named, what)
        mails = [_read_fetched(line, bytes_max) for line in lines if _is_fetched(line)]
        found = {each.uid: each for each in mails if each.uid in wanted}
        missing = wanted - found.keys()
        if missing and await self._are_there(sorted(missing)):
            raise BrokenExchange("it has a mail and does not give it")
        return [found[uid] for uid in sorted(found)]

    async def _are_there(self, uids: list[int]) -> bool:
        """Tell whether the server has one of these mails, by either way to ask it."""
        named = await self.search(f"UID {','.join(map(str, uids))}")
        given = await self._fetch_ids([(each, each) for each in uids])
        return bool({*named, *given} & set(uids))

    async def mark(self, uid: int, flags: str, *, is_on: bool = True) -> None:
        """Set or take away flags of a mail."""
        word = "+FLAGS.SILENT" if is_on else "-FLAGS.SILENT"
        await self.command("UID STORE", str(uid), word, f"({flags})")

    async def move(self, uid: int, folder: str) -> None:
        """Move a mail to another folder; without MOVE in three steps (RFC 6851, 3.3)."""
        where = quote(encode_folder(folder))
        if b"MOVE" in self._capabilities:
            try:
                await self.command("UID MOVE", str(uid), where)
            except Denied as error:
                if error.is_certain:
                    raise
                raise BrokenExchange(f"it may have copied it, and said {error}") from error
            return
        await self.command("UID COPY", str(uid), where)
        try:
            await self.mark(uid, r"\Deleted")
            await self.command("UID EXPUNGE", str(uid))  # this one alone
        except Denied as error:
            # The copy is there, so this no is not a no to the whole (L4).
            raise BrokenExchange(f"it was copied, and then the server said {error}") from error

    async def find_special(self, use: str) -> str | None:
        r"""Return the folder that the server itself has for a use such as \Sent (RFC 6154)."""
        is_asked = b"SPECIAL-USE" in self._capabilities
        words = ("LIST", "(SPECIAL-USE)") if is_asked else ("LIST",)
        for line in await self.command(*words, '""', '"*"'):
            if len(line) != 4 or line[0] != b"LIST" or not isinstance(line[1], list):
                continue
            uses = {each.lower() for each in line[1] if isinstance(each, bytes)}
            if use.lower().encode() in uses and isinstance(line[3], bytes):
                return decode_folder(line[3])
        return None

    async def append(self, folder: str, flags: str, data: bytes) -> None:
        """Put a mail into a folder; the server has taken nothing before its last byte."""
        tag = self._tag()
        head = f"{tag} APPEND {quote(encode_folder(folder))} ({flags}) {{{len(data)}}}\r\n"
        await self._wire.send(head.encode("ascii"))
        line = await self._wire.read_line()
        while not line.startswith(b"+"):
            if line.startswith(tag.encode()):
                raise _denied(line[len(tag) :])
            line = await self._wire.read_line()
        await self._wire.send(data + b"\r\n")
        await self._answer(tag)

    # -- The protocol -----------------------------------------------------------------------------

    async def command(self, *parts: str) -> list[list[Token]]:
        """Send a command and return what the server said, as lists of tokens."""
        lines, _ = await self._command(*parts)
        return lines

    async def _command(self, *parts: str) -> tuple[list[list[Token]], list[bytes]]:
        tag = self._tag()
        await self._wire.send(f"{tag} {' '.join(parts)}\r\n".encode("ascii"))
        return await self._answer(tag)

    def _tag(self) -> str:
        self._count += 1
        return f"D{self._count}"

    async def _answer(self, tag: str) -> tuple[list[list[Token]], list[bytes]]:
        lines: list[list[Token]] = []
        texts: list[bytes] = []
        turn_bytes = 0
        while len(lines) + len(texts) < RESPONSES_MAX:
            pieces = await self._read_pieces()
            first = pieces[0]
            turn_bytes += sum(len(each) for each in pieces[::2])
            if turn_bytes > TURN_BYTES:  # lines that came together are read without a wait
                turn_bytes = 0
                await give_turn()
            if first.startswith(tag.encode() + b" "):
                rest = first[len(tag) + 1 :]
                if not rest.upper().startswith(b"OK"):
                    raise _denied(rest)
                texts.append(rest)
                return lines, texts
            if not first.startswith(b"* "):
                raise BrokenExchange("it answered with something that is no response")
            word = first[2:].upper()
            if word.startswith(b"BYE"):
                raise BrokenExchange("it ended the connection")
            if word.startswith((b"OK", b"NO", b"BAD")):
                texts.append(first[2:])
            else:
                lines.append(read_tokens([first[2:], *pieces[1:]]))
        raise BrokenExchange(f"it answered with more than {RESPONSES_MAX} responses")

    async def _read_pieces(self) -> list[bytes]:
        """Read one response: texts, and between them literals, which are every second piece."""
        pieces = [await self._wire.read_line()]
        while found := LITERAL.search(pieces[-1]):
            size = int(found[1])
            if size > LITERAL_BYTES_MAX:
                raise BrokenExchange(f"it sends a text of {size:,} bytes")
            pieces[-1] = pieces[-1][: found.start()]
            pieces += [await self._wire.read_exactly(size), await self._wire.read_line()]
        return pieces


# -- Reading and writing what the protocol says ---------------------------------------------------


def quote(text: str) -> str:
    """Write a text between quotes; one with a line end or another alphabet is refused."""
    if not text.isascii() or any(each in text for each in "\r\n\0"):
        raise Refused("A text for the server has characters that IMAP cannot take.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check_flag(name: str) -> str:
    """Return a flag that a server takes, or refuse it."""
    if not ATOM.fullmatch(name):
        raise Refused(f"{name[:50]!r} is no name of a flag. Use letters, digits, _ . $ and -.")
    return name


def encode_folder(name: str) -> str:
    """Write the name of a folder as IMAP has it: other alphabets in a base64 of its own."""
    if not name or any(each in name for each in "\r\n\0"):
        raise Refused(f"{name[:50]!r} is no name of a folder.")

    def shift(found: re.Match[str]) -> str:
        spelled = base64.b64encode(found[0].encode("utf-16-be")).decode().rstrip("=")
        return f"&{spelled.replace('/', ',')}-"

    return re.sub(r"[^\x20-\x7e]+", shift, name.replace("&", "&-"))


def decode_folder(name: bytes) -> str:
    """Read the name of a folder as IMAP has it; one that makes no sense is an error."""

    def unshift(found: re.Match[str]) -> str:
        if not found[1]:
            return "&"
        spelled = found[1].replace(",", "/")
        return base64.b64decode(spelled + "=" * (-len(spelled) % 4)).decode("utf-16-be")

    try:
        return re.sub(r"&([A-Za-z0-9+,]*)-", unshift, name.decode())
    except (UnicodeDecodeError, binascii.Error):
        raise BrokenExchange("it has a folder whose name cannot be read") from None


def _denied(rest: bytes) -> Denied:
    words = rest.decode("utf-8", "replace").strip()
    code = CODE.match(rest.lstrip())
    return Denied(words[:WORDS_CHARS_MAX], code[1].decode().upper() if code else "")


def read_tokens(pieces: list[bytes]) -> list[Token]:
    """Read texts and literals as tokens, and lists of them."""
    whole: list[Token] = []
    stack, count = [whole], 0
    for number, piece in enumerate(pieces):
        if number % 2:
            stack[-1].append(piece)
            continue
        place, text = 0, piece.rstrip()
        while place < len(text):
            found = TOKEN.match(text, place)
            count += 1
            if found is None or len(stack) > DEPTH_MAX or count > TOKENS_MAX:
                raise BrokenExchange("it answered with something that cannot be read")
            place = found.end()
            if found[1]:
                inner: list[Token] = []
                stack[-1].append(inner)
                stack.append(inner)
            elif found[2]:
                if len(stack) == 1:
                    raise BrokenExchange("it answered with something that cannot be read")
                stack.pop()
            elif found[3] is not None:
                stack[-1].append(re.sub(rb"\\(.)", rb"\1", found[3]))
            else:
                stack[-1].append(found[4])
    return whole


def _is_fetched(line: list[Token]) -> bool:
    """Tell whether a response has a mail; one with flags alone may come at any time."""
    if len(line) != 3 or line[1] != b"FETCH" or not isinstance(line[2], list):
        return False
    return any(isinstance(each, bytes) and each.upper().startswith(b"BODY[") for each in line[2])


def _uid_of(items: Token) -> int:
    """Return the id in a description of a mail; 0, which no mail has, if there is none."""
    pairs = zip(items[::2], items[1::2], strict=False) if isinstance(items, list) else ()
    found = [value for name, value in pairs if isinstance(name, bytes) and name.upper() == b"UID"]
    return int(found[0]) if found and isinstance(found[0], bytes) and found[0].isdigit() else 0


def _read_fetched(line: list[Token], bytes_max: int) -> FetchedMail:
    items = line[2]
    assert isinstance(items, list), line
    found: dict[bytes, Any] = {}
    for name, value in zip(items[::2], items[1::2], strict=False):
        if isinstance(name, bytes):
            found[b"BODY" if name.upper().startswith(b"BODY[") else name.upper()] = value
    try:
        uid, size, data = int(found[b"UID"]), int(found[b"RFC822.SIZE"]), found[b"BODY"]
        flags = tuple(each.decode("ascii", "replace") for each in found.get(b"FLAGS", []))
        if not isinstance(data, bytes):
            raise TypeError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BrokenExchange("it described a mail in a way that cannot be read") from None
    return FetchedMail(uid, size, flags, data[:bytes_max])
