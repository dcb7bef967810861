"""Whether the lines of an export fit together, so that a store can take them in (H5, T5, L1).

Law 1  A line names only what came before it in the same workflow. So no chain of runs goes in a
       circle, and nothing of another workflow is named (T1).
Law 2  Nothing open is taken in: no open run, no reserved event, no call without a final outcome.
       Two stores would each answer for it, and one of them would do it a second time (L3).
Law 3  What decides something later is what Duly itself would have written: the number of an event
       is within the counter, a content has its own digest, a key is the one of its inputs (T5, L7).
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from duly.config import Limits
from duly.errors import Invalid, RequestRefused
from duly.rules.event import EventStatus, parse_title
from duly.rules.export import (
    KINDS,
    AllowanceLine,
    BlobLine,
    BlobPartLine,
    CauseLine,
    EventLine,
    ExportLine,
    GrantLine,
    HandlerLine,
    HeadLine,
    MutationLine,
    PayloadLine,
    ReservationLine,
    RunLine,
    TopicLine,
    VersionLine,
    WorkflowLine,
)
from duly.rules.permission import check_matching
from duly.rules.retention import FINAL
from duly.rules.source import Language, Source
from duly.rules.value import decode, digest
from duly.rules.word import Phase, Status

BUS_ID: Final = "bus:"
BUS_DIGITS_MAX: Final = 16


class Misfit(StrEnum):
    """Why a line does not fit what came before it."""

    ORDER = "order"
    NAME = "name"
    TWICE = "twice"
    REFERENCE = "reference"
    NUMBER = "number"
    CONTENT = "content"
    STATUS = "status"
    TOO_LONG = "too_long"


class StillOpen(StrEnum):
    """What of an export is open, so that no other store takes it in."""

    RUN = "run"
    EVENT = "event"
    MUTATION = "mutation"


def misfit(number: int, why: Misfit) -> RequestRefused:
    """Refuse a line that does not fit."""
    return RequestRefused(code="export_misfit", facts={"line": number, "why": why.value})


@dataclass(slots=True)
class _Seen:
    """What came so far of one workflow."""

    workflow: WorkflowLine
    place: int = 0
    versions: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    handlers: set[str] = field(default_factory=set)
    contents: set[int] = field(default_factory=set)
    events: set[int] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)
    makers: set[str] = field(default_factory=set)
    holders: set[str] = field(default_factory=set)
    mutations: set[str] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)
    blob: BlobLine | None = None
    hash: Any = None
    blob_bytes: int = 0
    parts: int = 0


@dataclass(slots=True)
class Carried:
    """Takes the lines of an export one by one, and raises at the first that does not fit.

    `bus_number` is the highest number of a bus that a message id names (T10).
    """

    limits: Limits
    head: HeadLine | None = None
    names: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    bus_number: int = 0
    _seen: _Seen | None = None
    _number: int = 0

    def take(self, line: ExportLine, number: int) -> None:
        """Take the next line."""
        self._number = number
        if isinstance(line, HeadLine):
            self._need(self.head is None, Misfit.ORDER)
            self.head = line
            return
        self._need(self.head is not None, Misfit.ORDER)
        if isinstance(line, WorkflowLine):
            self.finish(number)
            self._begin(line)
            return
        seen = self._seen
        if seen is None:
            raise misfit(number, Misfit.ORDER)
        if not isinstance(line, BlobPartLine):
            self._end_blob(seen)
            if type(line) not in KINDS:
                raise misfit(number, Misfit.ORDER)
            place = KINDS.index(type(line))
            self._need(place >= seen.place, Misfit.ORDER)
            seen.place = place
        check = _CHECKS.get(type(line))
        if check is not None:
            check(self, seen, line)

    def finish(self, number: int) -> None:
        """Look whether a workflow is complete, before the next one or the end."""
        self._number = number
        seen = self._seen
        if seen is None:
            return
        self._end_blob(seen)
        self._need(seen.workflow.active_version in seen.versions, Misfit.REFERENCE)
        self._need(not seen.allowed, Misfit.REFERENCE)

    def end(self, number: int) -> None:
        """Look whether the whole file is complete."""
        self.finish(number)
        head = self.head
        if head is None or list(head.workflows) != self.names:
            raise misfit(number, Misfit.NAME)

    # -- Each kind ------------------------------------------------------------------------------

    def _begin(self, line: WorkflowLine) -> None:
        self._need(line.id not in self.ids and line.name not in self.names, Misfit.TWICE)
        self._need(line.name.isprintable() and "/" not in line.name, Misfit.NAME)
        self.ids.add(line.id)
        self.names.append(line.name)
        self._seen = _Seen(line)

    def _version(self, seen: _Seen, line: VersionLine) -> None:
        self._add(seen.versions, line.version)
        made = Source(Language(line.language), line.source)
        self._need((made.hash, made.text) == (line.hash, line.source), Misfit.CONTENT)
        self._need(len(line.source.encode()) <= self.limits.source_bytes, Misfit.TOO_LONG)

    def _topic(self, seen: _Seen, line: TopicLine) -> None:
        self._add(seen.topics, line.name)
        self._within(seen, line.worked_until)

    def _handler(self, seen: _Seen, line: HandlerLine) -> None:
        self._add(seen.handlers, line.name)
        self._within(seen, line.changed, line.seen)
        size_bytes = 0 if line.state is None else len(line.state.encode())
        self._need(size_bytes <= self.limits.state_bytes, Misfit.TOO_LONG)

    def _grant(self, seen: _Seen, line: GrantLine) -> None:
        try:
            check_matching(line.capability, line.mutations_per_day, decode(line.matching))
        except (Invalid, ValueError):
            raise misfit(self._number, Misfit.CONTENT) from None

    def _payload(self, seen: _Seen, line: PayloadLine) -> None:
        self._add(seen.contents, line.content)
        self._within(seen, line.content)
        try:
            parse_title(line.title, "title", self.limits)
        except Invalid:
            raise misfit(self._number, Misfit.CONTENT) from None
        self._need(len(line.body.encode()) <= self.limits.payload_bytes, Misfit.TOO_LONG)
        if line.content > 0:
            try:
                made = digest([line.title, decode(line.body)])
            except (Invalid, ValueError):
                raise misfit(self._number, Misfit.CONTENT) from None
            self._need(made == line.digest, Misfit.CONTENT)

    def _event(self, seen: _Seen, line: EventLine) -> None:
        self._add(seen.events, line.seq)
        self._within(seen, line.seq)
        self._need(line.topic in seen.topics, Misfit.REFERENCE)
        self._need(line.content in seen.contents, Misfit.REFERENCE)
        if line.status is EventStatus.RESERVED or line.reserved_by is not None:
            raise self._open(StillOpen.EVENT, line.message_id)
        has_ended = line.status in (EventStatus.CONSUMED, EventStatus.SKIPPED)
        self._need(has_ended == (line.finished_at is not None), Misfit.STATUS)
        number = line.message_id.removeprefix(BUS_ID)
        if number != line.message_id and number.isascii() and number.isdigit():
            self._need(len(number) <= BUS_DIGITS_MAX, Misfit.NUMBER)
            self.bus_number = max(self.bus_number, int(number))

    def _cause(self, seen: _Seen, line: CauseLine) -> None:
        self._need({line.root, line.seq} <= seen.events, Misfit.REFERENCE)

    def _run(self, seen: _Seen, line: RunLine) -> None:
        if line.open or line.status is Status.ACTIVE:
            raise self._open(StillOpen.RUN, line.id)
        if line.retry_of is not None:
            self._need(line.retry_of in seen.runs, Misfit.REFERENCE)
            self._add(seen.followed, line.retry_of)
        self._add(seen.runs, line.id)
        self._need(line.chain in seen.runs, Misfit.REFERENCE)
        is_committed = line.phase is Phase.COMMITTED
        self._need(is_committed == (line.status is Status.COMMITTED), Misfit.STATUS)
        is_waiting = line.status is Status.PAUSED_APPROVAL
        self._need(is_waiting == (line.waits is not None), Misfit.STATUS)
        is_producing = line.phase is Phase.EXECUTING
        is_of_kind = (line.run_kind == "producer") == is_producing
        self._need(is_of_kind or is_committed, Misfit.STATUS)

    def _reservation(self, seen: _Seen, line: ReservationLine) -> None:
        self._need(line.run_id in seen.runs and line.seq in seen.events, Misfit.REFERENCE)
        self._need(line.content in seen.contents, Misfit.REFERENCE)

    def _mutation(self, seen: _Seen, line: MutationLine) -> None:
        if line.status not in FINAL:
            raise self._open(StillOpen.MUTATION, line.id)
        self._need({line.run_id, line.held_by} <= seen.runs, Misfit.REFERENCE)
        self._add(seen.mutations, line.id)
        self._add(seen.makers, line.run_id)
        self._add(seen.holders, line.held_by)
        self._need(isinstance(decode(line.args), dict), Misfit.CONTENT)
        if line.allowance_id is not None:
            seen.allowed.add(line.allowance_id)

    def _allowance(self, seen: _Seen, line: AllowanceLine) -> None:
        self._need(line.mutation_id in seen.mutations, Misfit.REFERENCE)
        seen.allowed.discard(line.id)

    def _blob(self, seen: _Seen, line: BlobLine) -> None:
        seen.blob, seen.hash, seen.blob_bytes, seen.parts = line, sha256(), 0, 0

    def _blob_part(self, seen: _Seen, line: BlobPartLine) -> None:
        self._need(seen.blob is not None and line.number == seen.parts, Misfit.ORDER)
        body = read_part(line, self._number)
        seen.hash.update(body)
        seen.blob_bytes += len(body)
        seen.parts += 1

    def _end_blob(self, seen: _Seen) -> None:
        if seen.blob is None:
            return
        whole = (seen.blob.size, seen.blob.digest)
        self._need((seen.blob_bytes, seen.hash.hexdigest()) == whole, Misfit.CONTENT)
        seen.blob = None

    # -- What they have in common ---------------------------------------------------------------

    def _need(self, is_so: bool, why: Misfit) -> None:
        if not is_so:
            raise misfit(self._number, why)

    def _add(self, known: set[Any], one: object) -> None:
        self._need(one not in known, Misfit.TWICE)
        known.add(one)

    def _within(self, seen: _Seen, *numbers: int) -> None:
        self._need(max(numbers) <= seen.workflow.counter, Misfit.NUMBER)

    def _open(self, what: StillOpen, which: str) -> RequestRefused:
        name = "" if self._seen is None else self._seen.workflow.name
        facts = {"what": what.value, "which": which, "line": self._number}
        return RequestRefused(code="export_open", subject=name, facts=facts)


def read_part(line: BlobPartLine, number: int) -> bytes:
    """Return the bytes of a part of a blob."""
    try:
        return b64decode(line.base64, validate=True)
    except (binascii.Error, ValueError):
        raise misfit(number, Misfit.CONTENT) from None


def order_runs(runs: Iterator[RunLine]) -> Iterator[RunLine]:
    """Let no run come before the one it follows; ids alone do not say so where a clock was set."""
    written: set[str] = set()
    waiting: dict[str, RunLine] = {}
    for run in runs:
        following: RunLine | None = run
        if run.retry_of is not None and run.retry_of not in written:
            waiting[run.retry_of] = run
            continue
        while following is not None:
            written.add(following.id)
            yield following
            following = waiting.pop(following.id, None)
    assert not waiting, waiting


_CHECKS: Final[Mapping[type[ExportLine], Callable[[Carried, _Seen, Any], None]]] = {
    VersionLine: Carried._version,
    TopicLine: Carried._topic,
    HandlerLine: Carried._handler,
    GrantLine: Carried._grant,
    PayloadLine: Carried._payload,
    EventLine: Carried._event,
    CauseLine: Carried._cause,
    RunLine: Carried._run,
    ReservationLine: Carried._reservation,
    MutationLine: Carried._mutation,
    AllowanceLine: Carried._allowance,
    BlobLine: Carried._blob,
    BlobPartLine: Carried._blob_part,
}
