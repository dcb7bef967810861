"""The part of the exam for the network in which the answer to a question is wrong.

Law 1: a call that was made is never denied: what a server, a proxy or a cache says in place of the
       answer leaves it unsure, or cannot be asked (L5). A call that was not made is never affirmed.
Law 2: an answer that is the service's own *no* is not wrong, and neither is its own *yes*: they are
       heard first, of a call that was made and of one that was not, and are left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from duly.connectors.base import Call
from duly.connectors.raised import kind_of
from duly.testing.child import ExamFailed, fresh
from duly.testing.exam import Exam, Said, asker_of, told, try_call
from duly.testing.proxy import FaultProxy, NetworkFault

ASK_S: Final = 5.0  # for one question; one that takes longer cannot be asked
FIELDS_MAX: Final = 12  # so many fields of an answer are left out, one at a time
CONNECTIONS_MAX: Final = 8  # of one question, so many are broken
GARBAGE: Final = bytes(range(256)) * 4
GIANT: Final = b"x" * (2 * 1024 * 1024)
UNASKED: Final = "could not be asked"
# A body of JSON with 200, and a status with a body.
BODIES: Final = ("{}", "[]", "null", '""', "", '{"id": ', '{"data": null, "items": null}')
STATUSES: Final = (
    ("204 No Content", ""),
    ("302 Found", "Location: /elsewhere\r\n"),
    ("307 Go", "Location: /elsewhere\r\n"),
    ("401 No", ""),
    ("403 No", ""),
    ("404 No", ""),
    ("410 Gone", ""),
    ("429 Wait", "Retry-After: 7\r\n"),
    ("500 No", ""),
    ("503 No", "Retry-After: 7\r\n"),
)


@dataclass(frozen=True, slots=True)
class QuestionTried:
    """One wrong answer: what it was, and what was made of it."""

    kind: str
    is_done: bool
    verdict: str

    @property
    def problem(self) -> str | None:
        """Say what is wrong, if anything is (law 1)."""
        if self.is_done and self.verdict == Said.NOT_APPLIED:
            return "reconcile said NotApplied, and it was done"
        if not self.is_done and self.verdict == Said.APPLIED:
            return "reconcile said Applied, and nothing was done"
        return None

    def __str__(self) -> str:
        truth = "it was done" if self.is_done else "nothing was done"
        return f"When {self.kind}: {truth}, reconcile said {self.verdict}."


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What a server said over one connection, as far as it is an answer of HTTP."""

    whole: bytes
    status: int = 0
    body: Any = None
    is_json: bool = False


def ask_wrongly(
    subject: Exam,
    proxy: FaultProxy,
    folder: Path,
    skips: int,
    *,
    is_web: bool,
    is_elsewhere: bool = False,
) -> list[QuestionTried]:
    """Ask about a call that was made, and one that was not, over every wrong answer.

    `skips` is how many connections of a call only prepare it. `is_elsewhere`: the question goes to
    another server, of which another exam is made.
    """
    tries = {True: fresh(folder, "asked"), False: fresh(folder, "asked-unmade")}
    heard: dict[bool, list[WebAnswer]] = {}
    for is_done, here in tries.items():
        if not is_done:
            cut = NetworkFault("the connection is cut before anything is sent", sent_bytes=0)
            proxy.plan(cut, skips=skips)
        asyncio.run(_send(subject, here))
        proxy.fault = None
        if subject.effects(here) != is_done:
            raise ExamFailed(f"{subject.tool}: the call before the question went otherwise.")
        proxy.history.clear()
        verdict = asyncio.run(_ask(subject, here))
        if verdict == Said.APPLIED and not proxy.history and not is_elsewhere:
            raise ExamFailed(f"{subject.tool} is asked past the port. Say how it is asked: asking=")
        heard[is_done] = [_read(bytes(each.heard)) for each in proxy.history]
        if (problem := QuestionTried("nothing goes wrong", is_done, verdict).problem) is not None:
            raise ExamFailed(f"{subject.tool}: when nothing goes wrong: {problem}.")
    return [
        each
        for is_done, here in tries.items()
        for at, own in enumerate(heard[is_done][:CONNECTIONS_MAX])
        for each in _try_all(
            subject, proxy, here, _faults(own, heard, is_done, at, is_web=is_web), is_done, at
        )
    ]


def _try_all(
    subject: Exam,
    proxy: FaultProxy,
    folder: Path,
    faults: Sequence[NetworkFault],
    is_done: bool,
    at: int,
) -> Iterator[QuestionTried]:
    """Answer one connection of a question in every wrong way."""
    where = f" at its request {at + 1}" if at else ""
    for fault in faults:
        proxy.plan(fault, skips=at)
        verdict = asyncio.run(_ask(subject, folder))
        proxy.fault = None  # one that met no connection is over
        yield QuestionTried(f"{fault.name}{where}", is_done, verdict)


def _faults(
    own: WebAnswer, heard: Mapping[bool, list[WebAnswer]], is_done: bool, at: int, *, is_web: bool
) -> list[NetworkFault]:
    """List what goes wrong with one connection of a question."""
    faults = [*_broken(own, is_first=at == 0)]
    if is_web:
        opposite, every = heard[not is_done], [*heard[True], *heard[False]]
        bodies = [each.body for each in every if isinstance(each.body, dict)]
        empty = {
            name for body in bodies for name, value in body.items() if value in (None, "", False)
        }
        other = opposite[at] if at < len(opposite) else None
        faults += _answers(own, other, empty, is_done=is_done)
    return faults


def _broken(own: WebAnswer, *, is_first: bool) -> Iterator[NetworkFault]:
    """List what any server can be made to do."""
    yield NetworkFault("the question is cut before it is sent", sent_bytes=0)
    for part in (0, 3):
        at = len(own.whole) * part // 4
        yield NetworkFault(f"the answer to the question is lost after {part}/4", heard_bytes=at)
    yield NetworkFault("the answer to the question makes no sense", sent_bytes=1, reply=GARBAGE)
    if is_first:
        yield NetworkFault("the answer to the question has no end", sent_bytes=1, reply=GIANT)


def _answers(
    own: WebAnswer, other: WebAnswer | None, empty: set[str], *, is_done: bool
) -> Iterator[NetworkFault]:
    """List answers of a web server that are not its own, but for those that are the opposite.

    What only leaves something out, or is old, is tried where a call was made: it denies nothing.
    `empty` are the fields that the service itself leaves empty, as a list its cursor at the end.
    """
    made: list[tuple[str, str, str, str]] = [
        (f"answered 200 and {body or 'nothing'}", "200 OK", "", body) for body in BODIES
    ]
    made += [
        (f"answered {status}", status, more, "")
        for status, more in STATUSES
        if is_done or status[:3] in ("204", "404")
    ]
    if is_done and own.is_json and isinstance(own.body, dict):
        for name in [each for each in own.body if each not in empty][:FIELDS_MAX]:
            body = json.dumps({each: own.body[each] for each in own.body if each != name})
            made.append((f"answered without its field {name!r}", "200 OK", "", body))
    if is_done and other is not None and other.is_json:
        made.append(("answered 206 and a part", "206 Part", "", json.dumps(other.body)))
    if is_done and other is not None and other.status:
        first, _, rest = other.whole.partition(b"\r\n")
        old = b"\r\n".join((first, b"Age: 5", rest))
        yield NetworkFault("the question is answered out of a cache", sent_bytes=1, reply=old)
    for name, status, more, body in made:
        if not _is_own(other, int(status[:3]), body):
            reply = _spell(status, more, body)
            yield NetworkFault(f"the question is {name}", sent_bytes=1, reply=reply)


def _is_own(other: WebAnswer | None, status: int, body: str) -> bool:
    """Tell whether the service itself would say so in the opposite case (law 2)."""
    if other is None or other.status != status:
        return False
    if status >= 300:
        return True
    if body == "[]":  # of a list, whether something else is in it or nothing
        return isinstance(other.body, list)
    try:
        return other.is_json and bool(other.body == json.loads(body))
    except ValueError:
        return False


def _spell(status: str, more: str, body: str) -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}"
    length = "" if status.startswith("204") else f"Content-Length: {len(data)}\r\n"
    return f"{head}{length}\r\n".encode() + data


def _read(whole: bytes) -> WebAnswer:
    """Read an answer as far as it is one of HTTP with JSON."""
    head, _, body = whole.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return WebAnswer(whole)
    try:
        return WebAnswer(whole, int(words[1]), json.loads(body), is_json=True)
    except ValueError:
        return WebAnswer(whole, int(words[1]))


async def _send(subject: Exam, folder: Path) -> None:
    connector = subject.make(folder)
    await try_call(connector, subject.tool, subject.call(connector, folder))


async def _ask(subject: Exam, folder: Path) -> str:
    """Ask, and say what came of it in a word; an error is no answer (L5)."""
    connector = (subject.make_asking or subject.make)(folder)
    call: Call = replace(subject.call(connector, folder), attempt=2)
    ask: Callable[[Call], Awaitable[object]] = asker_of(connector, subject.tool)
    try:
        return told(await asyncio.wait_for(ask(call), ASK_S))
    except Exception as error:
        return f"{UNASKED} ({kind_of(error)})"
