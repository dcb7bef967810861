"""Writes and reads the messages of MCP; neither a process nor a network is known here (M7, M8).

Law 1: a message is an answer only if it has our id and either a result or an error. All else that
       a server sends is not an answer, and nothing is done because of it.
Law 2: a change was made only if its result says so in full: content, and no `isError`. No error
       says that nothing was done: who answers it may have done the work before (M8).
Law 3: every byte is hostile: sizes, depth and numbers are checked before a value is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from duly.connectors.json_answer import VALUES_MAX, exact
from duly.errors import Refused, UnknownOutcome
from duly.rules.value import Json

VERSION: Final = "2025-11-25"
# These speak the same handshake, list and call.
VERSIONS: Final = frozenset({VERSION, "2025-06-18", "2025-03-26", "2024-11-05"})
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
PARTS_MAX: Final = 1_000  # of a result
WORDS_CHARS_MAX: Final = 300
NO_METHOD: Final = -32601
END_OF_EVENT: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class NoAnswer(Exception):
    """A server broke the protocol; `why` says how."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class McpReply:
    """The answer of a server to one request: a result, or an error with its code."""

    result: dict[str, Any] | None = None
    code: int = 0
    words: str = ""


def write(
    method: str, params: Mapping[str, Json] | None = None, number: str | None = None
) -> bytes:
    """Write a request, or a notification if it has no number."""
    said: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        said["id"] = number
    if params is not None:
        said["params"] = dict(params)
    return msgspec.json.encode(said)


def hello() -> dict[str, Json]:
    """Return what a client says first; it offers a server nothing that it could ask for."""
    client: Json = {"name": "duly", "version": "1"}
    return {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}


def check_hello(reply: McpReply) -> str:
    """Return the version that a server speaks, or refuse it."""
    version = None if reply.result is None else reply.result.get("protocolVersion")
    if not isinstance(version, str):
        raise NoAnswer(f"it refuses the handshake{_shown(reply.words)}")
    if version not in VERSIONS:
        raise NoAnswer(f"it speaks version {version[:20]!r} of the protocol, which is not known")
    return version


def read(data: bytes) -> dict[str, Any]:
    """Read one message, within limits (law 3)."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise NoAnswer(f"it sent a message of more than {MESSAGE_BYTES_MAX:,} bytes")
    if data.count(b",") + data.count(b"[") + data.count(b"{") > VALUES_MAX:
        raise NoAnswer(f"it sent a message of more than {VALUES_MAX:,} values")
    try:
        found = exact(msgspec.json.decode(data))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NoAnswer("it sent what is no message") from None
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise NoAnswer("it sent what is no message")
    return found


def reply_in(message: Mapping[str, Any], number: str) -> McpReply | None:
    """Return the answer to our request, if the message is that (law 1)."""
    if message.get("id") != number or "method" in message:
        return None
    result, error = message.get("result"), message.get("error")
    if (result is None) == (error is None):
        raise NoAnswer("its answer is neither a result nor an error")
    if result is not None:
        if not isinstance(result, dict):
            raise NoAnswer("its result is no object")
        return McpReply(result)
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        raise NoAnswer("its error has no code")
    return McpReply(code=error["code"], words=_words(error.get("message")))


def answer_to(message: Mapping[str, Any]) -> bytes | None:
    """Return what a server is answered that asks us something; None if it does not ask (law 1)."""
    number, method = message.get("id"), message.get("method")
    if method is None or not isinstance(number, str | int):
        return None
    said: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    if method == "ping":
        said["result"] = {}
    else:
        said["error"] = {"code": NO_METHOD, "message": "This client offers nothing."}
    return msgspec.json.encode(said)


def is_change_of_list(message: Mapping[str, Any]) -> bool:
    """Tell whether a server says that its tools are others now."""
    return message.get("method") == "notifications/tools/list_changed"


# -- What an answer means -------------------------------------------------------------------------


def read_change(reply: McpReply, what: str) -> Json:
    """Return what a change returned, or raise what is certain about it (law 2)."""
    if reply.result is None:
        said = f"{what}: it may have been done: the server answered with error {reply.code}"
        raise UnknownOutcome(f"{said}{_shown(reply.words)}.")
    if reply.result.get("isError", False) is not False:
        raise UnknownOutcome(f"{what}: it may have been done: {_failed(reply.result)}.")
    try:
        return _value(reply.result)
    except NoAnswer as error:
        raise UnknownOutcome(f"{what}: it may have been done: {error.why}.") from None


def read_result(reply: McpReply, what: str) -> Json:
    """Return what a read returned, or raise why there is nothing."""
    if reply.result is None:
        raise Refused(f"{what}: the server answered with error {reply.code}{_shown(reply.words)}.")
    if reply.result.get("isError", False) is not False:
        raise Refused(f"{what}: {_failed(reply.result)}.")
    try:
        return _value(reply.result)
    except NoAnswer as error:
        raise Refused(f"{what}: {error.why}.") from None


def _value(result: Mapping[str, Any]) -> Json:
    """Return a result as scripts get it: its text, its data, and what else is in it."""
    parts, data = result.get("content"), result.get("structuredContent")
    if not isinstance(parts, list) or len(parts) > PARTS_MAX:
        raise NoAnswer("its result has no content")
    texts: list[str] = []
    others: list[Json] = []
    for each in parts:
        if not isinstance(each, dict) or not isinstance(each.get("type"), str):
            raise NoAnswer("its result is malformed")
        if each["type"] == "text" and isinstance(each.get("text"), str):
            texts.append(each["text"])
        else:
            others.append(_part(each))
    return {"text": "\n".join(texts), "data": data, "parts": others}


def _part(part: Mapping[str, Any]) -> Json:
    """Describe a part that is no text; its bytes are left out (K15)."""
    inner = part.get("resource")
    source: Mapping[str, Any] = inner if isinstance(inner, dict) else part
    described: dict[str, Json] = {"type": part["type"]}
    for name in ("uri", "name", "mimeType", "text"):
        if isinstance(source.get(name), str):
            described[name] = source[name]
    for name in ("data", "blob"):
        if isinstance(source.get(name), str):
            described["size"] = len(source[name]) * 3 // 4
    return described


def _failed(result: Mapping[str, Any]) -> str:
    parts = result.get("content")
    words = [
        each["text"]
        for each in (parts if isinstance(parts, list) else [])[:10]
        if isinstance(each, dict) and isinstance(each.get("text"), str)
    ]
    return f"the server says that it failed{_shown(_words(' '.join(words)))}"


def _words(given: object) -> str:
    return (
        " ".join(given[: 4 * WORDS_CHARS_MAX].split())[:WORDS_CHARS_MAX]
        if isinstance(given, str)
        else ""
    )


def _shown(words: str) -> str:
    return f": {words}" if words else ""


# -- Messages in a stream of a web server ---------------------------------------------------------


class EventScan:
    """Finds the answer to one request in a stream of events, as its bytes come."""

    def __init__(self, number: str) -> None:
        self._number = number
        self._read = self._looked = 0
        self.reply: McpReply | None = None
        self.has_other_list = False

    def __call__(self, body: bytes | bytearray) -> bool:
        """Read what has come since; tell whether the answer is there."""
        while self.reply is None:
            # An end of four bytes may have begun in what was looked at before.
            end = END_OF_EVENT.search(body, max(self._read, self._looked - 3))
            if end is None:
                self._looked = len(body)
                break
            event = bytes(body[self._read : end.start()])
            self._read = self._looked = end.end()
            data = b"\n".join(_data_of(event))
            if not data.strip():
                continue
            message = read(data)
            self.has_other_list = self.has_other_list or is_change_of_list(message)
            self.reply = reply_in(message, self._number)
        return self.reply is not None


def _data_of(event: bytes) -> Iterator[bytes]:
    for line in event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            yield value.removeprefix(b" ")
