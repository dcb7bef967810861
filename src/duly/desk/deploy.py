"""Deploy: read a source, prove what can be proved, and make it the active version (W5–W9, A2).

Law 1: nothing is stored before everything was checked; a refusal names every reason at once.
Law 2: what was extracted is stored with the version, and the script is never asked again (W7).
Law 3: of two deploys at the same moment one wins, and the other is told to look again: nobody
       replaces a version without the chance to have seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from duly.desk.base import After, Desk, find, find_version
from duly.desk.record import Deployed
from duly.errors import Invalid, NotDeployed, RequestRefused, ScriptError
from duly.rules import declaration as declared
from duly.rules import schedule
from duly.rules.catalog import Catalog
from duly.rules.declaration import Declaration, Problem
from duly.rules.permission import missing_capabilities
from duly.rules.source import SUFFIXES, Language, Source, check_source
from duly.rules.value import Json, encode
from duly.rules.word import Kind
from duly.script.analysis import Analysis, analyse
from duly.script.check import check
from duly.script.finding import Finding, refusing
from duly.script.lacking import find_lacking, parse
from duly.store.base import Transaction
from duly.store.record import (
    HandlerSpec,
    Origin,
    TopicSpec,
    VersionRow,
    VersionSpec,
    WorkflowRow,
)
from duly.store.workflow import Deployment

FIRST_VERSION: Final = "1.0"
EXTRACT_BYTES_MAX: Final = 16 * 1024 * 1024  # what is extracted is bounded by the source's length


@dataclass(frozen=True, slots=True)
class Draft:
    """A source that may be deployed: what it declares, what was found, which tools it uses."""

    source: Source
    declaration: Declaration
    findings: tuple[Finding, ...]
    tools: Mapping[str, tuple[str, ...]]  # by handler and step, "poll.produce"
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Back:
    """A rollback: the version whose text comes back, over the one that was seen active."""

    to: str
    over: str | None


async def deploy(
    desk: Desk, given: str | Path | Source, *, by: str, grant: bool, strict: bool
) -> Deployed:
    """Check a source and activate it as a new version."""
    desk.action(by, "deploy")  # a name that is refused is refused before the work
    draft = await examine(desk, await read_source(desk, given), strict=strict)
    return await activate(desk, draft, by=by, grant=grant)


async def rollback(desk: Desk, workflow: str, version: str, *, by: str) -> Deployed:
    """Make the text of an older version the newest one, examined as if it were new (W8)."""
    desk.action(by, "rollback")
    row, active = await desk.ask(lambda tx: _old_version(tx, workflow, version))
    source = Source(Language(row.language), row.source, f"{workflow} {version}")
    draft = await examine(desk, source, strict=False)
    return await activate(desk, draft, by=by, grant=False, back=Back(version, active))


def _old_version(tx: Transaction, workflow: str, version: str) -> tuple[VersionRow, str | None]:
    found = find(tx, workflow)
    row = find_version(tx, found, version)
    if version == found.active_version:
        raise RequestRefused(f'Version {version} of "{workflow}" is active already.')
    if row.activated_at is None:
        raise RequestRefused(
            f'Version {version} of "{workflow}" was only proposed, never active. '
            "Look at it, and deploy its text."
        )
    return row, found.active_version


async def activate(
    desk: Desk, draft: Draft, *, by: str, grant: bool, back: Back | None = None
) -> Deployed:
    """Make a source that was examined the active version of its workflow (W8, W9)."""
    name = draft.declaration.name
    late = (
        f'Somebody else deployed "{name}" at the same moment, and nothing was stored here. '
        "Look at the version that is active now, then deploy again."
    )
    current = await desk.parts.store.find_workflow(name)
    if back is not None and (current is None or current.active_version != back.over):
        raise RequestRefused(late)
    parent = None if back is None else back.to
    granted = await _granted(desk, current)
    missing = missing_capabilities(granted, draft.capabilities)
    # What is granted already keeps the limits a person gave it.
    grants = missing if grant else ()
    deployment = _deployment(desk, draft, current, by=by, grants=grants, parent=parent)
    detail: dict[str, Json] = {
        "tools": {step: list(tools) for step, tools in draft.tools.items()},
        "granted": list(grants),
        "missing": [] if grant else list(missing),
        **({} if parent is None else {"parent": parent}),
    }
    verb = "deploy" if parent is None else "rollback"
    successor_id = desk.parts.env.new_id("run")
    await desk.carry_out(
        desk.parts.store.deploy(
            deployment,
            successor_id=successor_id,
            action=desk.action(by, verb, encode(detail, limit_bytes=EXTRACT_BYTES_MAX)),
            now=desk.now_ms,
        ),
        deployment.workflow_id,
        then=lambda followed: After(is_followed=followed is not None),
        successor_id=successor_id,
        late=late,
    )
    return Deployed(name, deployment.version.version, draft.findings, () if grant else missing)


# -- Reading ------------------------------------------------------------------------------------


async def read_source(desk: Desk, given: str | Path | Source) -> Source:
    """Take a source as it is, or read the file; its ending says the language."""
    if isinstance(given, Source):
        return given
    if not isinstance(given, str | Path):
        raise Invalid(
            f"A {type(given).__name__} is no source. Give a path, or duly.Source(language, text).",
            path="source",
        )
    if isinstance(given, str) and "\n" in given:
        raise Invalid(
            "This is a text, not the path of one. Give duly.Source(language, text).", path="source"
        )
    path = Path(given)
    language = SUFFIXES.get(path.suffix)
    if language is None:
        known = ", ".join(SUFFIXES)
        raise Invalid(
            f"{path}: the ending says no language. Name it {known}, or give duly.Source(…).",
            path="source",
        )
    most_bytes = desk.parts.policy.limits.source_bytes
    text = await desk.parts.env.call_blocking(lambda: _read_text(path, most_bytes))
    return Source(language, text, path.name)


def _read_text(path: Path, most_bytes: int) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise Invalid(f"{path} is longer than {most_bytes} bytes. Shorten it.", path="source")
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Invalid(f"{path} cannot be read: {error}. Check its name.", path="source") from error


# -- Examining ----------------------------------------------------------------------------------


async def examine(desk: Desk, source: Source, *, strict: bool) -> Draft:
    """Load a source with no tools and analyse it; raise NotDeployed with every reason (W5, W6)."""
    parts = desk.parts
    catalog = parts.outside.catalog
    try:
        check_source(source, parts.policy.limits)
        loaded = await parts.sandbox.load(source, catalog)
    except Invalid as error:
        problem = Problem("N", source.name, str(error), "Correct the text and deploy again.")
        raise _refused(source, (problem,)) from error
    except ScriptError as error:
        if error.is_lost:
            raise RequestRefused(
                f"{source.name}: the process that was to load it died, which is not the source's "
                "fault. Nothing was stored; deploy it again."
            ) from error
        broken = error
        reasons = await parts.env.call_blocking(lambda: _reasons(source, catalog, broken))
        raise _refused(source, reasons) from error
    except NotDeployed as error:
        if error.findings:
            raise
        # A source without a workflow is told how to write one.
        told = await parts.env.call_blocking(lambda: analyse(source, catalog).findings)
        raise NotDeployed(str(error), findings=told) from error
    reads = parts.policy_of(loaded.declaration.name).mutate_reads

    def study() -> tuple[tuple[Finding, ...], Analysis]:
        return check(source, catalog, reads), analyse(source, catalog, reads)

    # In a thread: it computes for a moment, and other workflows must not notice (W6).
    findings, analysis = await parts.env.call_blocking(study)
    if refused := refusing(findings, strict=strict):
        raise _refused(source, refused)
    tools = {f"{handler}.{step}": used for (handler, step), used in analysis.tools.items()}
    capabilities = frozenset(
        catalog.find(tool).capability for used in tools.values() for tool in used
    )
    return Draft(source, loaded.declaration, findings, tools, capabilities)


def _reasons(source: Source, catalog: Catalog, error: ScriptError) -> tuple[Finding | Problem, ...]:
    """Say why a source does not load: all that can be read off its text, else what loading said."""
    if findings := refusing(analyse(source, catalog).findings):
        return findings
    if source.language is Language.PYTHON and (lacking := find_lacking(parse(source.text))):
        return tuple(_problem(source, str(each), each.line, each.column) for each in lacking)
    return (_problem(source, str(error), error.line, error.column),)


def _problem(source: Source, said: str, line: int | None, column: int | None) -> Problem:
    where = ":".join(str(each) for each in (source.name, line, column) if each)
    return Problem("W5", where, f"{where}: {said.rstrip('.')}.", "Correct it and deploy again.")


def _refused(source: Source, reasons: tuple[Finding | Problem, ...]) -> NotDeployed:
    sentences = " ".join(str(reason) for reason in reasons)
    return NotDeployed(
        f"{source.name} was refused, so nothing was stored. {sentences}", findings=reasons
    )


# -- Extracting ---------------------------------------------------------------------------------


async def _granted(desk: Desk, current: WorkflowRow | None) -> frozenset[str]:
    if current is None:
        return frozenset()
    grants = await desk.parts.store.list_grants(current.id)
    return frozenset(each.capability for each in grants)


def _deployment(
    desk: Desk,
    draft: Draft,
    current: WorkflowRow | None,
    *,
    by: str,
    grants: tuple[str, ...],
    parent: str | None = None,
) -> Deployment:
    source, declaration = draft.source, draft.declaration
    replaces = None if current is None else current.active_version
    version = VersionSpec(
        version=next_version(replaces),
        language=source.language,
        source=source.text,
        hash=source.hash,
        declaration=encode(declared.to_json(declaration), limit_bytes=EXTRACT_BYTES_MAX),
        findings=write_findings(draft.findings),
        author=by,
        origin=Origin.DEPLOY if parent is None else Origin.ROLLBACK,
        parent=parent,
    )
    return Deployment(
        workflow_id=current.id if current else desk.parts.env.new_id("workflow"),
        name=declaration.name,
        replaces=replaces,
        version=version,
        handlers=tuple(_handlers(declaration)),
        topics=tuple(
            TopicSpec(each.name, declaration.consumer_of(each.name), each.ingress, each.bus)
            for each in declaration.topics
        ),
        grants=grants,
    )


def _handlers(declaration: Declaration) -> Iterable[HandlerSpec]:
    for position, producer in enumerate(declaration.producers):
        told = schedule.declare(producer.schedule)
        text = None if told is None else encode(told, limit_bytes=EXTRACT_BYTES_MAX)
        yield HandlerSpec(producer.name, Kind.PRODUCER, position, text)
    for position, consumer in enumerate(declaration.consumers, len(declaration.producers)):
        yield HandlerSpec(consumer.name, Kind.CONSUMER, position)


def next_version(active: str | None) -> str:
    """Number a version that a person or an agent deploys: the next major one (W8)."""
    if active is None:
        return FIRST_VERSION
    return f"{int(active.partition('.')[0]) + 1}.0"


def write_findings(findings: tuple[Finding, ...]) -> str:
    """Write findings as they are stored with their version."""
    return msgspec.json.encode(findings).decode()


def read_findings(text: str) -> tuple[Finding, ...]:
    """Read the findings of a stored version."""
    return msgspec.json.decode(text, type=tuple[Finding, ...])
