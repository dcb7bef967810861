"""A small export as lines, and ways to write it: what the tests of importing begin with."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from duly.rules.event import EventStatus
from duly.rules.export import (
    ActionLine,
    AllowanceLine,
    BlobLine,
    BlobPartLine,
    CauseLine,
    EndLine,
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
    write_line,
)
from duly.rules.ledger import inputs_digest
from duly.rules.permission import proposal_hash
from duly.rules.seal import Texts, digest_parts
from duly.rules.source import Language, Source
from duly.rules.value import digest
from duly.rules.word import Kind, Known, MutationStatus, Outcome, Phase, Status

ID, NAME = "workflow_9", "mail"
SOURCE = Source(Language.PYTHON, "flow = 1")
DECLARATION = (
    '{"name":"mail","topics":["in","out"],'
    '"consumers":{"file":{"subscribe":["in"],"prepare":"function"}}}'
)
MAIL, ROW = digest(["Mail 1", "x"]), digest(["Row 1", None])
BLOB = b"some bytes"


def mutation(**changes: Any) -> MutationLine:
    """Make the row of the ledger, whole unless something is changed."""
    inputs = inputs_digest(ID, "file", [("in", "m1")])
    texts = Texts(
        args='{"text":"x"}',
        result='{"row":1}',
        error=None,
        contents=(("in", "m1", MAIL),),
        title="Add a row",
        promise=(1, 2, None),
    )
    row: dict[str, Any] = {
        "id": "mutation_1",
        "run_id": "run_1",
        "held_by": "run_2",
        "tool": "sheet.append",
        "args": texts.args,
        "title": texts.title,
        "inputs": inputs,
        "key": "k1",
        "hash": proposal_hash("sheet.append", {"text": "x"}, None),
        "status": MutationStatus.APPLIED,
        "refused": 0,
        "result": texts.result,
        "error": None,
        "attempt": 1,
        "resends": 0,
        "asks": 0,
        "first_sent_at": 5,
        "sent_at": 5,
        "created_at": 5,
        "updated_at": 5,
        "lag_ms": 1,
        "timeout_ms": 2,
        "key_lifetime_ms": None,
        "first_boot": "boot",
        "first_boot_ms": 0,
        "is_resent": 0,
        "late": None,
        "asked": 0,
        "approved_by": "ada",
        "allowance_id": "allowance_1",
        "args_proposed": None,
        "amended_by": None,
        "known_how": Known.ANSWERED,
        "known_at": 5,
        "known_by": None,
        "known_said": None,
        "digests": digest_parts(texts),
        "handle": None,
        "is_whole": True,
    }
    return MutationLine(**{**row, **changes})


def run(name: str, **changes: Any) -> RunLine:
    """Make a run that is over; the second follows the first."""
    nothing = dict.fromkeys(
        (
            *("outcome", "waits", "waits_on", "prepared", "prepared_by", "wake_at_asked"),
            *("result", "state_before", "state_after", "clock_at", "seed", "error", "escalated"),
            *("calls", "logs", "retry_of"),
        )
    )
    counts = dict.fromkeys(("transient_count", "logic_count", "crash_count", "repair_count"), 0)
    said: dict[str, Any] = {
        "id": name,
        "version": "1.0",
        "handler": "file",
        "run_kind": Kind.CONSUMER,
        "chain": "run_1",
        "open": 0,
        "phase": Phase.COMMITTED,
        "status": Status.COMMITTED,
        "counter": 1,
        "emptied": 0,
        "created_at": 4,
        "updated_at": 5,
    }
    return RunLine(**{**nothing, **counts, **said, **changes})


def event(seq: int, topic: str, message_id: str, **changes: Any) -> EventLine:
    """Make an event that is consumed."""
    said: dict[str, Any] = {
        "seq": seq,
        "topic": topic,
        "message_id": message_id,
        "status": EventStatus.CONSUMED,
        "content": seq,
        "attempts": 1,
        "dropped": 0,
        "reserved_by": None,
        "finished_by": "run_2",
        "created_by": "ada",
        "created_at": 3,
        "finished_at": 5,
    }
    return EventLine(**{**said, **changes})


def sample() -> dict[str, ExportLine]:
    """Make one line of each kind, by a name, in their order."""
    crashed = {"phase": Phase.MUTATING, "status": Status.CRASHED}
    pending = {"status": EventStatus.PENDING, "finished_by": None, "finished_at": None}
    version = ("1.0", "python", SOURCE.text, SOURCE.hash, DECLARATION, "[]", "ada", "deploy")
    return {
        "head": HeadLine(1, 6, True, (NAME,), ("sheet.token",)),
        "workflow": WorkflowLine(ID, NAME, "1.0", 9, None, 1),
        "version": VersionLine(*version, None, 1, 1),
        "in": TopicLine("in", "file", 1, None, 0, 0),
        "out": TopicLine("out", None, 0, None, 0, 0),
        "handler": HandlerLine(
            *("file", Kind.CONSUMER, 0, 0, None, '{"last":"m1"}', None, 1, None, 3, 2, 0, 0)
        ),
        "grant": GrantLine("sheet.append", 5, '{"text":"*"}', "ada", 2),
        "mail": PayloadLine(2, "Mail 1", '"x"', MAIL),
        "row": PayloadLine(3, "Row 1", "null", ROW),
        "event": event(2, "in", "m1"),
        "output": event(3, "out", "r1", **pending),
        "cause": CauseLine(2, 3),
        "run": run("run_1", **crashed),
        "successor": run("run_2", retry_of="run_1", outcome=Outcome.APPLIED),
        "reservation": ReservationLine("run_2", 2, 2),
        "mutation": mutation(),
        "allowance": AllowanceLine(
            *("allowance_1", "mutation_1", "sheet.append", "1.0", "{}", "{}", 3, 99, "ada", 4),
            revoked_by=None,
            revoked_at=None,
        ),
        "action": ActionLine("action_1", 2, "ada", "deploy", "1.0", None),
        "blob": BlobLine(sha256(BLOB).hexdigest(), len(BLOB)),
        "part": BlobPartLine(0, "c29tZSBieXRlcw=="),
    }


def changed(name: str, /, **fields: Any) -> dict[str, ExportLine]:
    """Make the sample with one line that says something else."""
    lines = sample()
    lines[name] = msgspec.structs.replace(lines[name], **fields)
    return lines


def written(lines: Iterable[ExportLine | bytes]) -> bytes:
    """Write lines as a file, with its last line."""
    raw = [each if isinstance(each, bytes) else write_line(each) for each in lines]
    body = b"".join(raw)
    return body + write_line(EndLine(len(raw), sha256(body).hexdigest()))
