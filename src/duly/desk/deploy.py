"""Deploy: read a source, prove what can be proved, and make it the active version (W5–W9, A2).

Law 1: nothing is stored before everything was checked (`engine.draft`).
Law 2: of two deploys at the same moment one wins, and the other is told to look again: no
       caller replaces a version that it had no chance to see.
Law 3: nothing is done again because a name was changed, unless the caller says so (W9).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from duly.bus.cause import follow
from duly.desk.base import Desk, find, find_version
from duly.desk.connection import Proofs
from duly.desk.grant import RightsGiven
from duly.desk.record import Deployed
from duly.engine import draft as drafts
from duly.engine.announcements import Announcements
from duly.engine.draft import EXTRACT_BYTES_MAX
from duly.engine.draft import Draft as Draft
from duly.engine.draft import read_findings as read_findings
from duly.errors import Invalid, RequestRefused, see
from duly.rules.announcement import Topic
from duly.rules.asking import Answering
from duly.rules.permission import missing_capabilities
from duly.rules.proposal import check_adopter
from duly.rules.rename import Rename, Renamed
from duly.rules.source import SUFFIXES, Language, Source
from duly.rules.value import Json, encode
from duly.rules.verb import Crosses
from duly.script.finding import Finding, found, tidy
from duly.store import people
from duly.store import workflow as kept
from duly.store.base import Transaction
from duly.store.record import Origin, VersionRow, WorkflowRow
from duly.store.workflow import Deployment
from duly.words.rename import say_rename

FIRST_VERSION: Final = "1.0"
NO_LIMITS: Final = '{"mutations_per_day":null,"where":{}}'  # as a grant is recorded (A6)


@dataclass(frozen=True, slots=True)
class Back:
    """A rollback: the version whose text comes back, over the one that was seen active."""

    to: str
    over: str | None


@dataclass(frozen=True, slots=True)
class Adopted:
    """A proposal that a person adopts: its hash, who wrote it, and what it was written over."""

    hash: str
    author: str
    over: str | None


async def deploy(
    desk: Desk,
    source: GivenSource,
    *,
    by: str,
    given: RightsGiven,
    strict: bool,
    again: bool,
    replay: bool = False,
) -> Deployed:
    """Check a source and activate it as a new version."""
    desk.action(by, "deploy")  # a name that is refused is refused before the work
    read = await read_source(desk, source)
    # The active text was let in once, with its findings; only another text is refused for findings.
    draft = await examine(desk, read, strict=strict and again)
    given.check(draft.capabilities)
    if not again:
        active = await _leave(desk, draft, by=by, given=given)
        if active is not None:
            return active
        drafts.refuse(read, draft.findings, strict=strict)
    renames = await find_renames(desk, draft)
    if not replay:
        drafts.refuse(read, renames, strict=True)
    draft = replace(draft, findings=tidy((*draft.findings, *renames)))
    try:
        return await activate(desk, draft, by=by, given=given)
    except RequestRefused as error:
        # The same text may be what was deployed meanwhile: a form that was sent twice.
        is_late = not again and error.code == "deployed_meanwhile"
        active = await _leave(desk, draft, by=by, given=given) if is_late else None
        if active is None:
            raise
        return active


async def _leave(desk: Desk, draft: Draft, *, by: str, given: RightsGiven) -> Deployed | None:
    """Leave the active version as it is, if it has exactly this text; grant only what it lacks."""
    store, name = desk.parts.store, draft.declaration.name
    current = await store.find_workflow(name)
    if current is None or current.active_version is None:
        return None
    row = await store.get_version(current.id, current.active_version)
    if (row.language, row.source) != (draft.source.language, draft.source.text):
        return None
    missing = missing_capabilities(await _granted(desk, current), draft.capabilities)
    grants = given.choose(missing)
    for capability, seen in grants.items():
        action = desk.action(by, "grant", NO_LIMITS)
        given_it: dict[str, Any] = {"seen": seen, "action": action, "now": desk.now_ms}
        await desk.carry_out(
            partial(store.grant_lacking, current.id, capability, **given_it), current.id
        )
    left, changes = _left(missing, grants), await list_changes(desk, draft)
    return Deployed(name, row.version, draft.findings, left, new=False, changes=changes)


async def rollback(desk: Desk, workflow: str, version: str, *, by: str) -> Deployed:
    """Make the text of a version kept here the newest one, examined as if it were new (W8).

    One that was only proposed is put to use in the same way: a person names it, and that decides.
    """
    desk.action(by, "rollback")
    row, active = await desk.look(lambda tx: _old_version(tx, workflow, version))
    if row.activated_at is None:
        check_adopter(row.author, by, version)
    source = Source(Language(row.language), row.source, f"{workflow} {version}")
    draft = await examine(desk, source, strict=False)
    # A person named the version, and that is the word of consent (W9).
    draft = replace(draft, findings=tidy((*draft.findings, *await find_renames(desk, draft))))
    return await activate(desk, draft, by=by, given=RightsGiven(), back=Back(version, active))


def _old_version(tx: Transaction, workflow: str, version: str) -> tuple[VersionRow, str | None]:
    found = find(tx, workflow)
    row = find_version(tx, found, version)
    if version == found.active_version:
        raise RequestRefused(
            code="active_already",
            subject=version,
            facts={"workflow": workflow},
            next=see("versions", workflow=workflow),
        )
    return row, found.active_version


async def activate(
    desk: Desk,
    draft: Draft,
    *,
    by: str,
    given: RightsGiven,
    back: Back | None = None,
    adopted: Adopted | None = None,
) -> Deployed:
    """Make a source that was examined the active version of its workflow (W8, W9)."""
    name = draft.declaration.name
    late = RequestRefused(
        code="deployed_meanwhile", subject=name, next=see("versions", workflow=name)
    )
    current = await desk.parts.store.find_workflow(name)
    if back is not None and (current is None or current.active_version != back.over):
        raise late
    if adopted is not None and adopted.over != (current and current.active_version):
        raise late
    parent = None if back is None else back.to
    granted = await _granted(desk, current)
    missing = missing_capabilities(granted, draft.capabilities)
    # What is granted already keeps the limits a person gave it.
    grants = given.choose(missing)
    left = _left(missing, grants)
    author = by if adopted is None else adopted.author
    deployment = _deployment(desk, draft, current, by=author, grants=grants, parent=parent)
    if adopted is not None:
        deployment = replace(deployment, adopts=adopted.hash)
    detail: dict[str, Json] = {
        "tools": {step: list(tools) for step, tools in draft.tools.items()},
        "granted": [*grants],
        "missing": [*left],
        **({} if parent is None else {"parent": parent}),
        **({} if adopted is None else {"proposal": adopted.hash}),
    }
    verb = "deploy" if parent is None else "rollback"
    verb = verb if adopted is None else "adopt"
    version = deployment.version.version
    told: dict[str, Json] = {"workflow": name, "version": version, "by": by, "missing": [*left]}
    successor_id = desk.parts.env.new_id("run")
    await desk.carry_out(
        partial(
            desk.parts.store.deploy,
            deployment,
            successor_id=successor_id,
            action=desk.action(by, verb, encode(detail, limit_bytes=EXTRACT_BYTES_MAX)),
            now=desk.now_ms,
            # A handler that deploys whenever something was deployed is a loop like any other.
            announce=(
                follow(desk.parts.store, Announcements(desk.parts).deployed(Topic.DEPLOYED, told)),
            ),
        ),
        deployment.workflow_id,
        late=late,
    )
    changes = await list_changes(desk, draft)
    return Deployed(name, version, draft.findings, left, changes=changes)


async def list_changes(desk: Desk, draft: Draft) -> tuple[Answering, ...]:
    """List how each tool can be asked with which a source may change something (K1)."""
    catalog = desk.parts.outside.catalog
    proofs = await desk.look(lambda tx: Proofs.read(tx, desk.parts))
    found = (proofs.answering(catalog.find(name)) for name in draft.needs)
    return tuple(each for each in found if each is not None)


# -- Reading ------------------------------------------------------------------------------------


# A program may name a file; from outside comes the text itself, and no path is read.
GivenSource: TypeAlias = Annotated[str | Path | Source, Crosses(Source)]


async def read_source(desk: Desk, given: GivenSource) -> Source:
    """Take a source as it is, or read the file; its ending says the language."""
    if isinstance(given, Source):
        return given
    if not isinstance(given, str | Path):
        raise Invalid(
            code="wrong_value",
            path="source",
            facts={"wanted": "source", "kind": type(given).__name__},
        )
    if isinstance(given, str) and "\n" in given:
        raise Invalid(code="wrong_value", path="source", facts={"wanted": "source", "kind": "text"})
    path = Path(given)
    language = SUFFIXES.get(path.suffix)
    if language is None:
        raise Invalid(
            code="no_language", path="source", facts={"file": str(path), "known": [*SUFFIXES]}
        )
    most_bytes = desk.parts.policy.limits.source_bytes
    text = await desk.parts.env.call_blocking(lambda: _read_text(path, most_bytes))
    whole = await desk.parts.env.call_blocking(lambda: str(path.resolve()))
    return Source(language, text, path.name, whole)


def _read_text(path: Path, most_bytes: int) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise Invalid(
                code="too_long",
                path="source",
                subject=str(path),
                facts={"limit": most_bytes, "unit": "bytes"},
            )
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise Invalid(
            code="unreadable", path="source", subject=str(path), facts={"cause": str(error)}
        ) from error


# -- Examining ----------------------------------------------------------------------------------


async def examine(desk: Desk, source: Source, *, strict: bool) -> Draft:
    """Load a source with no tools and analyse it; raise NotDeployed with every reason (W5, W6)."""
    return await drafts.examine(desk.parts, source, strict=strict)


async def find_renames(desk: Desk, draft: Draft) -> tuple[Finding, ...]:
    """Find what this version would do again because it bears another name (W9)."""
    declaration, source = draft.declaration, draft.source
    policies = desk.parts.policy.workflows

    def look(tx: Transaction) -> tuple[Rename, ...]:
        current = people.find_workflow(tx, declaration.name)
        if current is not None:
            producers = [each.name for each in declaration.producers]
            topics = [
                each.name for each in declaration.topics if declaration.consumer_of(each.name)
            ]
            return kept.find_renames(tx, current.id, producers, topics)
        if source.path is None:
            return ()
        other = kept.find_other_name(tx, source.path, declaration.name)
        return () if other is None else (Rename(Renamed.WORKFLOW, (other,), (declaration.name,)),)

    return tuple(_say_rename(each, source, policies) for each in await desk.look(look))


def _say_rename(rename: Rename, source: Source, policies: Container[str]) -> Finding:
    has_policy = rename.old[0] in policies
    sentence, suggestion = say_rename(rename, has_policy=has_policy)
    return found(rename.what, 1, 1, sentence, suggestion, file=source.name)


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
    grants: Mapping[str, str | None],
    parent: str | None = None,
) -> Deployment:
    replaces = None if current is None else current.active_version
    origin = Origin.DEPLOY if parent is None else Origin.ROLLBACK
    return drafts.deployment_of(
        draft,
        drafts.version_of(draft, next_version(replaces), by=by, origin=origin, parent=parent),
        workflow_id=current.id if current else desk.parts.env.new_id("workflow"),
        replaces=replaces,
        timezone=desk.parts.policy.timezone,
        grants=grants,
    )


def _left(missing: Iterable[str], grants: Container[str]) -> tuple[str, ...]:
    return tuple(each for each in missing if each not in grants)


def next_version(active: str | None) -> str:
    """Number a version that a person or an agent deploys: the next major one (W8)."""
    if active is None:
        return FIRST_VERSION
    return f"{int(active.partition('.')[0]) + 1}.0"
