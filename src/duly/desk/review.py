"""What a person reviews: versions and their differences, tools, proposed calls, what was done.

Law 1: what a script claims and what the host observed are never mixed (L11).
Law 2: what is shown has no secrets in it (A5).
"""

from __future__ import annotations

from datetime import datetime
from difflib import unified_diff

from duly.desk import deploy
from duly.desk.base import HasDesk, find, find_history, find_version
from duly.desk.connection import Proofs
from duly.desk.deploy import GivenSource
from duly.desk.grant import find_chosen
from duly.desk.identity import find_place
from duly.desk.page import PAGE_DEFAULT, check_page, read_names
from duly.desk.record import Action, Approval, Preview, Version
from duly.desk.sight import Sight, read_args
from duly.engine import study
from duly.engine.base import Parts
from duly.errors import Invalid, NotDeployed, NotFound, ScriptError, see
from duly.rules.catalog import Tool, make_form
from duly.rules.declaration import Problem
from duly.rules.identity import IdKind, MutationId
from duly.rules.permission import ASKS, list_asking
from duly.rules.redaction import redact, redact_text
from duly.rules.schedule import moment
from duly.rules.source import EXAMPLE, Language
from duly.rules.value import Json, decode
from duly.rules.verb import Scope, question
from duly.rules.word import Waits
from duly.script.check import join
from duly.script.finding import Finding
from duly.store import due, people
from duly.store.base import Transaction
from duly.store.people import ActionRow
from duly.store.record import MutationRow, Origin, VersionRow, WorkflowRow
from duly.store.survey import Survey


class Reviews(HasDesk):
    """The questions of a person who is about to decide."""

    @question(cursor=("version",), example={"workflow": "invoices"})
    async def versions(
        self, workflow: str, *, limit: int = PAGE_DEFAULT, before: str | None = None
    ) -> tuple[Version, ...]:
        """List the versions of a workflow, newest first."""
        # Rules: W8.
        check_page(limit, before, str)

        def look(tx: Transaction) -> tuple[Version, ...]:
            found = find_history(tx, workflow)
            if before is not None:
                find_version(tx, found, before)
            rows = people.list_versions(tx, found.id, limit=limit, before=before)
            numbers = (row.version for row in rows if row.activated_at is None)
            declined = people.find_target_actions(tx, found.id, numbers, "decline")
            return tuple(_version(row, found, declined.get(row.version)) for row in rows)

        return await self._desk().ask(look)

    @question(example={"workflow": "invoices", "version": "1.0"})
    async def source(self, workflow: str, version: str | None = None) -> str:
        """Return the text of a version; of the active one if none is named."""
        # Rules: W8.

        def look(tx: Transaction) -> str:
            found = find_history(tx, workflow)
            wanted = found.active_version if version is None else version
            if wanted is None:
                raise NotFound(
                    code="no_active_version",
                    subject=workflow,
                    next=see("versions", workflow=workflow),
                )
            return find_version(tx, found, wanted).source

        return await self._desk().ask(look)

    @question(example={"workflow": "invoices", "a": "1.0", "b": "2.0"})
    async def diff(self, workflow: str, a: str, b: str) -> str:
        """Show what changed from version `a` to version `b`, as a unified diff."""
        # Rules: W8.

        def look(tx: Transaction) -> tuple[VersionRow, VersionRow]:
            found = find_history(tx, workflow)
            return find_version(tx, found, a), find_version(tx, found, b)

        old, new = await self._desk().ask(look)
        lines = unified_diff(
            old.source.splitlines(),
            new.source.splitlines(),
            f"{workflow} {a}",
            f"{workflow} {b}",
            lineterm="",
        )
        return "".join(f"{line}\n" for line in lines)

    @question(scope=Scope.AGENT, follow=False, example={"source": EXAMPLE})
    async def check(self, source: GivenSource) -> tuple[Finding | Problem, ...]:
        """List everything that is wrong with a source; nothing is stored."""
        # Rules: W5.
        desk = self._desk()
        text = await deploy.read_source(desk, source)
        try:
            draft = await deploy.examine(desk, text, strict=False)
        except NotDeployed as error:
            proved = [each for each in error.findings if isinstance(each, Finding | Problem)]
            parts = desk.parts
            # What prevents loading does not hide the rest of what the text shows.
            try:
                read, _ = await study.examine(parts.env, parts.apart, text, parts.outside.catalog)
            except ScriptError:
                read = ()  # past the limit of a study; what was proved is said all the same
            return join(read, proved)
        return draft.findings

    @question(example={})
    async def next_due(self) -> datetime | None:
        """Return when this host has something to do next, if that is known."""
        # Rules: S3.
        desk = self._desk()
        found = await desk.ask(lambda tx: due.due(tx, desk.now_ms))
        return None if found.next_at is None else moment(found.next_at)

    @question(example={})
    async def tools(self) -> tuple[Tool, ...]:
        """List every tool of this host by name, with its capability and its risk."""
        # Rules: A1.
        catalog = self._desk().parts.outside.catalog
        return tuple(sorted(catalog.tools, key=lambda each: each.name))

    @question(cursor=("mutation",), example={"workflow": "invoices"})
    async def approvals(
        self,
        workflow: str | None = None,
        *,
        limit: int = PAGE_DEFAULT,
        before: MutationId | None = None,
    ) -> tuple[Approval, ...]:
        """List the calls that wait for a person, newest first."""
        # Rules: A3.
        check_page(limit, before, str)
        parts = self._desk().parts

        def look(tx: Transaction) -> tuple[Approval, ...]:
            workflow_id = None if workflow is None else find(tx, workflow).id
            place = find_place(tx, before, IdKind.MUTATION)
            rows = people.list_proposals(tx, workflow_id, limit=limit, before=place)
            survey = Survey(tx, people.list_by_ids(tx, (row.workflow_id for row in rows)))
            proofs = Proofs.read(tx, parts)
            return tuple(_approval(survey, row, proofs) for row in rows)

        return await self._desk().ask(look)

    @question(cursor=("id",), example={"limit": 10})
    async def actions(
        self,
        workflow: str | None = None,
        *,
        limit: int = PAGE_DEFAULT,
        before: str | None = None,
    ) -> tuple[Action, ...]:
        """List what people and agents did, newest first."""
        # Rules: A6.
        check_page(limit, before, str)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Action, ...]:
            workflow_id = None if workflow is None else find_history(tx, workflow).id
            rows = people.list_actions(tx, workflow_id, limit=limit, before=before)
            names = read_names(tx, (row.workflow_id for row in rows if row.workflow_id))
            return tuple(_action(row, names, sight) for row in rows)

        return await self._desk().ask(look)


def _version(row: VersionRow, workflow: WorkflowRow, declined: ActionRow | None) -> Version:
    return Version(
        workflow=workflow.name,
        version=row.version,
        language=Language(row.language),
        author=row.author,
        origin=Origin(row.origin),
        parent=row.parent,
        findings=deploy.read_findings(row.findings),
        active=row.version == workflow.active_version,
        activated_at=None if row.activated_at is None else moment(row.activated_at),
        created_at=moment(row.created_at),
        declined_by=None if declined is None else declined.by,
    )


def _approval(survey: Survey, row: MutationRow, proofs: Proofs) -> Approval:
    parts = proofs.parts
    run = survey.run(row.workflow_id)
    assert run is not None and run.state.waits is not None, run
    secrets = parts.outside.secrets()
    inputs = (each.title for each in survey.inputs(run.id))
    tool = _find(parts, row.tool)
    shown = redact(read_args(row.args), secrets)
    proposed = row.args_proposed
    return Approval(
        mutation=row.id,
        run=run.id,
        workflow=survey.workflows[row.workflow_id].name,
        claimed=None if row.title is None else redact_text(row.title, secrets),
        observed=Preview(row.tool, shown),
        risk=None if tool is None else tool.risk,
        inputs=tuple(redact_text(each, secrets) for each in inputs),
        hash=row.hash,
        waits=Waits(run.state.waits),
        waits_on=run.waits_on,
        created_at=moment(row.created_at),
        form=make_form(tool, shown if isinstance(shown, dict) else {}),
        editable=() if tool is None else tuple(p.name for p in tool.parameters if p.editable),
        amended_by=row.amended_by,
        proposed=None if proposed is None else redact(decode(proposed), secrets),
        answering=None if tool is None else proofs.answering(tool),
        rules=_rules(survey, parts, tool, survey.workflows[row.workflow_id]),
    )


def _rules(
    survey: Survey, parts: Parts, tool: Tool | None, workflow: WorkflowRow
) -> tuple[tuple[str, str], ...]:
    """List the rules by which a person is asked about a tool: of the settings, of a grant (A3)."""
    if tool is None:
        return ()
    own = parts.policy.workflows.get(workflow.name)
    also = () if own is None else (own.approvals,)
    chosen = find_chosen(survey.grants(workflow.id)).get(tool.name)
    by_grant = () if chosen is None else ((f"{ASKS}{tool.name}", chosen),)
    return (*list_asking(tool, parts.policy.approvals, *also), *by_grant)


def _find(parts: Parts, tool: str) -> Tool | None:
    """Look up a tool; one whose connector is not here any more has nothing to show."""
    try:
        return parts.outside.catalog.find(tool)
    except Invalid:
        return None


def _action(row: ActionRow, names: dict[str, str], sight: Sight) -> Action:
    return Action(
        id=row.id,
        at=moment(row.at),
        by=sight.text(row.by),
        verb=row.verb,
        workflow=None if row.workflow_id is None else names[row.workflow_id],
        target=None if row.target is None else sight.text(row.target),
        detail=sight.value(_detail(row.detail)),
    )


def _detail(text: str | None) -> Json:
    """Read what was noted about an act: JSON, or the one word of an answer."""
    if text is None:
        return None
    try:
        return decode(text)
    except Invalid:
        return text
