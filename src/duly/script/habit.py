"""Finds wrong assumptions of a step about what it is given, for both languages (W5).

Law 1: a step is read on its own, from what the host passes to it: its state, the result of prepare,
       the outcome, events, pages. Only uses of these by name are followed.
Law 2: a step that tests a value at all is believed: there is no finding about that value.

A reader (`habit_python`, `habit_javascript`) notes which parts a step reads; each part of the text
is read once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from duly.rules.access import Step
from duly.rules.source import Language
from duly.rules.value import DEFAULT_LIMITS
from duly.script.finding import Finding, found
from duly.script.outline import Handler, Outline, Place, Value

# The path to a value from what the host gave: ("state", "cursor"), ("event", "mail", "payload").
Way: TypeAlias = "tuple[str, ...]"
STATE, PREPARED, RESULT, CTX = "state", "prepared", "result", "ctx"
EVENTS, EVENT, PAGE, LIST = "events", "event", "page", "list"

# What each step is given, after ctx (C4, C8, C10, P2).
GIVEN: Final = {
    Step.PRODUCE: (CTX, STATE),
    Step.PREPARE: (CTX, STATE),
    Step.MUTATE: (CTX, PREPARED),
    Step.NEXT: (CTX, PREPARED, RESULT, STATE),
}
PEEK_LIMIT_MAX: Final = DEFAULT_LIMITS.peek_events
OUTCOME: Final = ("status", "result")
OWN_CALLS: Final = frozenset({"peek", "getByIds", "get_by_ids"})


@dataclass(frozen=True, slots=True)
class Look:
    """A part that a step reads; `is_safe` if a missing part does no harm."""

    place: Place
    way: Way
    is_safe: bool = False


@dataclass(frozen=True, slots=True)
class HabitFault:
    """A mistake that the reader itself can see, by the name of its rule."""

    rule: str
    place: Place
    sentence: str
    suggestion: str


@dataclass(slots=True)
class HabitFacts:
    """What one step does with what it was given; `asked` are the values it tests."""

    step: Step
    place: Place
    looks: list[Look] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    faults: list[HabitFault] = field(default_factory=list)
    members: dict[str, Place] = field(default_factory=dict)  # names that are asked for a member
    adds: set[str] = field(default_factory=set)  # names that something is added to
    others: set[str] = field(default_factory=set)  # names that are used in any other way
    days: list[Place] = field(default_factory=list)  # publishes that are named by the clock

    def look(self, place: Place, way: Way, *, is_safe: bool = False) -> None:
        """Note a part that is read."""
        self.looks.append(Look(place, way, is_safe))

    def fault(self, rule: str, place: Place, sentence: str, suggestion: str) -> None:
        """Note a mistake."""
        self.faults.append(HabitFault(rule, place, sentence, suggestion))


def part_of(way: Way | None, name: str) -> Way | None:
    """Return the way to a named part."""
    return None if way is None or way[0] in (EVENTS, LIST) else (*way, name)


def element_of(way: Way | None) -> Way | None:
    """Return the way to an element of a list."""
    if way is None:
        return None
    if way[0] == EVENTS:
        return (EVENT, *way[1:])
    return way[1:] if way[0] == LIST else None


def judge_habits(
    outline: Outline, facts: Iterable[HabitFacts], shared: Container[str] = frozenset()
) -> list[Finding]:
    """Judge what the steps of an outline assume; `shared` are names of the module."""
    by_place = {each.place: each for each in facts}
    findings: list[Finding] = []
    for handler in outline.handlers:
        for key in handler.steps.values():
            known = by_place.get(outline.functions[key].place)
            if known is None:
                continue
            for fault in (*_faults(outline, handler, known), *_memory(known, shared)):
                place = fault.place
                findings.append(
                    found(
                        fault.rule,
                        place.line,
                        place.column,
                        fault.sentence,
                        fault.suggestion,
                        file=outline.file,
                    )
                )
    return findings


def _faults(outline: Outline, handler: Handler, facts: HabitFacts) -> Iterator[HabitFault]:
    yield from facts.faults
    yield from _state(outline, facts)
    yield from _outcome(outline, facts)
    yield from _at_deploy(outline, handler, facts)
    if facts.step is Step.NEXT:
        yield from _empty_look(outline, handler, facts)


def _memory(facts: HabitFacts, shared: Container[str]) -> Iterator[HabitFault]:
    """Find a variable of the module in which a step remembers what it has seen (C1).

    A cache is also read, within the step. A variable that is only added to and asked for members is
    meant to keep its content until the next run.
    """
    for name, place in facts.members.items():
        if name in facts.adds and name not in facts.others and name in shared:
            yield HabitFault(
                "shared-global",
                place,
                f"{name} is empty at the beginning of every run, so it never remembers anything.",
                "Remove it: a message id that was published is not published again. Return what"
                " must be kept as state.",
            )


def _state(outline: Outline, facts: HabitFacts) -> Iterator[HabitFault]:
    """Find a read of the state, although there is none in the first run (P2)."""
    if STATE in facts.asked:
        return
    first = next((e for e in facts.looks if e.way[0] == STATE and not e.is_safe), None)
    if first is not None:
        example = (
            "state?.cursor"
            if outline.language is Language.JAVASCRIPT
            else '(state or {}).get("cursor")'
        )
        yield HabitFault(
            "no-state-yet",
            first.place,
            "There is no state in the first run, so this fails then.",
            f"Write {example}, or test state before.",
        )


def _at_deploy(outline: Outline, handler: Handler, facts: HabitFacts) -> Iterator[HabitFault]:
    """Find a daily event that is made as soon as the producer is deployed (W2)."""
    if not handler.is_daily_at_deploy or not facts.days:
        return
    word = "onDeploy: false" if outline.language is Language.JAVASCRIPT else "on_deploy=False"
    yield HabitFault(
        "runs-at-deploy",
        facts.days[0],
        f"{handler.name} is due as soon as it is deployed, so the event of that day is made"
        " then and not at its time.",
        f"Write {word} beside cron; write true if you want it.",
    )


def _outcome(outline: Outline, facts: HabitFacts) -> Iterator[HabitFault]:
    """Find a part of a mutation's result that is read from the outcome itself (C10)."""
    is_javascript = outline.language is Language.JAVASCRIPT
    for look in facts.looks:
        if look.way[0] == RESULT and look.way[1] not in OUTCOME:
            name = look.way[1]
            inside = f"result.result.{name}" if is_javascript else f'result["result"]["{name}"]'
            yield HabitFault(
                "wrong-type",
                look.place,
                f"The outcome has status and result; {name} is not there.",
                f"Write {inside}, once the status is applied.",
            )


def _empty_look(outline: Outline, handler: Handler, facts: HabitFacts) -> Iterator[HabitFault]:
    """Find a read of `data` in `next`, which also runs when prepare reserved nothing (C7)."""
    if facts.asked & {PREPARED, RESULT} or Step.PREPARE not in handler.steps:
        return
    answers = outline.functions[handler.steps[Step.PREPARE]].results
    empty = [names for each in answers if (names := _empty_data(each)) is not None]
    for look in facts.looks:
        if look.is_safe or look.way[:2] != (PREPARED, "data") or len(look.way) < 3:
            continue
        name = look.way[2]
        if any(name not in names for names in empty):
            status = (
                "result.status" if outline.language is Language.JAVASCRIPT else 'result["status"]'
            )
            yield HabitFault(
                "empty-look",
                look.place,
                f"next also runs when prepare reserved nothing, and then data has no {name}.",
                f'Test it first: {status} is "none" then.',
            )
            return


def _empty_data(answer: Value) -> frozenset[str] | None:
    """Return the names in the data of a result that reserves nothing; None for any other."""
    fields = answer.fields or {}
    reservations, data = fields.get("reservations"), fields.get("data")
    if reservations is None or reservations.items != () or reservations.is_open or answer.is_open:
        return None
    if data is None:
        return frozenset()
    return None if data.fields is None or data.is_open else frozenset(data.fields)


# -- What both readers ask --------------------------------------------------------------------


def judge_own_call(
    facts: HabitFacts, place: Place, name: str, *, extra: bool, limit: float | None
) -> None:
    """Judge a peek: its limit is passed by name, and is not too high (T6)."""
    if name != "peek":
        return
    if extra:
        facts.fault(
            "wrong-argument",
            place,
            "The limit of ctx.peek is passed by name.",
            'Write ctx.peek("…", limit=10) in Python, ctx.peek("…", { limit: 10 }) in JavaScript.',
        )
    if limit is not None and not 1 <= limit <= PEEK_LIMIT_MAX:
        facts.fault(
            "wrong-argument",
            place,
            f"A peek takes a limit of 1 to {PEEK_LIMIT_MAX}, not {limit:g}.",
            "Take fewer; what is left stays pending and is offered again.",
        )


def judge_ids(facts: HabitFacts, place: Place, way: Way | None, *, is_list: bool) -> None:
    """Judge the ids of a reservation: they are message ids of events, in a list (C4)."""
    inner = element_of(way) if way is not None and way[0] in (LIST, EVENTS) else way
    is_many = is_list or (way is not None and way[0] in (LIST, EVENTS))
    if inner is None or inner[0] != EVENT:
        return
    if len(inner) == 2:
        facts.fault(
            "wrong-result",
            place,
            "A reservation names message ids, not events.",
            "Write the message id of each: event.messageId, event['message_id'].",
        )
    elif inner[2] == "payload":
        facts.fault(
            "wrong-id",
            place,
            "A reservation names message ids, and this id comes from the payload.",
            "Write the message id of the event: event.messageId, event['message_id'].",
        )
    elif not is_many:
        facts.fault(
            "wrong-result", place, "The ids of a reservation are a list.", "Put it into [ ]."
        )


def judge_reservation_shape(facts: HabitFacts, place: Place, names: frozenset[str] | None) -> None:
    """Judge one reservation; `names` are its fields, None where it is not an object."""
    if names is not None and {"topic", "ids"} <= names:
        return
    facts.fault(
        "wrong-result",
        place,
        "A reservation is an object with topic and ids.",
        'Write {"topic": "…", "ids": [event.messageId]} for each topic.',
    )
