"""A source on its way to becoming a version: prove what can be proved, and write it down (W5–W7).

Law 1: nothing is stored here, and nothing is believed: a source is loaded with no tools and
       analysed, and a refusal names every reason at once.
Law 2: what was extracted is stored with the version, and the script is never asked again (W7).

A person's deploy and the host's own repair examine a source by the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import msgspec

from duly.engine import study
from duly.engine.base import Parts
from duly.errors import Invalid, NotDeployed, RequestRefused, ScriptError, parts_of
from duly.rules import declaration as declared
from duly.rules import schedule
from duly.rules.access import Step
from duly.rules.declaration import Declaration, Problem
from duly.rules.preview import WrittenCall
from duly.rules.source import Source, check_source
from duly.rules.value import encode
from duly.rules.word import Kind
from duly.sandbox.base import Loaded
from duly.script.analysis import Analysis
from duly.script.finding import Finding, found, refusing, tidy
from duly.store.record import HandlerSpec, Origin, TopicSpec, VersionSpec
from duly.store.workflow import Deployment

NO_GRANTS: Final[Mapping[str, str | None]] = MappingProxyType({})
EXTRACT_BYTES_MAX: Final = 16 * 1024 * 1024  # what is extracted is bounded by the source's length


@dataclass(frozen=True, slots=True)
class Draft:
    """A source that may be deployed: what it declares, what was found, which tools it uses."""

    source: Source
    declaration: Declaration
    findings: tuple[Finding, ...]
    tools: Mapping[str, tuple[str, ...]]  # by handler and step, "poll.produce"
    capabilities: frozenset[str]
    loaded: Loaded | None = None
    calls: tuple[WrittenCall, ...] = ()
    lacking: tuple[str, ...] = ()  # connectors that it calls, and that this host does not have

    @property
    def needs(self) -> tuple[str, ...]:
        """Every tool it uses: a host without one of them does not take it up (H7)."""
        return tuple(sorted({tool for used in self.tools.values() for tool in used}))


# -- Examining ----------------------------------------------------------------------------------


async def examine(parts: Parts, source: Source, *, strict: bool) -> Draft:
    """Load a source with no tools and analyse it; raise NotDeployed with every reason (W5, W6)."""
    catalog = parts.outside.catalog
    try:
        check_source(source, parts.policy.limits)
        loaded = await parts.sandbox.load(source, catalog)
    except Invalid as error:
        problem = Problem("N", error.subject or source.name, error.code, error.facts)
        raise _refused(source, (problem,)) from error
    except ScriptError as error:
        if error.is_lost:
            raise _lost(source) from error
        raise _refused(source, await _reasons(parts, source, error)) from error
    except NotDeployed as error:
        if error.findings:
            raise
        # A source without a workflow is told how to write one.
        told = (await study.study(parts.env, parts.apart, source, catalog)).analysis.findings
        raise NotDeployed(**parts_of(error), findings=told) from error
    reads = parts.policy_of(loaded.declaration.name).mutate_reads
    try:
        findings, analysis = await study.examine(parts.env, parts.apart, source, catalog, reads)
    except ScriptError as error:
        if error.is_lost:
            raise _lost(source) from error
        raise _refused(source, (_problem(source, str(error), None, None),)) from error
    findings = tidy([*findings, *_unread(source, loaded.declaration, analysis)])
    refuse(source, findings, strict=strict)
    tools = {f"{handler}.{step}": used for (handler, step), used in analysis.tools.items()}
    capabilities = frozenset(
        catalog.find(tool).capability for used in tools.values() for tool in used
    )
    declared, calls, lacking = loaded.declaration, analysis.calls, analysis.lacking
    return Draft(source, declared, findings, tools, capabilities, loaded, calls, lacking)


def _unread(source: Source, declaration: Declaration, analysis: Analysis) -> Iterator[Finding]:
    """Report the steps that a source has when it runs, and that its text does not show (M9)."""
    steps = [(each.name, Step.PRODUCE) for each in declaration.producers]
    steps += [(each.name, step) for each in declaration.consumers for step in each.steps]
    for handler, step in steps:
        if (handler, step) not in analysis.tools and analysis.handlers:
            yield found(
                "hidden-use",
                1,
                1,
                f"{handler} has a step {step} that the text does not show where it is declared.",
                "Write the function of each step in its handler, or name it there.",
                file=source.name,
            )


def refuse(source: Source, findings: tuple[Finding, ...], *, strict: bool) -> None:
    """Raise NotDeployed with every finding that refuses a source (W5)."""
    if refused := refusing(findings, strict=strict):
        raise _refused(source, refused)


def _lost(source: Source) -> RequestRefused:
    return RequestRefused(code="loader_died", subject=source.name)


async def _reasons(
    parts: Parts, source: Source, error: ScriptError
) -> tuple[Finding | Problem, ...]:
    """Say why a source does not load: all that can be read off its text, else what loading said."""
    said = _problem(source, str(error), error.line, error.column)
    try:
        read = await study.study(parts.env, parts.apart, source, parts.outside.catalog)
    except ScriptError:
        return (said,)  # what loading said is reason enough
    if findings := refusing(read.analysis.findings):
        return findings
    lacking = tuple(_problem(source, str(each), each.line, each.column) for each in read.lacking)
    return lacking or (said,)


def _problem(source: Source, said: str, line: int | None, column: int | None) -> Problem:
    where = ":".join(str(each) for each in (source.name, line, column) if each)
    return Problem("W5", where, "not_loaded", {"said": said}, line or 0, column or 0)


def _refused(source: Source, reasons: tuple[Finding | Problem, ...]) -> NotDeployed:
    sentences = [str(reason) for reason in reasons]
    return NotDeployed(
        code="source_refused", subject=source.name, facts={"problems": sentences}, findings=reasons
    )


# -- Extracting ---------------------------------------------------------------------------------


def version_of(
    draft: Draft,
    number: str,
    *,
    by: str,
    origin: Origin = Origin.DEPLOY,
    parent: str | None = None,
) -> VersionSpec:
    """Write a draft down as a version of its workflow."""
    source = draft.source
    return VersionSpec(
        version=number,
        language=source.language,
        source=source.text,
        hash=source.hash,
        declaration=encode(declared.to_json(draft.declaration), limit_bytes=EXTRACT_BYTES_MAX),
        findings=write_findings(draft.findings),
        author=by,
        origin=origin,
        parent=parent,
        path=source.path,
        needs=draft.needs,
    )


def deployment_of(
    draft: Draft,
    version: VersionSpec,
    *,
    workflow_id: str,
    replaces: str | None,
    timezone: str,
    grants: Mapping[str, str | None] = NO_GRANTS,
) -> Deployment:
    """Spell the activation of a version: what the scheduler will use, over what it replaces."""
    declaration = draft.declaration
    return Deployment(
        workflow_id=workflow_id,
        name=declaration.name,
        replaces=replaces,
        version=version,
        handlers=tuple(_handlers(declaration)),
        topics=tuple(
            TopicSpec(each.name, declaration.consumer_of(each.name), each.ingress, each.bus)
            for each in declaration.topics
        ),
        grants=grants,
        timezone=timezone,
    )


def _handlers(declaration: Declaration) -> Iterable[HandlerSpec]:
    for position, producer in enumerate(declaration.producers):
        told = schedule.declare(producer.schedule)
        text = None if told is None else encode({**told}, limit_bytes=EXTRACT_BYTES_MAX)
        yield HandlerSpec(producer.name, Kind.PRODUCER, position, text)
    for position, consumer in enumerate(declaration.consumers, len(declaration.producers)):
        yield HandlerSpec(consumer.name, Kind.CONSUMER, position)


def write_findings(findings: tuple[Finding, ...]) -> str:
    """Write findings as they are stored with their version."""
    return msgspec.json.encode(findings).decode()


def read_findings(text: str) -> tuple[Finding, ...]:
    """Read the findings of a stored version."""
    return msgspec.json.decode(text, type=tuple[Finding, ...])
