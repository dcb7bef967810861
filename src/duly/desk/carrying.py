"""Carrying workflows to another store, as a file that can be read (H5, A6, T5, L15).

Law 1: nothing runs in both stores by mistake. A file is taken in if its workflows were handed over,
       that is, paused for it; a copy is taken in only at a person's word.
Law 2: the active text of each workflow is examined as a deploy does, before anything is stored.
Law 3: what could not be done left everything as it was, but for a hand-over: a workflow that was
       paused for a file which then could not be written stays paused, and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Final

from duly.desk.base import USER, Desk, HasDesk, find
from duly.desk.deploy import examine as examine
from duly.desk.grant import check_carried
from duly.desk.hook import HOOKS
from duly.desk.upkeep import path_of, write_noted
from duly.engine import draft as drafts
from duly.engine.draft import EXTRACT_BYTES_MAX
from duly.errors import IllegalTransition, Invalid, NotDeployed, RequestRefused, Stale
from duly.rules import declaration as declared
from duly.rules.carried import Carried, Misfit, misfit
from duly.rules.export import (
    FORMAT,
    WORKFLOWS_MAX,
    ExportLine,
    GrantLine,
    HeadLine,
    VersionLine,
    WorkflowLine,
)
from duly.rules.schedule import moment
from duly.rules.source import Language, Source
from duly.rules.value import Json, decode, encode
from duly.rules.verb import Crosses, Scope, WholePath, act
from duly.store import export_file, people
from duly.store.base import Transaction
from duly.store.carrying import TakenIn, read_workflow, require_handed_over
from duly.store.export_file import ExportFile
from duly.store.record import Action, Origin, VersionSpec, WorkflowRow
from duly.store.workflow import Deployment

DETAIL_BYTES_MAX: Final = 64 * 1024

PathGiven = Annotated[str | PathLike[str], Crosses(WholePath)]


@dataclass(frozen=True, slots=True)
class ExportedFlows:
    """A file with workflows that is on the disk, and which secrets they need.

    `secrets` are names, as `connector.name`; a webhook is one of `hooks`. `handed_over`: they are
    paused here since.
    """

    path: Path
    bytes: int
    lines: int
    at: datetime
    workflows: tuple[str, ...]
    secrets: tuple[str, ...]
    handed_over: bool


@dataclass(frozen=True, slots=True)
class ImportedFlows:
    """Workflows that were taken in; each is paused until a person resumes it.

    They know what was done until `at`. `unsealed` counts changes that were not whole in the store
    they came from. `secrets` names those that the workflows need and this store does not have.
    """

    path: Path
    at: datetime
    handed_over: bool
    workflows: tuple[str, ...]
    lines: int
    unsealed: int
    grants: tuple[str, ...]
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Outline:
    """What a file says of itself, and the active version of each of its workflows."""

    head: HeadLine
    active: tuple[tuple[WorkflowLine, VersionLine], ...]
    digest: str


class Carrying(HasDesk):
    """What a person does to bring workflows to another store; `by` says who."""

    @act(scope=Scope.ADMIN, example={"path": "/backups/invoices.jsonl", "workflow": "invoices"})
    async def export(
        self,
        path: PathGiven,
        *,
        workflow: str | None = None,
        hand_over: bool = False,
        by: str = USER,
    ) -> ExportedFlows:
        """Write a workflow with its grants and history to a new file, or every workflow.

        With `hand_over` it is paused here for good, so that another store can import it; that is
        refused while a run is open. The file has no secrets, only the names of those it needs.
        """
        # Rules: H5, A5, A6.
        desk = self._desk()
        action = desk.action(by, "hand_over" if hand_over else "export")
        target = path_of(path)
        homes = await desk.look(lambda tx: _find_homes(tx, workflow))

        async def act() -> ExportedFlows:
            # A name that is taken is refused before anything is paused.
            await desk.parts.env.call_blocking(partial(export_file.check_target, target))
            if hand_over:
                await _hand_over(desk, homes, replace(action, detail=str(target)))
            write = partial(_write, desk, target, homes, is_handed_over=hand_over)
            if not hand_over:
                return await write_noted(desk, target, action, write)
            made = await write()
            try:  # a person may have resumed it while the file was written
                await desk.ask(lambda tx: require_handed_over(tx, (each.id for each in homes)))
            except BaseException:
                export_file.drop_export(target)
                raise
            return made

        return await desk.complete(act)

    @act(scope=Scope.ADMIN, example={"path": "/backups/invoices.jsonl"})
    async def import_(
        self, path: PathGiven, *, copy: bool = False, by: str = USER
    ) -> ImportedFlows:
        """Import the workflows of a file that another store exported; each is paused.

        Without a hand-over the workflows may still run in the other store; such a file needs
        `copy`.
        """
        # Rules: H5, A6, W5, T5, L7, L15.
        desk = self._desk()
        action = desk.action(by, "import")
        file = path_of(path)
        outline = await desk.parts.env.call_blocking(lambda: _outline(desk, file))
        head = outline.head
        if not head.handed_over and not copy:
            raise RequestRefused(code="not_handed_over", subject=str(file))
        deployments = {
            line.id: await _examine(desk, line, version) for line, version in outline.active
        }
        if desk.vault is not None:
            await desk.vault.find_key()  # the ledger is sealed with it
        detail: dict[str, Json] = {"file": str(file), "at": head.at, "copy": not head.handed_over}
        verb = partial(
            desk.parts.store.take_in,
            partial(ExportFile, file, outline.digest),
            deployments,
            limits=desk.parts.policy.limits,
            action=replace(action, detail=encode(detail, limit_bytes=DETAIL_BYTES_MAX)),
            now=desk.now_ms,
        )
        taken = await _take_in(desk, verb, file)
        missing = await desk.ask(lambda tx: _missing(tx, head.secrets))
        return ImportedFlows(
            file,
            moment(head.at),
            head.handed_over,
            tuple(each.workflow for each in taken),
            sum(each.lines for each in taken),
            sum(each.unsealed for each in taken),
            tuple(sorted({name for each in taken for name in each.grants})),
            missing,
        )


# -- Writing ------------------------------------------------------------------------------------


def _find_homes(tx: Transaction, workflow: str | None) -> tuple[WorkflowRow, ...]:
    if workflow is not None:
        return (find(tx, workflow),)
    homes = people.list_workflows(tx, limit=people.PAGE_ROWS_MAX)
    if not homes:
        raise RequestRefused(code="nothing_to_export")
    if len(homes) >= WORKFLOWS_MAX:
        raise RequestRefused(code="export_too_large", facts={"lines": WORKFLOWS_MAX})
    return tuple(homes)


async def _hand_over(desk: Desk, homes: Sequence[WorkflowRow], action: Action) -> None:
    verb = partial(
        desk.parts.store.hand_over,
        tuple(each.id for each in homes),
        action=action,
        now=desk.now_ms,
    )
    for run_id in await verb():
        desk.engine.drop(run_id)
    for each in homes:
        desk.engine.wake(each.id)


async def _write(
    desk: Desk, target: Path, homes: Sequence[WorkflowRow], *, is_handed_over: bool
) -> ExportedFlows:
    at = desk.now_ms
    names = tuple(each.name for each in homes)
    secrets: tuple[str, ...] = ()

    def read(tx: Transaction) -> export_file.WrittenFile:
        nonlocal secrets
        if is_handed_over:
            require_handed_over(tx, (each.id for each in homes))
        secrets = _list_secrets(tx, homes)

        def put_all(put: Callable[[ExportLine], None]) -> None:
            put(HeadLine(FORMAT, at, is_handed_over, names, secrets))
            for each in homes:
                for line in read_workflow(tx, each.id):
                    put(line)

        return export_file.write_export(target, put_all)

    made = await desk.ask(read)
    return ExportedFlows(
        target, made.size_bytes, made.lines, moment(at), names, secrets, is_handed_over
    )


def _list_secrets(tx: Transaction, homes: Sequence[WorkflowRow]) -> tuple[str, ...]:
    """Name the secrets of the services that these workflows may use, and of their webhooks."""
    services = {
        grant.capability.partition(".")[0]
        for each in homes
        for grant in people.list_grants(tx, each.id)
    }
    hooks = tuple(f"{each.name}/" for each in homes)
    found = tx.all("list_secret_names")
    return tuple(
        f"{connector}.{name}"
        for connector, name in found
        if connector in services or (connector == HOOKS and name.startswith(hooks))
    )


# -- Taking in ----------------------------------------------------------------------------------


def _outline(desk: Desk, file: Path) -> _Outline:
    """Read the whole file once: whether it fits together, and what must be examined."""
    carried = Carried(desk.parts.policy.limits)
    active: list[tuple[WorkflowLine, VersionLine]] = []
    current: WorkflowLine | None = None
    number = 0
    lines = ExportFile(file)
    for each in lines:
        number, line = each.number, each.line
        carried.take(line, number)
        if isinstance(line, WorkflowLine):
            current = line
        elif isinstance(line, VersionLine):
            assert current is not None
            _check_version(line, number)
            if line.version == current.active_version:
                active.append((current, line))
        elif isinstance(line, GrantLine):
            _check_grant(desk, line, number)
    carried.end(number)
    assert carried.head is not None
    assert lines.digest is not None
    return _Outline(carried.head, tuple(active), lines.digest)


def _check_grant(desk: Desk, line: GrantLine, number: int) -> None:
    """Refuse limits and rules that no call here could be held against (A1, A3)."""
    try:
        check_carried(desk.parts.outside.catalog, line)
    except Invalid:
        raise misfit(number, Misfit.CONTENT) from None


def _check_version(line: VersionLine, number: int) -> None:
    """Refuse what could not be shown later; the active version is examined besides."""
    try:
        declared.parse(decode(line.declaration))
        drafts.read_findings(line.findings)
    except (Invalid, NotDeployed, ValueError):
        raise misfit(number, Misfit.CONTENT) from None


async def _examine(desk: Desk, line: WorkflowLine, version: VersionLine) -> Deployment:
    """Examine the active text of a workflow as a deploy does; the file is not believed (W5)."""
    name = f"{line.name} {version.version}"
    draft = await examine(
        desk, Source(Language(version.language), version.source, name), strict=False
    )
    if draft.declaration.name != line.name:
        facts = {"declared": draft.declaration.name}
        raise RequestRefused(code="export_other_name", subject=line.name, facts=facts)
    spec = VersionSpec(
        version=version.version,
        language=version.language,
        source=version.source,
        hash=version.hash,
        declaration=encode(declared.to_json(draft.declaration), limit_bytes=EXTRACT_BYTES_MAX),
        findings=drafts.write_findings(draft.findings),
        author=version.author,
        origin=Origin(version.origin),
        parent=version.parent,
        needs=draft.needs,
    )
    return drafts.deployment_of(
        draft, spec, workflow_id=line.id, replaces=None, timezone=desk.parts.policy.timezone
    )


async def _take_in(
    desk: Desk, verb: Callable[[], Awaitable[tuple[TakenIn, ...]]], file: Path
) -> tuple[TakenIn, ...]:
    try:
        return await desk.carry_out(verb, None)
    except RequestRefused as error:
        if not isinstance(error.__cause__, Stale):
            raise
        facts = {"where": error.__cause__.subject}
        raise RequestRefused(code="export_known_row", subject=str(file), facts=facts) from error
    except IllegalTransition as error:
        # A constraint of the database: the file says what no store of Duly would say.
        raise RequestRefused(code="export_unfit", subject=str(file)) from error


def _missing(tx: Transaction, named: Sequence[str]) -> tuple[str, ...]:
    known = {f"{connector}.{name}" for connector, name in tx.all("list_secret_names")}
    return tuple(each for each in named if each not in known)
