"""The desk of an open host: what commands and questions stand on, and what they have in common.

Law 1: a workflow goes by its name; for an unknown one the nearest name is given.
Law 2: an act that was begun is carried out, even if its caller stops waiting for it. If the engine
       were not told of a commit, the work would be left lying there.
Law 3: a question is one transaction, so that all of an answer is of one moment. An act never
       waits for a question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from duly.bus.channel import Channels
from duly.desk.refused import Refusals
from duly.desk.secret import Vault
from duly.engine.base import Parts
from duly.engine.scheduler import Engine
from duly.errors import NotFound, RequestRefused, Stale, parts_of, see
from duly.rules.addable import Added, AddedConnection, Rehearsed, SettingsState
from duly.rules.addable_kind import AddableKind
from duly.rules.delivery import Presence
from duly.rules.request import check_by
from duly.rules.source import Source
from duly.rules.token import OpenLink
from duly.rules.value import Json, nearest
from duly.store import people
from duly.store.base import Durability, Transaction
from duly.store.record import Action, VersionRow, WorkflowRow

R = TypeVar("R")

ADDS_MAX: Final = 100  # forms that are remembered
USER: Final = "user"  # who acts, where the caller does not say


# A source, its events, what tools answer, and how many crashes to try: what came of it.
Simulator: TypeAlias = Callable[
    [Source, Sequence[Mapping[str, Any]], Mapping[str, Json], int], Awaitable[Json]
]


class Setup(Protocol):
    """The settings of a host's project, and the way to start the host again with them.

    `look`, `try_out`, `write` and `take_back` work with files, and block.
    """

    @property
    def can_restart(self) -> bool:
        """Tell whether the process of the host can begin again."""

    def list_kinds(self) -> tuple[AddableKind, ...]:
        """List what can be added."""

    def look(self) -> SettingsState:
        """Compare the settings with those that the host was started with."""

    def try_out(self, use: str, name: str, given: Mapping[str, str | list[str]]) -> Added:
        """Build a connector from what would be written; nothing is written."""

    def write(self, added: Added) -> None:
        """Write what was tried, if the settings are as they were then."""

    def take_back(self, added: Added) -> None:
        """Take out what was written."""

    async def rehearse(self) -> Rehearsed:
        """Build everything the settings name, in another process, or raise why it cannot be."""

    def restart(self) -> None:
        """Let the host stop in order, and begin again."""


def _ended_nothing(answer: object) -> None:
    return None


def _away(subscriber_id: str) -> Presence:
    return Presence.AWAY


@dataclass(frozen=True, slots=True)
class UnmadeBackup:
    """A scheduled copy that could not be made: since when, where, and why (H5)."""

    since: int
    folder: str
    error: str


@dataclass(slots=True)
class Adds:
    """The connections that are being added, one at a time, and what forms brought them."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    done: dict[str, tuple[bytes, AddedConnection]] = field(default_factory=dict)

    def remember(self, once: str, said: bytes, made: AddedConnection) -> None:
        """Keep what a form brought, so that the same form sent again brings nothing else."""
        if once:
            self.done[once] = (said, made)
            while len(self.done) > ADDS_MAX:
                del self.done[next(iter(self.done))]


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts of an open host, its engine, and the acts that are being carried out.

    `links` sign a browser in and were not used yet. `presence` tells how a subscriber of the bus
    can be reached in this process (B13). `proving` are the tools that are tried now (K10),
    `signing` the sign-ins that this host ends, and whether their code was sent (K9).
    `watchers` are called after every write; `waits` are the callers that wait for a change.
    `simulator` crashes a workflow, in a process of its own. `writing` are the drafts that models
    write now. `faults` has what this host does by itself and cannot do now. `setup` are the
    settings of its project; a host that a program embeds has none.
    `refusals` counts the posts to webhooks that were not taken.
    """

    parts: Parts
    engine: Engine
    vault: Vault | None = None
    presence: Callable[[str], Presence] = _away
    acts: set[asyncio.Future[Any]] = field(default_factory=set)
    links: list[OpenLink] = field(default_factory=list)
    proving: set[str] = field(default_factory=set)
    signing: dict[str, bool] = field(default_factory=dict)
    channels: Channels = field(default_factory=Channels)
    watchers: set[Callable[[], None]] = field(default_factory=set)
    waits: set[object] = field(default_factory=set)
    simulator: Simulator | None = None
    writing: set[object] = field(default_factory=set)
    faults: dict[str, UnmadeBackup] = field(default_factory=dict)
    setup: Setup | None = None
    adding: Adds = field(default_factory=Adds)
    refusals: Refusals = field(default_factory=Refusals)

    @property
    def now_ms(self) -> int:
        """The time an act happens at."""
        return self.parts.env.now_ms()

    @property
    def unmade(self) -> UnmadeBackup | None:
        """The scheduled copy that could not be made, if it is so."""
        return self.faults.get("backup")

    def action(self, by: object, verb: str, detail: str | None = None) -> Action:
        """Make the record of an act (A6)."""
        who = check_by(by, self.parts.policy.limits)
        return Action(self.parts.env.new_id("action"), who, verb, detail)

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Read in one transaction; writers do not wait for it."""
        return await self.parts.store.backend.ask(body)

    async def look(self, body: Callable[[Transaction], R]) -> R:
        """Read the little that an act needs, between two commits.

        Questions wait for one another, and a long one must not keep an act waiting.
        """
        return await self.parts.store.backend.transact(body, Durability.READ)

    async def find(self, name: str) -> WorkflowRow:
        """Return the workflow that has this name now, for an act."""
        return await self.look(lambda tx: find(tx, name))

    async def carry_out(
        self,
        verb: Callable[[], Awaitable[R]],
        workflow_id: str | None,
        *,
        ended: Callable[[R], str | None] = _ended_nothing,
        late: RequestRefused | None = None,
    ) -> R:
        """Call a verb and tell the engine which run it ended, and where to look.

        An act on all workflows names none. `late` is the message to a person whose act comes too
        late: the thing has changed meanwhile.
        """

        async def act() -> R:
            try:
                answer = await verb()
            except Stale as error:
                raise (late or RequestRefused(**parts_of(error))) from error
            if (run_id := ended(answer)) is not None:
                self.engine.drop(run_id)
            self.engine.wake(workflow_id)
            return answer

        return await self.complete(act)

    async def complete(self, act: Callable[[], Awaitable[R]]) -> R:
        """Carry an act out to its end, also when its caller is cancelled; close waits for it."""
        acting = asyncio.ensure_future(act())
        self.acts.add(acting)
        acting.add_done_callback(self.acts.discard)
        return await asyncio.shield(acting)


class HasDesk:
    """The base of the classes whose methods are verbs: they reach the host through its desk."""

    def _desk(self) -> Desk:
        """Return the desk, or raise why there is none."""
        raise NotImplementedError


def find(tx: Transaction, name: str) -> WorkflowRow:
    """Read the workflow that has this name now, or name the one that was probably meant."""
    found = people.find_workflow(tx, name)
    if found is None:
        known = (each.name for each in people.list_workflows(tx, limit=people.PAGE_ROWS_MAX))
        raise NotFound(
            code="no_workflow",
            subject=str(name),
            facts=nearest(str(name), known),
            next=see("workflows"),
        )
    return found


def find_history(tx: Transaction, name: str) -> WorkflowRow:
    """Read the workflow to look at under a name: the one that has it, else the last one that had.

    A removed workflow's history is readable until its name begins again (W10).
    """
    former = None
    if people.find_workflow(tx, name) is None:
        former = people.find_former_workflow(tx, name)
    return former or find(tx, name)


def find_version(tx: Transaction, workflow: WorkflowRow, version: str) -> VersionRow:
    """Read a version of a workflow, or name those there are."""
    try:
        return people.get_version(tx, workflow.id, version)
    except NotFound:
        known = [each.version for each in people.list_versions(tx, workflow.id)]
        raise NotFound(
            code="no_version",
            subject=str(version),
            facts={"workflow": workflow.name, **nearest(str(version), known)},
            next=see("versions", workflow=workflow.name),
        ) from None


def find_topic(
    tx: Transaction, workflow: WorkflowRow, name: str, *, is_orphan_fine: bool = True
) -> None:
    """Refuse a topic the workflow does not have; an orphaned one is there to be looked at (W9)."""
    known = [
        each.name
        for each in people.list_topics(tx, workflow.id)
        if is_orphan_fine or not each.orphaned
    ]
    if name not in known:
        raise NotFound(
            code="no_topic",
            subject=str(name),
            facts={"workflow": workflow.name, **nearest(str(name), known)},
            next=see("events", workflow=workflow.name),
        )
