"""From one sentence to a proposal that a person can judge: a model writes, the host checks (M9).

Law 1: nothing is deployed and nothing is granted here. What is kept is a proposal, whose author is
       the model; a person who has seen the preview adopts it by its hash (M6).
Law 2: a model widens nothing. Its draft passes the strict check, or is refused with every reason
       (M1). It is told findings and lines, and nothing that a trial read.
Law 3: every question is counted before it leaves (M2), and there are at most `CORRECTIONS_MAX`
       corrections.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import partial

from duly.desk import deploy
from duly.desk.base import USER, Desk, find
from duly.desk.guide import Authors
from duly.desk.preview import Previews, TriedTwice, describe, find_untried, try_twice
from duly.desk.proposal import ProposedSource, make_row, show_row
from duly.desk.simulation import Simulated, sample_reads
from duly.engine.draft import Draft
from duly.engine.replay import replay
from duly.errors import DulyError, NotDeployed, RequestRefused
from duly.rules.model import Message, ModelQuestion, Purpose, Speaker
from duly.rules.preview import SourcePreview
from duly.rules.proposal import NOTE_CHARS_MAX, name_model
from duly.rules.replay import Replay
from duly.rules.source import Language, Source
from duly.rules.value import encode
from duly.rules.verb import Scope, act
from duly.rules.writing import (
    CORRECTIONS_MAX,
    WISH_CHARS_MAX,
    WRITES_MAX,
    DraftFlaw,
    DraftProblem,
    DraftRound,
    check_wish,
    find_block,
    find_flaws,
    must_correct,
)
from duly.script.finding import tidy
from duly.store import people
from duly.store import proposal as stored
from duly.store.base import Transaction
from duly.words.task import write_problems, write_task, write_wish

CRASHES = 10
NAMES_TOLD_MAX = 100
DETAIL_BYTES_MAX = 8 * WISH_CHARS_MAX


@dataclass(frozen=True, slots=True)
class WrittenProposal:
    """What a model wrote, as a proposal with all that a person needs to decide about it.

    `rounds` are its drafts. `untried` names reads that were not made before a person agreed.
    `simulated` is None where the host cannot simulate, `unproven` says why it was not. Of a change
    there are the difference, the capabilities that are used no more, and what past runs would have
    done with it.
    """

    proposal: ProposedSource
    preview: SourcePreview
    source: str
    rounds: tuple[DraftRound, ...]
    untried: tuple[str, ...]
    simulated: Simulated | None
    unproven: str | None
    diff: str
    unused: tuple[str, ...]
    what_if: Replay | None


@dataclass(frozen=True, slots=True)
class _Before:
    """The workflow that is to be changed."""

    id: str
    name: str
    version: str
    source: Source
    granted: frozenset[str]


class Writing(Previews, Authors):
    """The act of a person who has a wish and writes no code."""

    @act(
        scope=Scope.DECIDE,
        example={"wish": "Archive newsletters."},
    )
    async def write(
        self,
        wish: str,
        *,
        change: str | None = None,
        language: Language | None = None,
        model: str | None = None,
        by: str = USER,
    ) -> WrittenProposal:
        """Let a model write a workflow from a sentence, and keep it for a person to adopt.

        It is checked, corrected at most four times, tried with real reads and simulated; nothing
        is sent, deployed or granted. `change` names a workflow that is changed instead. `model`
        names one of the settings. What was read outside is not shown to the model.
        """
        # Rules: M1, M2, M6, M9.
        desk = self._desk()
        wish = check_wish(wish)
        desk.action(by, "write")
        if desk.parts.models is None:
            raise RequestRefused(code="model_missing", subject=str(model or Purpose.WRITE))
        before = None if change is None else await desk.look(partial(_find_before, name=change))
        spoken = Language(language or (before.source.language if before else Language.PYTHON))
        if len(desk.writing) >= WRITES_MAX:
            facts = {"limit": WRITES_MAX, "unit": "drafts"}
            raise RequestRefused(code="too_many", subject="write", facts=facts)
        turn = object()
        desk.writing.add(turn)
        try:
            author = _Author(desk, wish, spoken, await self.guide(spoken), before, model)
            good = await author.write()
            return await self._propose(author, good, by=by)
        finally:
            desk.writing.discard(turn)

    async def _propose(self, author: _Author, good: _Good, *, by: str) -> WrittenProposal:
        """Simulate a draft, compare it with the past, and keep it as a proposal."""
        desk, draft, before = author.desk, good.draft, author.before
        simulated, unproven = await self._crash(draft, good.tried)
        past = None
        if before is not None:
            assert draft.loaded is not None, draft.source.name
            past = await replay(desk.parts, before.id, draft.loaded)
        detail = encode({"wish": author.wish, "model": good.model}, limit_bytes=DETAIL_BYTES_MAX)
        action = desk.action(by, "write", detail)
        told = replace(draft, findings=tidy(await deploy.find_renames(desk, draft)))
        row = await desk.look(
            partial(
                make_row,
                draft=told,
                author=name_model(good.model),
                note=author.wish[:NOTE_CHARS_MAX],
                desk=desk,
            )
        )
        await desk.complete(
            partial(desk.parts.store.keep_proposal, row, action=action, now=desk.now_ms)
        )
        kept = await desk.look(partial(stored.get_proposal, proposal=row.hash))
        shown = await describe(desk, draft)
        tried = None if good.tried is None else good.tried.passes
        return WrittenProposal(
            proposal=show_row(kept, desk),
            preview=replace(shown, tried=tried, untried=good.untried),
            source=draft.source.text,
            rounds=tuple(author.rounds),
            untried=good.untried,
            simulated=simulated,
            unproven=unproven,
            diff="" if before is None else _diff(before, draft),
            unused=() if before is None else tuple(sorted(before.granted - draft.capabilities)),
            what_if=past,
        )

    async def _crash(
        self, draft: Draft, tried: TriedTwice | None
    ) -> tuple[Simulated | None, str | None]:
        """Crash a draft everywhere, with what its trial read; say why where that cannot be done."""
        if tried is None:
            return None, "not_tried"
        try:
            # What the trial did not read is not read here either: no person has agreed yet.
            answers = {**sample_reads(self._desk()), **tried.reads.answers}
            return await self.simulate(draft.source, answers=answers, crashes=CRASHES), None
        except DulyError as error:
            return None, error.code


def _find_before(tx: Transaction, name: str) -> _Before:
    """Read the workflow that is to be changed, as it is now."""
    found = find(tx, name)
    if found.active_version is None:
        raise RequestRefused(code="no_active_version", subject=name)
    row = people.get_version(tx, found.id, found.active_version)
    source = Source(Language(row.language), row.source, f"{name} {row.version}")
    granted = frozenset(each.capability for each in people.list_grants(tx, found.id))
    return _Before(found.id, name, row.version, source, granted)


def _diff(before: _Before, draft: Draft) -> str:
    lines = unified_diff(
        before.source.text.splitlines(),
        draft.source.text.splitlines(),
        f"{before.name} {before.version}",
        f"{before.name} {draft.source.hash[:8]}",
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Good:
    """A draft that may be proposed, and what its trial showed."""

    draft: Draft
    tried: TriedTwice | None
    untried: tuple[str, ...]
    model: str


class _Author:
    """One conversation with a model, until its draft is good or the corrections are used up."""

    def __init__(
        self,
        desk: Desk,
        wish: str,
        language: Language,
        guide: str,
        before: _Before | None,
        model: str | None,
    ) -> None:
        self.desk = desk
        self.wish = wish
        self.language = language
        self.before = before
        self.model = model
        self.rounds: list[DraftRound] = []
        self._instructions = write_task(guide, language, is_change=before is not None)

    async def write(self) -> _Good:
        """Ask for a draft, and for corrections; raise with every reason if none is good."""
        first = Message(Speaker.USER, await self._first())
        said: tuple[Message, ...] = (first,)
        shown: _Good | None = None
        for number in range(1, CORRECTIONS_MAX + 2):
            answer, model = await self._ask(said)
            problems, good = await self._judge(answer, model)
            self.rounds.append(DraftRound(number, problems))
            if good is not None and not problems:
                return good
            shown = good or shown
            told = Message(Speaker.USER, write_problems(problems))
            # Of older drafts nothing is repeated: each round costs about the same.
            said = (first, Message(Speaker.ASSISTANT, answer), told)
        if shown is not None:
            return shown
        last = self.rounds[-1].problems
        facts = {
            "rounds": len(self.rounds),
            "problems": [f"{each.rule}: {each.text}" for each in last],
        }
        raise NotDeployed(code="not_written", facts=facts)

    async def _first(self) -> str:
        if self.before is not None:
            return write_wish(self.wish, self.before.source.text, self.language, ())
        rows = await self.desk.look(lambda tx: people.list_workflows(tx, limit=NAMES_TOLD_MAX))
        return write_wish(self.wish, None, self.language, [each.name for each in rows])

    async def _ask(self, said: tuple[Message, ...]) -> tuple[str, str]:
        models = self.desk.parts.models
        assert models is not None
        question = ModelQuestion(Purpose.WRITE, self._instructions, said, model=self.model)
        # The host pays: a change that is written must not stop the workflow that runs (M2).
        answer = await models.ask(question)
        return answer.text, answer.model

    async def _judge(
        self, answer: str, model: str
    ) -> tuple[tuple[DraftProblem, ...], _Good | None]:
        """Check a draft, then try it; a draft with a problem that must be corrected is not good."""
        block = find_block(answer)
        if isinstance(block, DraftFlaw):
            return (DraftProblem(block, 0, "", block),), None
        desk = self.desk
        source = Source(self.language, block, "draft")
        try:
            draft = await deploy.examine(desk, source, strict=True)
        except NotDeployed as error:
            return tuple(_problem(each) for each in error.findings), None
        if (wrong := await self._name(draft)) is not None:
            return (wrong,), None
        if untried := find_untried(desk, draft):
            return (), _Good(draft, None, untried, model)
        tried = await try_twice(desk, draft, grant=True, is_judged=True)
        problems = find_flaws(tried.passes)
        good = None if must_correct(problems) else _Good(draft, tried, (), model)
        return problems, good

    async def _name(self, draft: Draft) -> DraftProblem | None:
        """Refuse a draft that would replace another workflow than the one to be changed."""
        name = draft.declaration.name
        if self.before is not None:
            is_kept = name == self.before.name
            flaw = DraftFlaw.OTHER_NAME
            return None if is_kept else DraftProblem(flaw, 0, self.before.name, flaw)
        found = await self.desk.parts.store.find_workflow(name)
        flaw = DraftFlaw.NAME_TAKEN
        return None if found is None else DraftProblem(flaw, 0, name, flaw)


def _problem(found: object) -> DraftProblem:
    rule, line = getattr(found, "rule", ""), getattr(found, "line", 0)
    sentence, advice = getattr(found, "sentence", str(found)), getattr(found, "suggestion", "")
    return DraftProblem(str(rule), int(line or 0), f"{sentence} {advice}".strip())
