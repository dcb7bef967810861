"""What a workflow may do, and what a version of it uses (A1, A2, W8).

Law: what is granted is read from the store, what a version uses from its text. Neither is guessed
from the other, so that a person sees the difference before a version is put to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from duly.desk import deploy
from duly.desk.base import HasDesk, find, find_history, find_version
from duly.desk.grant import find_chosen, find_tools, read_row
from duly.engine.base import Parts
from duly.errors import NotFound, see
from duly.rules.permission import Asks, tell_asks
from duly.rules.preview import TakenBack
from duly.rules.right import Right
from duly.rules.schedule import moment
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.rules.verb import question
from duly.store import granted as kept
from duly.store import people
from duly.store.base import Transaction
from duly.store.people import ActionRow, GrantRow


@dataclass(frozen=True, slots=True)
class Granted:
    """A capability that a workflow has; `where` maps an argument to the glob it must match.

    `asks` says of each change that it allows when a person is asked first: by the settings, and by
    what was chosen with the grant.
    """

    capability: str
    mutations_per_day: int | None
    where: Json
    granted_by: str
    granted_at: datetime
    asks: tuple[Asks, ...] = ()


@dataclass(frozen=True, slots=True)
class RightNow:
    """What stands of one capability of a workflow: its grant, or since when it has none.

    `seen` is a word for it. An act that carries it changes nothing if something else stands then.
    """

    workflow: str
    capability: str
    seen: str
    grant: Granted | None
    taken_back: TakenBack | None


@dataclass(frozen=True, slots=True)
class Stands:
    """The word for what stands of a right, and who took it last (A6)."""

    word: str
    taken: TakenBack | None


class Envelopes(HasDesk):
    """The questions of a person who wants to know what a workflow can do."""

    @question(example={"workflow": "invoices"})
    async def grants(self, workflow: str) -> tuple[Granted, ...]:
        """List the capabilities that a workflow was granted, each with its limits."""
        # Rules: A1.
        parts = self._desk().parts
        return await self._desk().ask(partial(_list_granted, parts, workflow))

    @question(example={"workflow": "invoices", "capability": "table.insert"})
    async def right(self, workflow: str, capability: str) -> RightNow:
        """Say what stands of one capability: its limits, or who took it back and when.

        `seen` is what `grant` takes, so that nothing is changed that was not shown.
        """
        # Rules: A1, A6.
        parts = self._desk().parts

        def look(tx: Transaction) -> RightNow:
            find(tx, workflow)
            granted = _list_granted(parts, workflow, tx)
            held = next((each for each in granted if each.capability == capability), None)
            if held is None:
                find_tools(parts.outside.catalog, capability)
            stands = read_rights(workflow, [capability], tx)[capability]
            return RightNow(workflow, capability, stands.word, held, stands.taken)

        return await self._desk().ask(look)

    @question(follow=False, example={"workflow": "invoices", "version": "1.0"})
    async def uses(self, workflow: str, version: str | None = None) -> tuple[str, ...]:
        """List the capabilities that a version uses, whether they are granted or not."""
        # Rules: A2.
        desk = self._desk()

        def look(tx: Transaction) -> Source:
            found = find_history(tx, workflow)
            wanted = found.active_version if version is None else version
            if wanted is None:
                raise NotFound(
                    code="no_active_version",
                    subject=workflow,
                    next=see("versions", workflow=workflow),
                )
            row = find_version(tx, found, wanted)
            return Source(Language(row.language), row.source, f"{workflow} {wanted}")

        source = await desk.ask(look)
        draft = await deploy.examine(desk, source, strict=False)
        return tuple(sorted(draft.capabilities))


def read_rights(name: str, capabilities: Iterable[str], tx: Transaction) -> dict[str, Stands]:
    """Read what stands of each capability, and who took it last from a workflow of this name."""
    current, removed = people.find_workflow(tx, name), people.find_removed(tx, name)
    workflow_id = "" if current is None else current.id
    found = kept.list_rights(tx, [(workflow_id, name, each) for each in sorted(capabilities)])
    # A removal took all of them, also from one of the same name that was deployed since.
    acts = {each.capability: removed for each in found}
    acts |= people.find_target_actions(tx, workflow_id, acts, "revoke")
    return {
        each.capability: Stands(each.word, _taken(each, acts[each.capability])) for each in found
    }


def _taken(right: Right, act: ActionRow | None) -> TakenBack | None:
    return None if act is None else TakenBack(moment(act.at), act.by, right.losses)


def _list_granted(parts: Parts, workflow: str, tx: Transaction) -> tuple[Granted, ...]:
    rows = people.list_grants(tx, find_history(tx, workflow).id)
    asks = _list_asks(parts, workflow, rows)
    return tuple(
        Granted(
            capability=row.capability,
            mutations_per_day=row.mutations_per_day,
            where=dict(read_row(row).where),
            granted_by=row.granted_by,
            granted_at=moment(row.granted_at),
            asks=tuple(each for each in asks if each.capability == row.capability),
        )
        for row in rows
    )


def _list_asks(parts: Parts, workflow: str, rows: Sequence[GrantRow]) -> list[Asks]:
    """List when a person is asked before the changes that some grants allow (A3)."""
    catalog = parts.outside.catalog
    granted = {row.capability for row in rows}
    policies = (parts.policy.approvals, parts.policy_of(workflow).approvals)
    more: Any = {"chosen": find_chosen(rows), "may_ask_model": bool(granted & catalog.asking)}
    found = (
        tell_asks(each, *policies, **more)
        for each in sorted(catalog.tools, key=lambda tool: tool.name)
        if each.capability in granted
    )
    return [each for each in found if each is not None]
