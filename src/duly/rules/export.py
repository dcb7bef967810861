"""What a workflow is as a file: one JSON object a line, to be kept, read or taken in elsewhere.

Law 1  A line has exactly the fields of its kind, each within its limits. What else there is, is
       refused: no field is passed over in silence.
Law 2  Nothing in it lets a reader act: no secret, key, token, device, webhook or allowance that
       counts. The names of the secrets that a workflow needs are in it.
Law 3  The last line has the number of lines before it and a digest of their bytes. It finds
       damage. It is no proof of who wrote the file.

The kinds follow each other in the order of `KINDS`, so that a line names only what came before.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from duly.rules.event import EventStatus
from duly.rules.value import AT_MS_MAX, INTEGER_MAX
from duly.rules.word import Kind, Known, MutationStatus, Outcome, Phase, Status, Waits

FORMAT: Final = 1
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
LINES_MAX: Final = 1_000_000
FILE_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
TEXT_CHARS_MAX: Final = 16 * 1024 * 1024
WORKFLOWS_MAX: Final = 1000
PART_CHARS_MAX: Final = 350_000  # a quarter of a MiB, as base64

Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:@-]{1,250}\Z")]
Named: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Hexes: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-INTEGER_MAX, le=INTEGER_MAX)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]
Time: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=AT_MS_MAX)]  # a later one is no date
Flag: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
Version: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}\.[0-9]{1,9}\Z")]


class ExportLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """A line of an export; `kind` says which."""


class HeadLine(ExportLine, frozen=True, tag="duly_export"):
    """The first line: what the file shows, and whether its workflows were stopped for it."""

    format: Annotated[int, msgspec.Meta(ge=1)]
    at: Time
    handed_over: bool
    workflows: Annotated[tuple[Named, ...], msgspec.Meta(min_length=1, max_length=WORKFLOWS_MAX)]
    secrets: Annotated[tuple[Named, ...], msgspec.Meta(max_length=WORKFLOWS_MAX)]


class WorkflowLine(ExportLine, frozen=True, tag="workflow"):
    """A workflow; what follows belongs to it, until the next one."""

    id: Id
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    active_version: Version
    counter: Count
    blind_since: Time | None
    created_at: Time


class VersionLine(ExportLine, frozen=True, tag="version"):
    """A version with its text, what was extracted from it, and what was found (W7, W8)."""

    version: Version
    language: Annotated[str, msgspec.Meta(pattern=r"^(javascript|python)\Z")]
    source: Text
    hash: Hexes
    declaration: Text
    findings: Text
    author: Named
    origin: Annotated[str, msgspec.Meta(pattern=r"^(deploy|repair|rollback)\Z")]
    parent: Version | None
    activated_at: Time | None
    created_at: Time


class TopicLine(ExportLine, frozen=True, tag="topic"):
    """A topic, also one that the active version does not have (W9)."""

    name: Named
    consumer: Named | None
    ingress: Flag
    bus_topic: Named | None
    orphaned: Flag
    worked_until: Count


class HandlerLine(ExportLine, frozen=True, tag="handler"):
    """A handler with its state, and when it is due."""

    name: Named
    handler_kind: Kind
    position: Count
    orphaned: Flag
    schedule: Text | None
    state: Text | None
    next_run_at: Time | None
    planned_at: Time
    wake_at: Time | None
    changed: Count
    seen: Count
    not_before: Time
    untried: Flag


class GrantLine(ExportLine, frozen=True, tag="grant"):
    """A capability that a person granted (A1)."""

    capability: Named
    mutations_per_day: Count | None
    matching: Text
    granted_by: Named
    granted_at: Time


class PayloadLine(ExportLine, frozen=True, tag="payload"):
    """What an event says, or said; a number that is not above zero is what was removed."""

    content: Number
    title: Named
    body: Text
    digest: Annotated[str, msgspec.Meta(max_length=64)]


class EventLine(ExportLine, frozen=True, tag="event"):
    """An event: with its topic, message id and status nothing is done again (T5)."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]
    topic: Named
    message_id: Named
    status: EventStatus
    content: Number
    attempts: Count
    dropped: Count
    reserved_by: Id | None
    finished_by: Named | None
    created_by: Named
    created_at: Time
    finished_at: Time | None


class CauseLine(ExportLine, frozen=True, tag="cause"):
    """The input that an event goes back to (T9)."""

    root: Count
    seq: Count


class RunLine(ExportLine, frozen=True, tag="run"):
    """A run, for reading; one that is open keeps the whole file from being taken in."""

    id: Id
    version: Version
    handler: Named
    run_kind: Kind
    retry_of: Id | None
    chain: Id
    open: Flag
    phase: Phase
    status: Status
    outcome: Outcome | None
    waits: Waits | None
    waits_on: Text | None
    counter: Count
    prepared: Text | None
    prepared_by: Version | None
    wake_at_asked: Text | None
    result: Text | None
    state_before: Text | None
    state_after: Text | None
    clock_at: Time | None
    seed: Text | None
    error: Text | None
    transient_count: Count
    logic_count: Count
    crash_count: Count
    repair_count: Count
    escalated: Text | None
    calls: Text | None
    logs: Text | None
    emptied: Flag
    created_at: Time
    updated_at: Time


class ReservationLine(ExportLine, frozen=True, tag="reservation"):
    """What a run was shown of an event."""

    run_id: Id
    seq: Count
    content: Number


class MutationLine(ExportLine, frozen=True, tag="mutation"):
    """A row of the ledger; `is_whole` says whether its seals fitted in the store it came from."""

    id: Id
    run_id: Id
    held_by: Id
    tool: Named
    args: Text
    title: Text | None
    inputs: Named
    key: Named
    hash: Named
    status: MutationStatus
    refused: Flag
    result: Text | None
    error: Text | None
    attempt: Count
    resends: Count
    asks: Count
    first_sent_at: Time | None
    sent_at: Time | None
    created_at: Time
    updated_at: Time
    lag_ms: Count | None
    timeout_ms: Count | None
    key_lifetime_ms: Count | None
    first_boot: Named | None
    first_boot_ms: Count | None
    is_resent: Flag
    late: Text | None
    asked: Flag
    approved_by: Named | None
    allowance_id: Id | None
    args_proposed: Text | None
    amended_by: Named | None
    known_how: Known | None
    known_at: Time | None
    known_by: Named | None
    known_said: Text | None
    digests: Text | None
    handle: Text | None
    is_whole: bool


class AllowanceLine(ExportLine, frozen=True, tag="allowance"):
    """What a person allowed for some further calls (A3), for reading: it counts nowhere else."""

    id: Id
    mutation_id: Id
    tool: Named
    version: Version
    args: Text
    matching: Text
    calls: Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]
    until: Time
    given_by: Named
    given_at: Time
    revoked_by: Named | None
    revoked_at: Time | None


class ActionLine(ExportLine, frozen=True, tag="action"):
    """What a person or a program did (A6)."""

    id: Id
    at: Time
    by: Named
    verb: Named
    target: Text | None
    detail: Text | None


class BlobLine(ExportLine, frozen=True, tag="blob"):
    """Bytes that the workflow was given (K15); its parts follow."""

    digest: Hexes
    size: Count


class BlobPartLine(ExportLine, frozen=True, tag="blob_part"):
    """A part of the blob before it, as base64."""

    number: Count
    base64: Annotated[str, msgspec.Meta(max_length=PART_CHARS_MAX)]


class EndLine(ExportLine, frozen=True, tag="end"):
    """The last line: how many lines came before it, and the SHA-256 of their bytes."""

    lines: Count
    sha256: Hexes


AnyLine: TypeAlias = (
    HeadLine
    | WorkflowLine
    | VersionLine
    | TopicLine
    | HandlerLine
    | GrantLine
    | PayloadLine
    | EventLine
    | CauseLine
    | RunLine
    | ReservationLine
    | MutationLine
    | AllowanceLine
    | ActionLine
    | BlobLine
    | BlobPartLine
    | EndLine
)
# In which order the lines of one workflow come. The parts of a blob follow it.
KINDS: Final[tuple[type[ExportLine], ...]] = (
    WorkflowLine,
    VersionLine,
    TopicLine,
    HandlerLine,
    GrantLine,
    PayloadLine,
    EventLine,
    CauseLine,
    RunLine,
    ReservationLine,
    MutationLine,
    AllowanceLine,
    ActionLine,
    BlobLine,
)

# Names that are shown as they are: they have no character that is not seen.
SEEN: Final = frozenset(
    {
        *("name", "consumer", "bus_topic", "author", "granted_by", "capability", "created_by"),
        *("finished_by", "tool", "approved_by", "amended_by", "known_by", "given_by", "revoked_by"),
        *("by", "verb", "handler", "topic", "first_boot"),
    }
)
# Texts that are JSON, and are read as JSON later.
JSON: Final = frozenset(
    {
        *("schedule", "state", "matching", "body", "prepared", "result", "state_before", "args"),
        *("state_after", "args_proposed", "digests", "handle", "declaration", "findings"),
    }
)

_decoder: Final = msgspec.json.Decoder(AnyLine)


def read_line(raw: bytes) -> AnyLine:
    """Read one line, strictly; raise ValueError with what is wrong with it."""
    line: AnyLine = _decoder.decode(raw)
    for name in line.__struct_fields__:
        value = getattr(line, name)
        if not isinstance(value, str):
            continue
        if "\0" in value:  # PostgreSQL keeps none
            raise ValueError(f"{name}: NUL")
        if name in SEEN and not value.isprintable():
            raise ValueError(f"{name}: control character")
        if name in JSON:
            try:
                msgspec.json.decode(value)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{name}: {error}") from None
    return line


def write_line(line: ExportLine) -> bytes:
    """Write one line, with its end."""
    return msgspec.json.encode(line) + b"\n"
