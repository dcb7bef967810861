"""Sources that an agent proposes, and a person adopts or declines (M6, G4).

Law 1  A proposal changes nothing and grants nothing. What is kept was examined, so that a person
       never adopts what could not be deployed.
Law 2  It is adopted by its hash, which covers the text and the version that it replaces. If another
       version is active by then, it is refused and must be proposed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff
from functools import partial
from typing import Final

from duly.desk import deploy
from duly.desk.base import USER, Desk, HasDesk
from duly.desk.deploy import Adopted, GivenSource
from duly.desk.grant import read_given
from duly.desk.record import Deployed
from duly.desk.sight import Sight
from duly.engine import draft as drafts
from duly.engine.draft import Draft, read_findings, write_findings
from duly.rules.proposal import check_adopter, check_note, hash_proposal
from duly.rules.schedule import moment
from duly.rules.source import EXAMPLE, Language, Source
from duly.rules.value import decode, encode
from duly.rules.verb import Scope, act, question
from duly.script.finding import Finding, tidy
from duly.store import people
from duly.store import proposal as stored
from duly.store.base import Transaction
from duly.store.proposal import SourceProposal

USES_BYTES_MAX: Final = 64 * 1024
HASH: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@dataclass(frozen=True, slots=True)
class ProposedSource:
    """A source that waits for a person; `uses` are its capabilities, and none of them is granted.

    `replaces` is the version it was written over. It can be adopted while that one is active: then
    it is `current`.
    """

    hash: str
    workflow: str
    replaces: str | None
    language: Language
    author: str
    note: str
    uses: tuple[str, ...]
    findings: tuple[Finding, ...]
    current: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ProposedText:
    """A proposed source with its text, and what is different from the active version."""

    proposal: ProposedSource
    source: str
    diff: str


class SourceProposals(HasDesk):
    """Sources that an agent proposes and a person adopts."""

    @act(scope=Scope.AGENT, example={"source": EXAMPLE, "note": "Skip newsletters"})
    async def propose(
        self, source: GivenSource, *, note: str = "", by: str = USER
    ) -> ProposedSource:
        """Check a source and keep it for a person to adopt; nothing is changed or granted.

        `note` says why, for the person. A source that has findings of any kind is refused.
        """
        # Rules: M6, W5.
        desk = self._desk()
        action = desk.action(by, "propose")
        text = check_note(note)
        given = replace(await deploy.read_source(desk, source), path=None)
        draft = await deploy.examine(desk, given, strict=True)
        draft = replace(draft, findings=tidy(await deploy.find_renames(desk, draft)))
        row = await desk.look(
            partial(make_row, draft=draft, author=action.by, note=text, desk=desk)
        )
        verb = partial(desk.parts.store.keep_proposal, row, action=action, now=desk.now_ms)
        await desk.complete(verb)
        return show_row(await desk.look(partial(stored.get_proposal, proposal=row.hash)), desk)

    @question(example={})
    async def proposals(self, workflow: str | None = None) -> tuple[ProposedSource, ...]:
        """List the sources that wait for a person to adopt them, newest first."""
        # Rules: M6.
        desk = self._desk()
        rows = await desk.ask(partial(stored.list_proposals, workflow=workflow))
        return tuple(show_row(each, desk) for each in rows)

    @question(example={"proposal": HASH})
    async def proposal(self, proposal: str) -> ProposedText:
        """Show a proposed source: its text, and what is different from the active version."""
        # Rules: M6.
        desk = self._desk()

        def look(tx: Transaction) -> tuple[SourceProposal, str]:
            row = stored.get_proposal(tx, str(proposal))
            found = people.find_workflow(tx, row.workflow)
            if found is None or row.active is None:
                return row, ""
            return row, people.get_version(tx, found.id, row.active).source

        row, active = await desk.ask(look)
        lines = unified_diff(
            active.splitlines(),
            row.source.splitlines(),
            f"{row.workflow} {row.active or '-'}",
            f"{row.workflow} {row.hash[:8]}",
            lineterm="",
        )
        return ProposedText(show_row(row, desk), row.source, "".join(f"{line}\n" for line in lines))

    @act(scope=Scope.DECIDE, example={"proposal": HASH})
    async def adopt(
        self,
        proposal: str,
        *,
        grant: bool = False,
        replay: bool = False,
        rights: Mapping[str, str] | None = None,
        by: str = USER,
    ) -> Deployed:
        """Make a proposed source the active version of its workflow, by its hash.

        It is refused if another version became active meanwhile, and to the token that proposed it.
        `grant` allows every capability it uses; `replay` allows a version that does things again,
        because a producer with a state or a topic with events has another name now. `rights` allows
        what it names, each with what was shown of it, as for a deploy.
        """
        # Rules: M6, G4, W9, A2.
        given = read_given(grant=grant, rights=rights)
        desk = self._desk()
        by = desk.action(by, "adopt").by
        row = await desk.look(partial(stored.get_proposal, proposal=str(proposal)))
        check_adopter(row.author, by, row.hash)
        source = Source(Language(row.language), row.source, f"{row.workflow} {row.hash[:8]}")
        draft = await deploy.examine(desk, source, strict=False)
        given.check(draft.capabilities)
        renames = await deploy.find_renames(desk, draft)
        if not replay:
            drafts.refuse(source, renames, strict=True)
        draft = replace(draft, findings=tidy((*draft.findings, *renames)))
        adopted = Adopted(row.hash, row.author, row.replaces)
        return await deploy.activate(desk, draft, by=by, given=given, adopted=adopted)


def make_row(
    tx: Transaction, *, draft: Draft, author: str, note: str, desk: Desk
) -> SourceProposal:
    """Write a draft down as a proposal over what is active now."""
    name, source = draft.declaration.name, draft.source
    found = people.find_workflow(tx, name)
    active = None if found is None else found.active_version
    return SourceProposal(
        hash=hash_proposal(name, active, source),
        workflow=name,
        replaces=active,
        language=source.language,
        source=source.text,
        findings=write_findings(draft.findings),
        uses=encode(sorted(draft.capabilities), limit_bytes=USES_BYTES_MAX),
        author=author,
        note=note,
        created_at=desk.now_ms,
    )


def show_row(row: SourceProposal, desk: Desk) -> ProposedSource:
    """Show a proposal without its text."""
    uses = decode(row.uses)
    assert isinstance(uses, list), uses
    sight = Sight.of(desk.parts)
    return ProposedSource(
        hash=row.hash,
        workflow=row.workflow,
        replaces=row.replaces,
        language=Language(row.language),
        author=row.author,
        note=sight.text(row.note),
        uses=tuple(map(str, uses)),
        findings=read_findings(row.findings),
        current=row.is_current,
        created_at=moment(row.created_at),
    )
