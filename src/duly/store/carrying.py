"""Workflows carried from one store to another: read out as lines, and taken in (H5, T5, L15).

Law 1  What is read out shows one moment: it is one transaction.
Law 2  A workflow that is handed over is paused first, with nothing open, and says so until a
       person resumes it. The transaction that reads it looks again, and there is one file of a
       hand-over. So a file never shows what the store has not given up.
Law 3  What is taken in is one transaction: all of it, or nothing. It is paused, and blind since the
       moment that the file shows. Its id stays, so that its keys stay the same (L7).
Law 4  A row of the ledger is sealed here with a mark that it came in a file: it was not made here,
       and a check says so. A row that was not whole in the other store gets no seal (L15).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from duly.config import Limits
from duly.errors import RequestRefused, see
from duly.fact import Offer
from duly.rules.blind import BlindCause
from duly.rules.carried import Carried, order_runs, read_part
from duly.rules.export import (
    ActionLine,
    AllowanceLine,
    BlobLine,
    BlobPartLine,
    CauseLine,
    EventLine,
    ExportLine,
    GrantLine,
    HandlerLine,
    MutationLine,
    PayloadLine,
    ReservationLine,
    RunLine,
    TopicLine,
    VersionLine,
    WorkflowLine,
)
from duly.rules.lifecycle import act, is_dropped_by_pause
from duly.rules.seal import make_seal
from duly.rules.value import INTEGER_MAX
from duly.rules.word import Act
from duly.store import people, seal, statements
from duly.store.base import Row, Transaction
from duly.store.bus import NUMBERS_PER_MS
from duly.store.parameter import as_set
from duly.store.record import Action, MutationRow
from duly.store.run import end_run
from duly.store.upkeep import list_blind, put_cause
from duly.store.workflow import Deployment, declare, put_needs

ROWS_PER_PAGE: Final = 200
VERSIONS_PER_PAGE: Final = 20
_LINE_OF_ROW: Final = tuple(
    each for each in MutationLine.__struct_fields__ if each not in ("is_whole",)
)


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a file that was read and fits what came before it."""

    number: int
    line: ExportLine


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What came of taking in one workflow."""

    workflow: str
    lines: int
    unsealed: int
    grants: tuple[str, ...]


# -- Reading out --------------------------------------------------------------------------------


def read_workflow(tx: Transaction, workflow_id: str) -> Iterator[ExportLine]:
    """Read everything of one workflow, line by line."""
    here = {"workflow_id": workflow_id}
    found = tx.one("export_workflow", **here)
    if found is None:
        return
    yield WorkflowLine(*found)
    pages = {"after": "", "limit": VERSIONS_PER_PAGE}
    yield from (VersionLine(*row) for row in _walk(tx, "export_versions", here, pages))
    yield from (TopicLine(*row) for row in tx.all("export_topics", **here))
    yield from (HandlerLine(*row) for row in tx.all("export_handlers", **here))
    yield from (GrantLine(*row) for row in tx.all("export_grants", **here))
    first = {"after": -INTEGER_MAX - 1}
    yield from (PayloadLine(*row) for row in _walk(tx, "export_payloads", here, first))
    yield from (EventLine(*row) for row in _walk(tx, "export_events", here, {"after": 0}))
    yield from _read_causes(tx, here)
    yield from order_runs(RunLine(*row) for row in _walk(tx, "export_runs", here, {"after": ""}))
    yield from _read_reservations(tx, here)
    yield from _read_ledger(tx, here)
    yield from (AllowanceLine(*row) for row in tx.all("export_allowances", **here))
    yield from (ActionLine(*row) for row in _walk(tx, "export_actions", here, {"after": ""}))
    yield from _read_blobs(tx, here)


def _walk(
    tx: Transaction, statement: str, here: Mapping[str, str], first: Mapping[str, Any]
) -> Iterator[Row]:
    """Go through a table along its key, which is the first column."""
    asked: dict[str, Any] = {"limit": ROWS_PER_PAGE, **here, **first}
    while page := tx.all(statement, **asked):
        yield from page
        asked["after"] = page[-1][0]


def _read_causes(tx: Transaction, here: Mapping[str, str]) -> Iterator[CauseLine]:
    asked: dict[str, Any] = {"after_root": 0, "after_seq": 0, "limit": ROWS_PER_PAGE, **here}
    while page := tx.all("export_causes", **asked):
        yield from (CauseLine(*row) for row in page)
        asked["after_root"], asked["after_seq"] = page[-1]


def _read_reservations(tx: Transaction, here: Mapping[str, str]) -> Iterator[ReservationLine]:
    asked: dict[str, Any] = {"after": "", "limit": ROWS_PER_PAGE, **here}
    while page := [each for (each,) in tx.all("export_run_ids", **asked)]:
        rows = tx.all("export_reservations", run_ids=as_set(page))
        yield from (ReservationLine(*row) for row in rows)
        asked["after"] = page[-1]


def _read_ledger(tx: Transaction, here: Mapping[str, str]) -> Iterator[MutationLine]:
    asked: dict[str, Any] = {"after": "", "limit": ROWS_PER_PAGE, **here}
    while page := [MutationRow(*row) for row in tx.all("export_mutations", **asked)]:
        flawed = seal.check_rows(tx, tx.seal_key, page)
        for row in page:
            told = {name: getattr(row, name) for name in _LINE_OF_ROW}
            yield MutationLine(**told, is_whole=row.id not in flawed)
        asked["after"] = page[-1].id


def _read_blobs(tx: Transaction, here: Mapping[str, str]) -> Iterator[ExportLine]:
    for digest, size in _walk(tx, "export_blobs", here, {"after": ""}):
        yield BlobLine(digest, size)
        number = 0
        while found := tx.one("get_blob_part", **here, digest=digest, number=number):
            yield BlobPartLine(number, base64.b64encode(bytes(found[0])).decode())
            number += 1


# -- Handing over -------------------------------------------------------------------------------


def hand_over(
    tx: Transaction, workflow_ids: Iterable[str], *, action: Action, now: int
) -> tuple[str, ...]:
    """Pause workflows for good in this store, and say why; return the runs that this drops (F7).

    It is refused while a run of one of them is open: only one store may answer for it (L3).
    """
    dropped: list[str] = []
    for workflow_id in sorted(workflow_ids):  # two hosts lock them in the same order
        name = statements.look(tx, workflow_id).name
        _refuse_second(tx, workflow_id, name)
        open_run = tx.one("open_run", workflow_id=workflow_id)
        if open_run is not None:
            run = statements.read_run(tx, open_run[0])
            if not is_dropped_by_pause(run.state):
                raise RequestRefused(code="has_open_run", subject=name, next=see("why", id=name))
            end_run(tx, run, act(run.state, Act.PAUSE), now)
            dropped.append(run.id)
        tx.write("set_paused", id=workflow_id, paused=1, now=now)
        statements.must(
            tx.one("blind_workflow", id=workflow_id, since=now, now=now), f"Workflow {workflow_id}"
        )
        own = replace(action, id=f"{action.id}_{workflow_id}")
        statements.note(tx, own, now, workflow_id=workflow_id, target=None)
    put_cause(tx, BlindCause.HANDED_OVER, now)
    return tuple(dropped)


def _refuse_second(tx: Transaction, workflow_id: str, name: str) -> None:
    since = _given_up(tx, workflow_id)
    if since is not None:
        raise RequestRefused(
            code="handed_over_before",
            subject=name,
            facts={"at": since},
            next=Offer("resume", {"workflow": name}, "goes_on"),
        )


def require_handed_over(tx: Transaction, workflow_ids: Iterable[str]) -> None:
    """Refuse to read out as handed over what a person resumed since it was."""
    for workflow_id in workflow_ids:
        if _given_up(tx, workflow_id) is None:
            name = people.get_workflow(tx, workflow_id).name
            raise RequestRefused(code="hand_over_undone", subject=name)


def _given_up(tx: Transaction, workflow_id: str) -> int | None:
    """Return since when another store has a workflow; nothing if this one works on it."""
    row = people.get_workflow(tx, workflow_id)
    if not row.paused or row.blind_since is None:
        return None
    is_given_up = list_blind(tx).get(row.blind_since) is BlindCause.HANDED_OVER
    return row.blind_since if is_given_up else None


# -- Taking in ----------------------------------------------------------------------------------


def take_in(
    tx: Transaction,
    read: Callable[[], Iterable[NumberedLine]],
    deployments: Mapping[str, Deployment],
    *,
    limits: Limits,
    action: Action,
    now: int,
) -> tuple[TakenIn, ...]:
    """Take in every workflow of a file: paused, and blind since the moment that it shows.

    `deployments` has what the examination of each active text gave here; the file is not believed
    about it. `read` begins at the first line each time.
    """
    carried = Carried(limits)
    taking: _Taking | None = None
    taken: list[TakenIn] = []
    number = 0
    for each in read():
        number = each.number
        carried.take(each.line, number)
        if isinstance(each.line, WorkflowLine):
            if taking is not None:
                taken.append(taking.finish())
            taking = _Taking(tx, carried, each.line, deployments, action, now)
        elif taking is not None:
            taking.take(each)
    carried.end(number)
    assert taking is not None
    taken.append(taking.finish())
    _pass_bus(tx, carried.bus_number, deployments.values(), now)
    return tuple(taken)


class _Taking:
    """Takes in one workflow."""

    def __init__(
        self,
        tx: Transaction,
        carried: Carried,
        line: WorkflowLine,
        deployments: Mapping[str, Deployment],
        action: Action,
        now: int,
    ) -> None:
        head = carried.head
        assert head is not None
        self._tx, self._id, self._name = tx, line.id, line.name
        self._deployment = deployments[line.id]
        self._action, self._now = action, now
        self._lines = self._unsealed = 0
        self._grants: list[str] = []
        self._allowed: dict[str, list[str]] = {}
        # Asked first: if another host takes the workflow in just now, its name is what is taken.
        known = tx.one("is_workflow_known", id=line.id)
        if people.find_workflow(tx, line.name) is not None:
            raise RequestRefused(code="workflow_name_taken", subject=line.name)
        if known is not None:
            raise RequestRefused(code="workflow_known", subject=line.name, facts={"id": line.id})
        self._since = min(each for each in (head.at, line.blind_since, now) if each is not None)
        row = {**_columns(line), "blind_since": self._since, "now": now}
        tx.change("import_workflow", f"Workflow {line.name}", 1, **row)

    def take(self, each: NumberedLine) -> None:
        """Write one line down."""
        line, what = each.line, f"line {each.number}"
        self._lines += 1
        if isinstance(line, GrantLine):
            self._grant(line)
        elif isinstance(line, BlobLine | BlobPartLine):
            self._keep_blob(line, each.number)
        else:
            statement, row = self._spell(line)
            if not isinstance(line, ReservationLine):
                row["workflow_id"] = self._id
            self._tx.change(statement, what, 1, **row)

    def finish(self) -> TakenIn:
        """Declare what the active text declares, check the ledger, and say who did it."""
        self._end_blob()
        tx, workflow_id = self._tx, self._id
        declare(tx, self._deployment, self._now)
        put_needs(tx, workflow_id, self._deployment.version)
        for allowance_id, mutations in self._allowed.items():
            for each in mutations:
                tx.change(
                    "name_allowance", f"Mutation {each}", 1, id=each, allowance_id=allowance_id
                )
        self._check_ledger()
        put_cause(tx, BlindCause.IMPORTED, self._since)
        own = replace(self._action, id=f"{self._action.id}_{workflow_id}")
        statements.note(tx, own, self._now, workflow_id=workflow_id, target=None)
        return TakenIn(self._name, self._lines, self._unsealed, tuple(self._grants))

    def _spell(self, line: ExportLine) -> tuple[str, dict[str, Any]]:
        """Return the statement that writes a line, and what it writes."""
        row = _columns(line)
        if isinstance(line, VersionLine):
            version = self._deployment.version
            if line.version == version.version:
                row |= {"declaration": version.declaration, "findings": version.findings}
        elif isinstance(line, TopicLine):
            row = {"name": line.name, "worked_until": line.worked_until}
        elif isinstance(line, HandlerLine):
            del row["orphaned"]
        elif isinstance(line, EventLine):
            del row["reserved_by"]
        elif isinstance(line, RunLine):
            del row["open"]
        elif isinstance(line, MutationLine):
            row = self._seal(line, row)
        elif isinstance(line, AllowanceLine) and line.revoked_at is None:
            row |= {"revoked_by": self._action.by, "revoked_at": self._now}
        tag = type(line).__struct_config__.tag
        return f"import_{tag}", row

    def _seal(self, line: MutationLine, row: dict[str, Any]) -> dict[str, Any]:
        allowance_id = row.pop("allowance_id")
        is_whole = row.pop("is_whole")
        if allowance_id is not None:
            self._allowed.setdefault(allowance_id, []).append(line.id)
        key = self._tx.seal_key
        if key is None:
            raise RequestRefused(code="no_key_to_seal", subject=self._name)
        begun = end = None
        if is_whole and line.digests is not None:
            made = MutationRow(**row, allowance_id=allowance_id, workflow_id=self._id, due_at=None)
            begun = make_seal(key, made.facts, is_imported=True)
            end = make_seal(key, seal.end_facts(made, line.digests), is_imported=True)
        else:
            self._unsealed += 1
        return {**row, "seal": begun, "end_seal": end}

    def _check_ledger(self) -> None:
        """Refuse rows whose texts do not fit what the other store had sealed of them (L15)."""
        asked: dict[str, Any] = {
            "after": "",
            "limit": ROWS_PER_PAGE,
            "workflow_id": self._id,
        }
        while page := [MutationRow(*row) for row in self._tx.all("export_mutations", **asked)]:
            sealed = [row for row in page if row.end_seal is not None]
            for flawed in seal.check_rows(self._tx, self._tx.seal_key, sealed):
                raise RequestRefused(code="export_ledger", subject=flawed)
            asked["after"] = page[-1].id

    def _grant(self, line: GrantLine) -> None:
        self._tx.write(
            "put_grant",
            workflow_id=self._id,
            capability=line.capability,
            mutations_per_day=line.mutations_per_day,
            matching=line.matching,
            by=self._action.by,  # the person who takes it in gives it here (A1)
            now=self._now,
        )
        self._grants.append(line.capability)

    _blob: BlobLine | None = None

    def _keep_blob(self, line: BlobLine | BlobPartLine, number: int) -> None:
        here = {"workflow_id": self._id}
        if isinstance(line, BlobLine):
            self._end_blob()
            self._blob = line
            self._tx.write("open_blob", **here, digest=line.digest, size=line.size, now=self._now)
            return
        assert self._blob is not None
        body = read_part(line, number)
        here["digest"] = self._blob.digest
        self._tx.write("insert_blob_part", **here, number=line.number, body=body)

    def _end_blob(self) -> None:
        if self._blob is not None:
            here = {"workflow_id": self._id, "digest": self._blob.digest}
            self._tx.change("finish_blob", "The blob", 1, **here, now=self._now)
            self._blob = None


def _columns(line: ExportLine) -> dict[str, Any]:
    return msgspec.structs.asdict(line)


def _pass_bus(tx: Transaction, number: int, deployments: Iterable[Deployment], now: int) -> None:
    """Give no event of this bus a number that a message id of the file names (T5, T10)."""
    if not number:
        return
    if number > 2 * now * NUMBERS_PER_MS:  # no bus counts so far; there would be no numbers left
        raise RequestRefused(code="bus_number_ahead", subject=f"bus:{number}")
    # First, and locked until the end: an emit in between would have such a number.
    tx.write("pass_bus_numbers", least=number)
    for deployment in deployments:
        for topic in deployment.topics:
            if topic.bus_topic is None:
                continue
            found = tx.one("find_unopened_before", topic=topic.bus_topic, upto=number)
            if found is not None:
                facts = {"topic": topic.bus_topic, "event": found[0]}
                raise RequestRefused(
                    code="bus_not_told",
                    subject=deployment.name,
                    facts=facts,
                    next=see("bus.journal"),
                )
