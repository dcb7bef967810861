"""What a source would read and change, for a person who has not seen its code (M9).

Law 1: what stands in the text is certain and told first; what a trial observed is told apart (L11).
Law 2: nothing is stored and nothing is sent (`desk/trial.py`); what is shown has no secrets (A5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from duly.connectors.llm import find_asking
from duly.desk import deploy
from duly.desk.base import Desk
from duly.desk.deploy import GivenSource
from duly.desk.envelope import read_rights
from duly.desk.grant import find_chosen
from duly.desk.record import TriedChange
from duly.desk.trial import TrialPlay, Trials, set_up
from duly.desk.unadopted import foreign_tools, is_in_use, is_model_asked, judge_read
from duly.engine.draft import Draft
from duly.rules import schedule
from duly.rules.catalog import Tool, ToolKind, make_form
from duly.rules.permission import tell_asks
from duly.rules.portion import ITEMS_MAX, Portion, portion_of_inputs, portion_of_items
from duly.rules.preview import (
    CALLS_MAX,
    PLACES_MAX,
    READS_SHOWN_MAX,
    TIMES_SHOWN,
    AskedFor,
    ExampleChange,
    Filled,
    NextTimes,
    Passes,
    SourcePreview,
    Stop,
    ToolUse,
    TriedRead,
    WrittenCall,
    choose_examples,
    count_repeated,
    find_places,
    gather_values,
)
from duly.rules.redaction import redact, redact_text
from duly.rules.schedule import moment
from duly.rules.source import EXAMPLE
from duly.rules.value import Json, digest
from duly.rules.verb import Scope, check_right, question
from duly.rules.writing import find_open_reads

UNFOLLOWED: Final = frozenset({"hidden-use", "dynamic-name", "too-tangled"})
ANSWER_BYTES_KEPT: Final = 1024 * 1024  # of all reads of a trial together

ReadKey: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


class Previews(Trials):
    """The question of a person who decides about a source without reading it."""

    @question(scope=Scope.AGENT, follow=False, example={"source": EXAMPLE, "grant": True})
    async def preview(
        self,
        source: GivenSource,
        *,
        text_only: bool = False,
        grant: bool = False,
        right: Scope = Scope.ADMIN,
    ) -> SourcePreview:
        """Say in words what a source will read and change, when, and what it asks for.

        It is run once with real reads, as in a trial, and examples of its changes are
        shown; nothing is sent. `grant` allows the reads it uses, for this trial, and needs the
        scope decide. A source that is not in use yet is not tried if it would ask a model, or an
        address which it makes up.
        """
        # Rules: M9, A1, G4.
        if grant:
            check_right("preview", right, Scope.DECIDE)
        desk = self._desk()
        draft = await deploy.examine(desk, await deploy.read_source(desk, source), strict=False)
        shown = await describe(desk, draft)
        if text_only:
            return shown
        is_lent = grant and not all(each.is_granted for each in shown.capabilities)
        # Grants were given to the text in use; another one has the leave of no person yet.
        is_judged = is_lent or not await is_in_use(desk, draft)
        if is_judged and (untried := find_untried(desk, draft)):
            return replace(shown, untried=untried)
        twice = await try_twice(desk, draft, grant=is_lent, is_judged=is_judged)
        return replace(shown, tried=twice.passes)


# -- What stands in the text --------------------------------------------------------------------


async def describe(desk: Desk, draft: Draft) -> SourcePreview:
    """Say what a source will do, from its text and its declaration alone."""
    parts = desk.parts
    declaration, catalog = draft.declaration, parts.outside.catalog
    current = await parts.store.find_workflow(declaration.name)
    grants = () if current is None else await parts.store.list_grants(current.id)
    granted, chosen = {each.capability for each in grants}, find_chosen(grants)
    policies = (parts.policy.approvals, parts.policy_of(declaration.name).approvals)
    is_asking = bool((granted | draft.capabilities) & catalog.asking)
    names = sorted({name for used in draft.tools.values() for name in used})
    tools = [catalog.find(name) for name in names]
    uses = [
        ToolUse(
            tool=tool.name,
            capability=tool.capability,
            risk=tool.risk,
            calls=tuple(_show(desk, each) for each in draft.calls if each.tool == tool.name),
            asks=tell_asks(tool, *policies, chosen=chosen, may_ask_model=is_asking),
        )
        for tool in tools
    ]
    stands = await desk.ask(partial(read_rights, declaration.name, draft.capabilities))
    changing = {each.name for each in tools if each.kind is ToolKind.MUTATION}
    changed = {each.capability for each in tools if each.name in changing}
    limits = [each.mutations_per_day for each in grants if each.mutations_per_day is not None]
    secrets, places = parts.outside.secrets(), find_places(draft.source.text)
    return SourcePreview(
        workflow=declaration.name,
        hash=draft.source.hash,
        replaces=None if current is None else current.active_version,
        schedule=tuple(_next_times(desk, draft)),
        entries=tuple(each.name for each in declaration.topics if each.ingress or each.bus),
        reads=tuple(each for each in uses if each.tool not in changing),
        changes=tuple(each for each in uses if each.tool in changing),
        places=tuple(redact_text(each, secrets) for each in places),
        capabilities=tuple(
            AskedFor(each, each in granted, each in changed, stands[each].taken, stands[each].word)
            for each in sorted(draft.capabilities)
        ),
        changes_per_day=min(limits, default=None),
        is_cut=len(draft.calls) >= CALLS_MAX or len(places) >= PLACES_MAX or _hides(draft),
        lacking=draft.lacking,
        approvals=tuple(parts.policy.approvals.items()),
    )


def _hides(draft: Draft) -> bool:
    """Tell whether a text may call more than is listed, because it cannot be followed."""
    return any(each.rule in UNFOLLOWED for each in draft.findings)


def _show(desk: Desk, call: WrittenCall) -> WrittenCall:
    """Take secrets out of what a call writes down."""
    secrets = desk.parts.outside.secrets()
    args = tuple(
        Filled(
            redact_text(each.name, secrets),
            None if each.value is None else redact_text(each.value, secrets),
            tuple(redact_text(key, secrets) for key in each.taken_from),
        )
        for each in call.args
    )
    return replace(call, args=args)


def _next_times(desk: Desk, draft: Draft) -> Iterator[NextTimes]:
    zone = desk.parts.policy.timezone
    for producer in draft.declaration.producers:
        at: list[datetime] = []
        next_ms = schedule.next_run_at(producer.schedule, desk.now_ms, desk.now_ms, zone)
        while next_ms is not None and len(at) < TIMES_SHOWN:
            at.append(moment(next_ms))
            next_ms = schedule.next_run_at(producer.schedule, next_ms, next_ms, zone)
        yield NextTimes(schedule.plan(producer.name, producer.schedule), tuple(at))


# -- What a trial shows -------------------------------------------------------------------------


def find_untried(desk: Desk, draft: Draft) -> tuple[str, ...]:
    """List the reads because of which a source is not tried before a person agrees (M3, M9)."""
    catalog = desk.parts.outside.catalog
    mutations = frozenset(each.name for each in catalog.tools if each.kind is ToolKind.MUTATION)
    asking = tuple(each.tool for each in draft.calls if is_model_asked(desk, each.tool))
    # Of a text with more calls than are listed, one that is not listed may ask a model.
    hidden = find_asking(desk.parts.outside) if len(draft.calls) >= CALLS_MAX else ()
    used = {name for names in draft.tools.values() for name in names}
    asking += tuple(sorted(each for each in used if each.partition(".")[0] in hidden))
    found = find_open_reads(draft.calls, mutations, foreign_tools(desk))
    return tuple(dict.fromkeys((*asking, *found)))


@dataclass(slots=True)
class SeenReads:
    """What the trial of a source read, and what came back first for each tool.

    `calls` are those of its text, if no person has agreed to it yet: what it asks is judged then.
    """

    desk: Desk
    calls: tuple[WrittenCall, ...] | None = None
    times: Counter[ReadKey] = field(default_factory=Counter)
    items: dict[ReadKey, int | None] = field(default_factory=dict)
    answers: dict[str, Json] = field(default_factory=dict)
    found: dict[str, dict[str, Json]] = field(default_factory=dict)  # items, by tool and digest
    bytes_left: int = ANSWER_BYTES_KEPT

    async def look(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Ask the outside, and note what for."""
        parts = self.desk.parts
        if self.calls is not None:
            judge_read(self.desk, tool, args, self.calls)
        answer = await parts.outside.read(tool, args)
        shown = redact(dict(args), parts.outside.secrets())
        key = (tool.name, make_form(tool, shown if isinstance(shown, dict) else {}, is_brief=True))
        self.times[key] += 1
        self.items.setdefault(key, _count(answer))
        found = self.found.setdefault(tool.name, {})
        for each in (_items(answer) or ())[: ITEMS_MAX + 1]:
            if len(found) <= ITEMS_MAX:
                item = redact(each, parts.outside.secrets())
                found.setdefault(digest(item), item)
        size = len(repr(answer))
        if tool.name not in self.answers and size <= self.bytes_left:
            self.bytes_left -= size
            self.answers[tool.name] = answer
        return answer

    def tell(self) -> tuple[TriedRead, ...]:
        """List the reads that were made, those made most often first."""
        common = self.times.most_common(READS_SHOWN_MAX)
        return tuple(TriedRead(*key, times, self.items[key]) for key, times in common)


@dataclass(frozen=True, slots=True)
class TriedTwice:
    """What two passes showed, and what they stood on."""

    passes: Passes
    play: TrialPlay
    reads: SeenReads


async def try_twice(desk: Desk, draft: Draft, *, grant: bool, is_judged: bool) -> TriedTwice:
    """Run a source over today's data, and then once more over the same."""
    reads = SeenReads(desk, draft.calls if is_judged else None)
    play = await set_up(desk, draft, {}, grant=grant, look=reads.look)
    await play.run()
    changes, tools, published = tuple(play.changes), tuple(play.tools), len(play.published)
    over = len(play.over)
    is_cut, problems = play.is_cut, tuple(play.problems)
    told, portions = reads.tell(), tuple(_portions(play, reads))
    left_out = play.left_out
    again = 0 if is_cut or play.is_over else await play.run_again()
    names = [each.name for each in tools]
    passes = Passes(
        changes=tuple(Counter(names).items()),
        again=again,
        repeated=count_repeated((each.observed.tool, each.observed.args) for each in changes),
        published=published,
        is_cut=is_cut,
        reads=told,
        values=gather_values(
            (tool, change.observed.args if isinstance(change.observed.args, dict) else {})
            for tool, change in zip(tools, changes, strict=True)
        ),
        examples=tuple(_examples(choose_examples([*zip(changes, tools, strict=True)], names))),
        stops=tuple(
            Stop(each.handler, each.failure, each.sentence, each.line) for each in problems
        ),
        portions=portions,
        left_out=left_out,
        over=over,
    )
    return TriedTwice(passes, play, reads)


def _examples(chosen: Iterable[tuple[TriedChange, Tool]]) -> Iterator[ExampleChange]:
    for change, tool in chosen:
        args = change.observed.args
        yield ExampleChange(
            tool=tool.name,
            form=make_form(tool, args if isinstance(args, dict) else {}),
            claimed=change.claimed,
            inputs=change.inputs,
            needs_approval=change.needs_approval,
        )


def _portions(play: TrialPlay, reads: SeenReads) -> Iterator[Portion]:
    """Say how much of what was read, and of the inputs, goes on (M9)."""
    said: list[Json] = [each.observed.args for each in play.changes]
    for event in (*play.published, *play.over):
        said += [event.message_id, event.title, event.payload]
    for tool, items in reads.found.items():
        portion = portion_of_items(tool, [*items.values()], said)
        if portion is not None:
            yield portion
    inputs = {
        (each.topic, each.message_id): (each.title, (each.topic, each.message_id) in play.led_on)
        for each in play.published
    }
    portion = portion_of_inputs([*inputs.values()])
    if portion is not None:
        yield portion


def _items(answer: Json) -> list[Json] | None:
    """Return what a read brought, where it is a list or a page."""
    found = answer.get("items") if isinstance(answer, dict) else answer
    return found if isinstance(found, list) else None


def _count(answer: Json) -> int | None:
    found = _items(answer)
    return None if found is None else len(found)
