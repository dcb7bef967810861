"""What crosses the control socket: lines of JSON, errors as values, and the way to the socket.

Law 1: a line is one JSON object and a newline; nothing on either side grows with what the other
       side sends: every size has a limit.
Law 2: an error crosses by its kind, its sentence and its fields, and is raised over there as the
       same class. A bug crosses as one sentence, without what the exception said.
Law 3: the socket is its user's alone from the moment it exists, with any umask. Each side asks the
       kernel which user is at the other end.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pwd
import socket
import stat
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from duly import errors
from duly.api.codec import to_json
from duly.api.registry import Scope
from duly.errors import ConfigError, DulyError, Invalid, StoreUnavailable
from duly.rules.shown import cut, visible
from duly.rules.value import PATH_KEY_CHARS, Json, decode

MIB: Final = 1024 * 1024
LINE: Final = "the line"  # what an error of a line is about
REQUEST_BYTES_MAX: Final = 8 * MIB
REQUEST_PARTS_MAX: Final = 100_000  # values and brackets of one request
PIECE_BYTES: Final = 64 * 1024  # of a line that is looked at without a pause
ANSWER_BYTES_MAX: Final = 64 * MIB
MESSAGE_CHARS_MAX: Final = 16 * 1024  # of the sentence of an error
# How many wait to be let in while we are busy with the one before them.
BACKLOG: Final = 64
WELCOME_TURNS: Final = 8  # of the loop, from a client at the door to its welcome and its end
MODE: Final = 0o600
PEER: Final = struct.Struct("3i")  # process, user, group: what the kernel says of a peer
ROOT: Final = 0
# Arguments hold values that have a depth of their own, which the host counts.
DEPTH_AROUND: Final = 8
NOT_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")


# -- Lines --------------------------------------------------------------------------------------


def write_line(message: Mapping[str, Json]) -> bytes:
    """Write one message as a line."""
    return msgspec.json.encode(message) + b"\n"


def read_line(line: bytes, name: str = LINE) -> dict[str, Json]:
    """Read one message, or say what is wrong with the line, or with what it is called instead."""
    try:
        message = decode(line.decode(), name)
    except UnicodeDecodeError as error:
        raise Invalid(code="not_utf8", subject=name, facts={"byte": error.start}) from None
    if not isinstance(message, dict):
        facts = {"wanted": "request" if name == LINE else "object"}
        raise Invalid(code="wrong_value", subject=name, facts=facts)
    return message


class Scan:
    """What a line is made of, seen piece by piece: how many values, and how they are nested.

    A value costs far more than its bytes, so their number has a limit before the line is read.
    """

    def __init__(self) -> None:
        self.parts = 0
        self.brackets = bytearray()
        self._is_inside = False  # a string goes on in the next piece
        self._rest = b""  # the backslash at the end of a piece, whose character is in the next

    def add(self, piece: bytes) -> None:
        """Look at the next piece of a line."""
        if self.parts > REQUEST_PARTS_MAX:
            return
        piece = self._rest + piece
        slashes = len(piece) - len(piece.rstrip(b"\\"))
        self._rest = b"\\" if slashes % 2 else b""
        whole = piece[: len(piece) - len(self._rest)]
        # Without what is escaped, every quotation mark begins or ends a string.
        texts = whole.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        bare = b"".join(texts[self._is_inside :: 2])
        self._is_inside ^= len(texts) % 2 == 0
        found = bare.translate(None, delete=NOT_BRACKETS)
        self.brackets += found
        self.parts += len(found) + bare.count(b",")


def scan(line: bytes) -> Scan:
    """Look at a whole line."""
    made = Scan()
    made.add(line)
    return made


def read_strictly(line: bytes, depth: int, seen: Scan, name: str = LINE) -> dict[str, Json]:
    """Read a message of a stranger: no key twice, nothing nested too deep, not too much (G10)."""
    if seen.parts > REQUEST_PARTS_MAX:
        most = {"limit": REQUEST_PARTS_MAX, "unit": "values"}
        raise Invalid(code="too_many", subject=name, facts=most)
    try:
        json.loads(line, object_pairs_hook=_refuse_twins)
    except RecursionError:
        raise _too_deep(depth, name) from None
    except ValueError:
        pass  # `read_line` says what else is wrong with it
    message = read_line(line, name)
    # The innermost brackets out, again and again: in a text that is JSON as many times as it is
    # deep.
    left = bytes(seen.brackets)
    for _ in range(depth):
        left = left.replace(b"[]", b"").replace(b"{}", b"")
        if not left:
            return message
    raise _too_deep(depth, name)


def _refuse_twins(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) < len(pairs):
        name = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        shown = visible(cut(name, PATH_KEY_CHARS))
        raise Invalid(code="given_twice", path=shown)
    return made


def _too_deep(depth: int, name: str) -> Invalid:
    return Invalid(code="too_deep", subject=name, facts={"limit": depth})


# -- Errors -------------------------------------------------------------------------------------


def write_error(error: DulyError) -> dict[str, Json]:
    """Write an error as JSON: its kind, its sentence, and what else it says."""
    fields = {name: to_json(each) for name, each in vars(error).items() if name[0] != "_"}
    # Of a client that shows it as it is nothing is hidden by it (G9).
    message = visible(cut(str(error), MESSAGE_CHARS_MAX), is_block=True)
    return {**fields, "kind": type(error).__name__, "message": message}


def read_error(raw: Json) -> DulyError:
    """Make the error again that the other side had; of an unknown kind at least its sentence.

    The other side may be of another version: what cannot be read of an error is left out.
    """
    given = raw if isinstance(raw, dict) else {}
    message = str(given.get("message") or "")
    kind = getattr(errors, str(given.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, DulyError)):
        return DulyError(message, code=str(given.get("code") or "unexplained"))
    fields: dict[str, Any] = {}
    for name, type_ in _list_fields(kind).items():
        with suppress(KeyError, msgspec.ValidationError):
            fields[name] = msgspec.convert(given[name], type_)
    if "findings" in fields:
        fields["findings"] = tuple(map(_read_finding, fields["findings"]))
    return kind(message, **fields)


def _list_fields(kind: type[DulyError]) -> Mapping[str, Any]:
    """Return the fields that an error of a kind is made from, each with its type."""
    found: dict[str, Any] = {}
    for each in (DulyError, kind):
        hints = get_type_hints(each.__init__)
        named = inspect.signature(each).parameters.values()
        found |= {one.name: hints[one.name] for one in named if one.kind is one.KEYWORD_ONLY}
    return found


def _read_finding(raw: Json) -> object:
    from duly.rules.declaration import Problem
    from duly.script.finding import Finding

    for kind in (Finding, Problem):
        with suppress(msgspec.ValidationError):
            found: object = msgspec.convert(raw, kind)
            return found
    return raw


# -- The socket ---------------------------------------------------------------------------------


def listen(path: Path) -> socket.socket:
    """Listen at a path of any length; what a dead host has left there is replaced.

    It is made under a short name beside its place and then moved there: a client that finds it is
    heard.
    """
    _check_place(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = path.parent / f".duly-{os.getpid()}-{made.fileno()}.socket"
    try:
        made.setblocking(False)
        draft.unlink(missing_ok=True)
        with _open_address(path.parent) as folder:
            _bind(made, f"{folder}/{draft.name}")
        made.listen(BACKLOG)
        draft.replace(path)
    except OSError as error:
        made.close()
        facts = {"cause": error.strerror}
        raise ConfigError(code="no_socket", subject=str(path), facts=facts) from error
    return made


async def stop_accepting(made: socket.socket, turn: Callable[[], Awaitable[None]]) -> None:
    """Let no further client in, and let those that are half in be welcomed.

    A server that is closed between the accept and the welcome leaves the connection open.
    """
    asyncio.get_running_loop().remove_reader(made)
    for _ in range(WELCOME_TURNS):
        await turn()


def _bind(made: socket.socket, address: str) -> None:
    if sys.platform == "linux":
        # The file is born with the mode of the socket, so there is no moment before chmod.
        os.fchmod(made.fileno(), MODE)
        made.bind(address)
    else:
        umask = os.umask(0o777 & ~MODE)
        try:
            made.bind(address)
        finally:
            os.umask(umask)


def _check_place(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError(code="in_the_way", subject=str(path))


def check_free(path: Path) -> None:
    """Refuse a place at which a host listens: its clients would not reach it any more."""
    made = reach(path)
    if made is not None:
        made.close()
        raise ConfigError(code="socket_taken", subject=str(path))


def reach(path: Path) -> socket.socket | None:
    """Connect to the host that listens at a path; None if none does."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    try:
        with _open_address(path) as address:
            made.connect(address)
        _check_listener(made, path)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        made.close()
        return None
    except BlockingIOError:
        made.close()
        raise StoreUnavailable(code="host_silent", subject=str(path)) from None
    except PermissionError:
        made.close()
        raise StoreUnavailable(code="host_of_another", subject=str(path)) from None
    except BaseException:
        made.close()
        raise
    return made


def _check_listener(made: socket.socket, path: Path) -> None:
    """Refuse to tell a stranger anything, also as root: what is sent may be a secret (A5, K14)."""
    peer = ask_peer(made)
    listener = path.parent.stat().st_uid if peer is None else peer.user
    if listener not in (ROOT, os.geteuid()):
        raise StoreUnavailable(code="host_of_another", subject=str(path))


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, as the kernel says."""

    process: int
    user: int


def ask_peer(made: socket.socket) -> Peer | None:
    """Ask the kernel who is at the other end; None where it cannot be asked."""
    if sys.platform != "linux":
        return None
    raw = made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
    process, user, _ = PEER.unpack(raw)
    return Peer(process, user)


def name_actor(user: int, scope: Scope) -> str:
    """Name whom an act is written down under: the user, or what acts for them as an agent (A6).

    A person's own commands give up no right; a program that does acts for the person.
    """
    name = name_user(user)
    return name if scope is Scope.ADMIN else f"agent:{name}"


def name_user(user: int) -> str:
    """Name a user of this machine, by whom an act is written down (A6, G5)."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"


@contextmanager
def _open_address(path: Path) -> Iterator[str]:
    """Give a short name for a file or a folder: an address has room for a hundred bytes."""
    if sys.platform != "linux":
        yield str(path)
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
