"""A run that this process holds: what the store has of it, and how far its script got.

Law: `stored` is the state that was last written; `run` is the state the rules decided since. Every
write is guarded by `stored`, so a change by another task or a person is noticed (R8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from duly.config import Limits
from duly.errors import Invalid
from duly.rules.access import Step
from duly.rules.declaration import ConsumerDeclaration, ProducerDeclaration
from duly.rules.kept import DULY, KeptLog, LogLine, read_log, title_in
from duly.rules.lifecycle import START, Counts, Run
from duly.rules.redaction import AT_ONCE_CHARS, Redactor, redact, redact_text
from duly.rules.shown import cut
from duly.rules.value import Json, decode, encode, is_light
from duly.rules.word import Kind, Status
from duly.sandbox.base import Loaded, Log
from duly.store.base import Fence
from duly.store.due import Outlook
from duly.store.record import Pinned, RunRow
from duly.store.turn import TurnTaken

CALL_ARGS_CHARS = 500  # what is kept of the arguments of one call, for a person to recognise it
NOTES_BYTES_MAX = 4 * 1024 * 1024  # the notes of a run are cut long before they come near this
READS_BYTES_MAX = 1024 * 1024  # what is kept of a step's reads; past it nothing is, only counted
MANY_VALUES = "(more values than are shown)"
ANY_DEPTH = 2**31  # of what was checked before: how deep it is was looked at there


def show_args(args: Json, secrets: Redactor, most_chars: int) -> str:
    """Show the arguments of a call without secrets; of long ones the beginning is read (X2).

    More is read than is shown, so that no part of a secret stands at the end of it.
    """
    text = encode(args, "args", limit_bytes=NOTES_BYTES_MAX)
    if len(text) > AT_ONCE_CHARS:
        said = redact_text(text[:AT_ONCE_CHARS], secrets, is_cut=True)
        return cut(said, most_chars, len(text))
    return cut(encode(redact(args, secrets), "args", limit_bytes=NOTES_BYTES_MAX), most_chars)


@dataclass(slots=True)
class Notes:
    """What a run logged and called, kept for a person: capped, and the rest is counted (X4, R1)."""

    limits: Limits
    secrets: Callable[[], Redactor]  # asked every time: a connector may have taken more (A5)
    lines: list[LogLine] = field(default_factory=list)
    dropped: int = 0
    calls: list[Json] = field(default_factory=list)

    def log(self, at_ms: int, step: Step, logs: Iterable[Log]) -> None:
        """Keep a script's log lines, and count those that its sandbox left out (R1)."""
        for each in logs:
            if each.left_out:
                self.dropped += each.left_out
            else:
                self._add(at_ms + each.after_ms, step.value, each.text)

    def warn(self, at_ms: int, text: str) -> None:
        """Keep a warning of the host to the script's author."""
        self._add(at_ms, DULY, text)

    def call(self, tool: str, args: Json, outcome: str, duration_ms: int) -> None:
        """Keep one call: its arguments without secrets, how it ended, how long it took."""
        shown = MANY_VALUES
        if is_light(args):  # large ones are not walked through for a line of 500 characters (X2)
            shown = show_args(args, self.secrets(), CALL_ARGS_CHARS)
        self.calls.append(
            {
                "tool": tool,
                "args": shown,
                "outcome": outcome,
                "duration_ms": duration_ms,
            }
        )

    def _add(self, at_ms: int, source: str, text: str) -> None:
        if len(self.lines) >= self.limits.log_lines:
            self.dropped += 1
            return
        # The sandbox has cut it where the line is too long.
        said = redact_text(text, self.secrets(), is_cut=True)
        kept = cut(said, self.limits.log_line_chars)
        self.lines.append(LogLine(at_ms, source, kept))

    @property
    def logs_text(self) -> str | None:
        """The lines as they are stored, and how many more there were."""
        return KeptLog(tuple(self.lines), self.dropped).text

    @property
    def calls_text(self) -> str | None:
        """The calls as they are stored."""
        return encode(self.calls, "calls", limit_bytes=NOTES_BYTES_MAX) if self.calls else None


@dataclass(slots=True)
class Reads:
    """What a step asked the outside and what it got: a newer version is tried on it (F3).

    A step that got more than the limit cannot be repeated, and neither can one whose questions
    were too large to be walked through at once. Nothing of such a step is kept.
    """

    limit_bytes: int = READS_BYTES_MAX
    kept: list[tuple[int, str, dict[str, Json], str]] = field(default_factory=list)
    size_bytes: int = 0
    dropped: int = 0

    def keep(self, number: int, tool: str, args: Mapping[str, Json], answer_text: str) -> None:
        """Keep the answer to the call with this number, or count it."""
        asked_bytes = self.limit_bytes + 1
        if is_light(dict(args)):
            asked = encode(dict(args), tool, limit_bytes=NOTES_BYTES_MAX, depth=ANY_DEPTH)
            asked_bytes = len(asked.encode())
        self.size_bytes += asked_bytes + len(answer_text.encode())
        self.kept.append((number, tool, dict(args), answer_text))
        if self.size_bytes > self.limit_bytes:
            self.dropped += len(self.kept)
            self.kept.clear()

    def text(self, secrets: Redactor) -> str | None:
        """Write them down without secrets (A5); nothing, if nothing was asked."""
        if not self.kept and not self.dropped:
            return None
        reads: list[Json] = [
            {"tool": tool, "args": redact(args, secrets), "answer": redact(decode(text), secrets)}
            # In the order of the questions: of reads made together any may return first.
            for _, tool, args, text in sorted(self.kept, key=lambda each: each[0])
        ]
        written: Json = {"reads": reads, "dropped": self.dropped}
        return encode(written, "reads", limit_bytes=NOTES_BYTES_MAX, depth=ANY_DEPTH)


@dataclass(slots=True)
class Live:
    """One run, from the moment this process takes it up until it waits or ends.

    What never changes of it stands first, then how far it got, then what its steps gave.
    """

    id: str
    fence: Fence
    workflow: str
    handler: str
    version: str
    chain: str
    stored: Run
    run: Run
    counts: Counts
    notes: Notes
    loaded: Loaded | None = None  # asking about a mutation needs no script (L8)
    state_text: str | None = None
    planned_at: int | None = None  # when a producer was due
    pinned: Pinned | None = None  # what prepare gave, from the moment it is stored (C6)
    result_text: str | None = None  # what the outside answered to its mutation
    is_out: bool = False  # its call is out, or the answer is being written: it must not be dropped
    blobs: int = 0  # how many it was given here (K15)
    is_heard: bool = False  # it announced something that the bus is to deliver (B10)
    recording: asyncio.Future[None] | None = None  # `applied`, on its way into the store (L9)
    _read: tuple[Pinned, dict[str, Json]] | None = None  # the prepare result, read once

    @property
    def is_active(self) -> bool:
        """Tell whether the run can go on now."""
        return self.run.status is Status.ACTIVE

    @property
    def script(self) -> Loaded:
        """The version it runs, which is loaded by now."""
        assert self.loaded is not None, self.id
        return self.loaded

    @property
    def consumer(self) -> ConsumerDeclaration:
        """The handler, which is a consumer."""
        handlers = self.script.declaration.consumers
        return next(each for each in handlers if each.name == self.handler)

    @property
    def producer(self) -> ProducerDeclaration:
        """The handler, which is a producer."""
        handlers = self.script.declaration.producers
        return next(each for each in handlers if each.name == self.handler)

    @property
    def publishes(self) -> tuple[str, ...] | None:
        """The topics the handler says it publishes to, if it says so (W3)."""
        declared = self.producer if self.run.kind is Kind.PRODUCER else self.consumer
        return declared.publishes

    @property
    def prepared_text(self) -> str | None:
        """The prepare result as it is stored; nothing before it is pinned."""
        return None if self.pinned is None else self.pinned.prepared

    @property
    def prepared(self) -> dict[str, Json]:
        """The pinned prepare result; a step gets a copy of it (C6, X3)."""
        assert self.pinned is not None, self.run
        if self._read is None or self._read[0] is not self.pinned:
            self._read = self.pinned, cast("dict[str, Json]", decode(self.pinned.prepared))
        return self._read[1]

    @property
    def title(self) -> str | None:
        """What the script claims it will do (L11); nothing, if another program spoiled the text."""
        try:
            return title_in(self.prepared)
        except Invalid:
            return None

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """The reserved events, as (topic, message id)."""
        reservations = cast("list[dict[str, Json]]", self.prepared["reservations"])
        return [
            (str(each["topic"]), str(message_id))
            for each in reservations
            for message_id in cast("list[Json]", each["ids"])
        ]

    async def settled(self) -> None:
        """Wait until `applied` is in the store; what follows is written only after that."""
        if self.recording is not None:
            await asyncio.shield(self.recording)
            self.recording = None
        self.is_out = False

    def move(self, new: Run) -> None:
        """Take over the state that was just written."""
        self.stored = self.run = new


def open_live(taken: TurnTaken, notes: Notes) -> Live:
    """Take up a run that has just been opened."""
    handler, started = taken.choice.handler, taken.started
    assert handler is not None, taken
    assert started is not None, taken
    run = START[Kind(handler.kind)]
    return Live(
        started.run_id,
        taken.outlook.fence,
        taken.outlook.workflow,
        handler.name,
        started.version,
        started.run_id,
        run,
        run,
        Counts(),
        notes,
        state_text=started.state,
        planned_at=handler.next_run_at,
    )


def resume_live(outlook: Outlook, row: RunRow, notes: Notes) -> Live:
    """Take up a run that is already there: a successor, or one that goes on (R4)."""
    if row.calls is not None:
        notes.calls = cast("list[Json]", decode(row.calls))
    said = read_log(row.logs)
    notes.lines, notes.dropped = list(said.lines), said.dropped
    return Live(
        row.id,
        outlook.fence,
        outlook.workflow,
        row.handler,
        row.version,
        row.chain,
        row.state,
        row.state,
        row.counts,
        notes,
        state_text=row.state_before,
        pinned=_pinned(row),
        result_text=row.result,
    )


def _pinned(row: RunRow) -> Pinned | None:
    if row.prepared is None:
        return None
    return Pinned(row.prepared, row.clock_at or 0, row.seed or row.chain, row.wake_at_asked)
