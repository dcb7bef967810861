"""The case a repairer is given: what failed, where, on which events, with which tools (F3).

Law: everything in a case has passed the same redaction. A repairer is usually a language model, and
a prompt is no place for a secret (A5). The size of a case is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from duly.engine.base import Parts
from duly.engine.draft import read_findings
from duly.fact import Reason
from duly.rules.declaration import parse
from duly.rules.kept import read_error, read_log
from duly.rules.reason import plain
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.repair import STEP_AT, RepairCase, RepairError, RepairInput
from duly.rules.source import Language, Source
from duly.rules.standing import Facts, escalate
from duly.rules.value import decode
from duly.rules.word import Kind, Phase, Way
from duly.script.stubs import javascript_types, python_stubs
from duly.store.record import EventRow, RunRow

INPUTS_MAX: Final = 20
INPUT_BYTES_MAX: Final = 1024 * 1024
OFFERED_MAX: Final = 5  # of each topic a failed prepare would have been shown

TOOLS: Final = {Language.PYTHON: python_stubs, Language.JAVASCRIPT: javascript_types}


def unrepaired(
    row: RunRow, workflow: str, message: str, reason: Reason, proposed: str | None
) -> Reason:
    """Say what failed, and why it was not repaired; `proposed` is a version that was kept (F8)."""
    failed = escalate(Facts(run=row.state, way=Way.PERSON, workflow=workflow, message=message))
    version = {} if proposed is None else {"proposed": proposed}
    return replace(
        failed,
        facts={
            **failed.facts,
            "unrepaired": {"code": reason.code, "facts": plain(reason.facts)},
            **version,
        },
    )


async def build_case(parts: Parts, row: RunRow) -> RepairCase:
    """Gather everything a repairer needs to know of a failed run, and nothing it must not."""
    store, secrets = parts.store, parts.outside.secrets()
    version = await store.get_version(row.workflow_id, row.version)
    grants = await store.list_grants(row.workflow_id)
    error = error_of(row)
    language = Language(version.language)
    return RepairCase(
        workflow=parse(decode(version.declaration)).name,
        version=row.version,
        source=Source(language, redact_text(version.source, secrets)),
        handler=row.handler,
        step=STEP_AT[Phase(row.phase)],
        error=RepairError(
            redact_text(error.message, secrets),
            error.line,
            error.tool,
            redact_text(error.args, secrets),
        ),
        logs=tuple(redact_text(line.text, secrets) for line in read_log(row.logs).lines),
        inputs=tuple(_input(each, secrets) for each in _bounded(await _events(parts, row))),
        prepared=None if row.prepared is None else redact(decode(row.prepared), secrets),
        tools=TOOLS[language](parts.outside.catalog),
        findings=tuple(redact_text(str(each), secrets) for each in read_findings(version.findings)),
        granted=tuple(each.capability for each in grants),
        attempt=row.repair_count + 1,
        budget=parts.policy.repair_budget,
        workflow_id=row.workflow_id,
    )


def error_of(row: RunRow) -> RepairError:
    """Read what a failed run keeps of its failure."""
    kept = read_error(row.error)
    message = kept.message or "it did not say why"
    return RepairError(message, kept.line, kept.tool, str(kept.args or "{}"))


async def _events(parts: Parts, row: RunRow) -> tuple[EventRow, ...]:
    """Read the events of a run; before it reserved any, those it would have been offered."""
    store = parts.store
    if row.kind == Kind.PRODUCER:
        return ()
    if row.phase != Phase.PREPARING:
        return await store.list_inputs(row.id)
    topics = await store.list_topics(row.workflow_id)
    offered: list[EventRow] = []
    for topic in topics:
        if topic.consumer == row.handler:
            offered += await store.peek(
                row.workflow_id, topic.name, limit=OFFERED_MAX, bytes_max=INPUT_BYTES_MAX
            )
    return tuple(offered)


def _bounded(events: Iterable[EventRow]) -> Iterable[EventRow]:
    """Take as many events as a reader can use; the first is always among them."""
    size_bytes = 0
    for place, event in enumerate(events):
        size_bytes += len(event.body.encode())
        if place and (place >= INPUTS_MAX or size_bytes > INPUT_BYTES_MAX):
            return
        yield event


def _input(event: EventRow, secrets: Redactor) -> RepairInput:
    return RepairInput(
        event.topic,
        redact_text(event.message_id, secrets),
        redact_text(event.title, secrets),
        redact(decode(event.body), secrets),
    )
