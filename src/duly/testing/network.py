"""The exam for the network: break the way to a server, and see if the connector tells the truth.

Law 1: what a connector says after a broken connection is compared with what the server did. A yes,
       a definite no and every verdict must be true; only "unknown" may be said of anything (L4).
Law 2: after each fault the outside is asked, the call is sent again where a host would, and another
       one is sent: there is one change for each key (L5, L7).
Law 3: a call ends soon after its time is over: an answer that comes later is not waited for (L13).
Law 4: the question is answered wrongly too (`question.py`).
Law 5: the report says in sentences what was tried, what was said, and what was true.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from duly.connectors.base import Connector
from duly.connectors.watch import Watch
from duly.env import machine_ms
from duly.rules.value import Json
from duly.rules.word import Answer
from duly.testing.child import ExamFailed, fresh, in_child
from duly.testing.exam import (
    Effects,
    Exam,
    SentCall,
    Tried,
    judge_point,
    look_after,
    row_of,
    try_call,
)
from duly.testing.proxy import WRONG_HOST, FaultProxy, NetworkFault, Passed, ServerAt, WrongAddress
from duly.testing.question import GARBAGE, GIANT, QuestionTried, ask_wrongly

Reach = Callable[[Path, int], Connector]

CUTS: Final = 4  # places of a cut, in what is sent and in what comes back
# Signatures of TLS differ by up to 4 bytes between two connections, so that one byte too few
# was sometimes none.
LAST_BYTES: Final = 5
NO_PORT: Final = 1  # of a connector that is only looked at
PATIENCE_S: Final = 0.7  # the time of a call that meets a server that hangs
END_S: Final = 5.0  # how long a call may go on when its time is over, and when it is told to stop
NEVER: Final = 1_000_000  # look-ups after which a name changes
NO_IMPOSTORS: Final[Mapping[str, ServerAt]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WebReply:
    """An answer of a web server in place of its own; `is_done`: after it did what was asked."""

    status: str
    more: str = ""
    body: str = '{"error": "no"}'
    is_done: bool = False

    @property
    def spelled(self) -> bytes:
        """The answer as it crosses the wire."""
        body = self.body.encode()
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: application/json\r\n{self.more}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# A server that did the work may still say these; one that says another has not done it.
UNCLEAR: Final = ("500 No", "502 No", "503 No", "504 No", "302 Found", "303 See")
WEB_REPLIES: Final = (
    *(WebReply(each, "Location: /elsewhere\r\n", is_done=True) for each in UNCLEAR),
    *(WebReply(each) for each in ("400 No", "401 No", "403 No", "404 No", "409 No")),
    *(WebReply(each, "Location: /elsewhere\r\n") for each in ("307 Go", "308 Go", *UNCLEAR)),
    WebReply("429 Wait"),
    WebReply("429 Wait", "Retry-After: 7\r\n"),
    # A time to wait makes no certain *no* of a server error, and no rate limit of a refusal.
    WebReply("503 No", "Retry-After: 7\r\n", is_done=True),
    *(WebReply(f"{each} No", "Retry-After: 7\r\n") for each in (401, 403, 425)),
    WebReply("201 Made", body='{"id": ', is_done=True),
    WebReply("200 Well", body="", is_done=True),
)


# HTTP lets a proxy do so with PUT and DELETE, and some do it with every request.
REPEATED: Final = NetworkFault("a proxy sends the request twice", repeats=True)


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of breaking a call, and of answering its question wrongly."""

    tried: list[Tried]
    asked: list[QuestionTried]


@dataclass(frozen=True, slots=True)
class NetworkReport:
    """What was tried, and a sentence about each fault."""

    points: int
    sentences: tuple[str, ...]
    row: str = ""  # of the tool in a table: where its key travels, how it can be asked (K1)

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def examine_network(
    reach: Reach,
    tool: str,
    args: Mapping[str, Json],
    *,
    server: ServerAt,
    effects: Effects,
    folder: Path,
    other_args: Mapping[str, Json] | None = None,
    replies: Sequence[WebReply] = (),
    skips: int = 0,
    impostors: Mapping[str, ServerAt] = NO_IMPOSTORS,
    name: str = "",
    asking: Reach | None = None,
    is_asked_elsewhere: bool = False,
) -> NetworkReport:
    """Let connections of a mutation break in every way, each in a folder of its own.

    `reach(folder, port)` builds the connector, whose server is at that port of 127.0.0.1. `server`
    is where the real one is, `effects(folder)` counts the changes there really are. `replies` are
    answers of a web server; other servers have none. `skips` is how many connections of a call
    only prepare it: it is broken at the one after them. `impostors` are servers that are not the
    real one, each with words for what is wrong with it, such as its certificate. `name` is the one
    by which `reach` names the server, if not 127.0.0.1: it leads there, and once it is changed
    after the look-up. `asking` builds the connector for the questions that are answered wrongly
    (`question.py`), where those that `reach` builds ask past the port. `is_asked_elsewhere`: the
    question goes to another server than the call, as that about a mail does.
    """

    def work() -> Examined:
        with FaultProxy(server) as proxy, _changed_name(name, NEVER):
            subject = Exam(
                lambda here: reach(here, proxy.port),
                tool,
                args,
                other_args or args,
                effects,
                make_asking=lambda here: (asking or reach)(here, proxy.port),
            )
            tried = _run(subject, proxy, folder, replies, impostors, skips)
            if name:
                here = fresh(folder, "name")
                tried.append(_try_name(subject, proxy, here, name, skips + 1))
            tried.append(_try_no_server(reach, subject, proxy, fresh(folder, "no-server")))
            if any(judge_point(each) for each in tried):
                return Examined(tried, [])
            how = {"is_web": bool(replies), "is_elsewhere": is_asked_elsewhere}
            return Examined(tried, ask_wrongly(subject, proxy, folder, skips, **how))

    found = in_child(work, Examined)
    if found is None:
        raise ExamFailed("The exam itself was killed.")
    tried, asked = found.tried, found.asked
    problems = [f"{each.kind}: {problem}" for each in tried for problem in judge_point(each)]
    problems += [f"{each.kind}: {each.problem}" for each in asked if each.problem is not None]
    count = len(tried) + len(asked)
    if problems:
        shown = "\n".join(problems[:20])
        raise ExamFailed(f"{tool}: {len(problems)} wrong in {count} faults.\n{shown}")
    row = row_of(lambda here: reach(here, NO_PORT), tool, fresh(folder, "row"))
    return NetworkReport(count, (*map(_sentence, tried), *map(str, asked)), row)


def _run(
    subject: Exam,
    proxy: FaultProxy,
    folder: Path,
    replies: Sequence[WebReply],
    impostors: Mapping[str, ServerAt],
    skips: int,
) -> list[Tried]:
    clean = fresh(folder, "clean")
    sent = asyncio.run(_send(subject, clean, float("inf"), proxy))
    if sent.answer is not Answer.APPLIED or subject.effects(clean) != 1:
        raise ExamFailed(f"{subject.tool} does not work when nothing goes wrong: {sent}.")
    faults = [*_faults(proxy.passed), *map(_reply_fault, replies)]
    faults += [REPEATED] if replies else []
    faults += [
        NetworkFault(f"another server is reached, and {why}", elsewhere=each)
        for why, each in impostors.items()
    ]
    return [
        _try_fault(subject, proxy, fresh(folder, f"fault-{at}"), fault, at, skips)
        for at, fault in enumerate(faults, 1)
    ]


def _faults(passed: Passed) -> list[NetworkFault]:
    """List the faults of a connection over which so many bytes go, when nothing goes wrong."""
    sent_bytes, heard_bytes = passed.sent_bytes, passed.heard_bytes
    cuts = [NetworkFault("the connection is cut before anything is sent", sent_bytes=0)]
    for part in range(1, CUTS):
        at = max(1, sent_bytes * part // CUTS)
        name = f"the connection is cut after {at} of {sent_bytes} bytes were sent"
        cuts.append(NetworkFault(name, sent_bytes=at))
    for part in range(CUTS):
        at = heard_bytes * part // CUTS
        name = f"the answer is lost after {at} of {heard_bytes} bytes"
        cuts.append(NetworkFault(name, heard_bytes=at))
    before, last_bytes = passed.heard_before_bytes, heard_bytes - passed.heard_before_bytes
    if before and last_bytes > 4 * LAST_BYTES:  # a conversation that ends with an answer
        name = "the answer to what was said last is lost"
        cuts.append(NetworkFault(name, heard_bytes=before + last_bytes // 4))
    at = max(0, heard_bytes - LAST_BYTES)
    last = NetworkFault("the last bytes of the answer are lost", heard_bytes=at)
    return [
        *cuts,
        last,
        NetworkFault("the server is silent", heard_bytes=0, hangs=True),
        NetworkFault(
            "the request hangs on its way", sent_bytes=max(1, sent_bytes // 2), hangs=True
        ),
        NetworkFault("the answer comes a byte at a time", drips=True),
        NetworkFault("the answer makes no sense", reply=GARBAGE),
        NetworkFault("the answer has no end", reply=GIANT),
    ]


def _reply_fault(reply: WebReply) -> NetworkFault:
    when = "after it did it" if reply.is_done else "and does nothing"
    cut = None if reply.is_done else 1  # the server never gets a whole request
    name = f"the server answers {reply.status}{' with a time' * ('Retry' in reply.more)}, {when}"
    return NetworkFault(name, sent_bytes=cut, reply=reply.spelled)


def _try_no_server(reach: Reach, subject: Exam, proxy: FaultProxy, folder: Path) -> Tried:
    """Send a call to a port at which no program listens; it is bound, so that none comes."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
        nowhere = replace(subject, make=lambda here: reach(here, port))
        sent = asyncio.run(_send(nowhere, folder, float("inf"), proxy))
    return Tried("no program listens", 0, asyncio.run(look_after(subject, folder)), sent)


def _try_name(subject: Exam, proxy: FaultProxy, folder: Path, name: str, right: int) -> Tried:
    """Let a name lead to the server for so many look-ups, and to another address after them.

    Judging the first address protects from nothing, if the connection goes to the second (K3).
    """
    with WrongAddress(proxy.port) as wrong, _changed_name(name, right):
        sent = asyncio.run(_send(subject, folder, float("inf"), proxy))
    if wrong.connections:
        strange = "it looked the name up again, and connected to an address that was not judged"
        sent = replace(sent, strange=strange)
    kind = "the name leads to another address after the look-up"
    return Tried(kind, 0, asyncio.run(look_after(subject, folder)), sent)


@contextmanager
def _changed_name(name: str, right: int) -> Iterator[None]:
    """Answer look-ups of one name in place of the system, in this process."""
    real, count = socket.getaddrinfo, itertools.count(1)

    def look_up(host: Any, *args: Any, **more: Any) -> Any:
        if not name or host not in (name, name.encode()):
            return real(host, *args, **more)
        return real("127.0.0.1" if next(count) <= right else WRONG_HOST, *args, **more)

    socket.getaddrinfo = look_up
    try:
        yield
    finally:
        socket.getaddrinfo = real


def _try_fault(
    subject: Exam, proxy: FaultProxy, folder: Path, fault: NetworkFault, at: int, skips: int
) -> Tried:
    is_slow, count = fault.hangs or fault.drips, subject.effects
    proxy.plan(fault, skips=skips)
    sent = asyncio.run(_send(subject, folder, PATIENCE_S if is_slow else float("inf"), proxy))
    proxy.wait_until_ended()
    proxy.fault = None  # one that met no connection is over
    if fault.repeats:
        # No connector keeps a service from taking a copy: what it made is not counted.
        copies = max(0, subject.effects(folder) - 1)
        subject = replace(subject, effects=lambda here: count(here) - copies)
    return Tried(fault.name, at, asyncio.run(look_after(subject, folder)), sent)


async def _send(subject: Exam, folder: Path, patience_s: float, proxy: FaultProxy) -> SentCall:
    """Send a call as a host does, within the time that it has.

    One that does not end by itself is told to stop; one that goes on even then is at fault (L13).
    """
    connector = subject.make(folder)
    call = subject.call(connector, folder)
    watch = Watch(subject.tool, clock=machine_ms, timeout_s=patience_s)
    said: list[SentCall] = []

    async def work() -> None:
        said.append(await try_call(connector, subject.tool, call))

    watch.begin(work())
    is_limited = patience_s < float("inf")
    if not await watch.settled(patience_s + END_S if is_limited else None):
        watch.stop()
        if not await watch.settled(END_S):
            at_work = " and ".join(sorted(set(watch.parts)))
            proxy.cut()  # what still waits for an answer gets none
            await watch.settled(None)
            strange = f"its time was over, and it went on for {END_S:g} s and more ({at_work})"
            return SentCall(Answer.UNKNOWN, "it did not end", strange=strange)
    return said[0]


def _sentence(tried: Tried) -> str:
    sent, after = tried.sent, tried.after
    assert sent is not None, tried
    truth = "it was done" if after.truth else "nothing was done"
    again = ""
    if after.again is not None:
        again = f"; sent again, there was {after.truth_again} change"
    said = sent.answer.value.replace("_", " ")
    return f"When {tried.kind}: it said {said}, {truth}, reconcile said {after.verdict}{again}."
