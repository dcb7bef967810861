"""Asking for a repair, and judging one (F3, A2, W8).

Law 1  A repairer proposes; the rules decide. Its version is adopted only if it checks clean, asks
       for nothing that is not granted, leaves nothing out and changes nothing that was done.
Law 2  Asking is bounded, for one failure and for one day of a workflow; failed questions count.
Law 3  What is not adopted is explained in one sentence, and kept if it could be run at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from duly.rules import shown
from duly.rules.access import Step
from duly.rules.declaration import Declaration
from duly.rules.lifecycle import Counts
from duly.rules.permission import missing_capabilities
from duly.rules.replay import Replay
from duly.rules.schedule import DAY_MS, MANUAL
from duly.rules.source import Source
from duly.rules.value import Json
from duly.rules.word import Phase

REASON_CHARS: Final = 1000  # of a reason that a repairer worded
SAID_CHARS: Final = 80  # of a word out of a script
# A block of code as language models write one: between two lines of three backticks.
FENCED: Final = re.compile(r"^```[^`\n]*\n(.*?)^```[ \t\r]*$", re.MULTILINE | re.DOTALL)

# Where a script can fail, by how far its run got (F1).
STEP_AT: Final[Mapping[Phase, Step]] = {
    Phase.EXECUTING: Step.PRODUCE,
    Phase.PREPARING: Step.PREPARE,
    Phase.MUTATING: Step.MUTATE,
    Phase.EMITTING: Step.NEXT,
}


# -- The case -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RepairError:
    """What went wrong: the message, the line of the source, and the call it struck, if one."""

    message: str
    line: int | None = None
    tool: str | None = None
    args: str = "{}"


@dataclass(frozen=True, slots=True)
class RepairInput:
    """An event the failed step worked on, or would have been offered."""

    topic: str
    message_id: str
    title: str
    payload: Json


@dataclass(frozen=True, slots=True)
class RepairCase:
    """Everything a repairer is told of a failure; no secret is in it (A5).

    `prepared` is what `prepare` had returned, if the step came after it. `tools` are the types of
    `ctx` in the language of the source. `attempt` is how many times this failure was brought to
    a repairer, this time included, of at most `budget`.
    """

    workflow: str
    version: str
    source: Source
    handler: str
    step: Step
    error: RepairError
    logs: tuple[str, ...]
    inputs: tuple[RepairInput, ...]
    prepared: Json
    tools: str
    findings: tuple[str, ...]
    granted: tuple[str, ...]
    attempt: int
    budget: int


class Repairer(Protocol):
    """Writes a corrected source: a language model, a rule, a person at a terminal."""

    async def repair(self, case: RepairCase) -> Source | None:
        """Return a corrected source, or nothing."""


# -- How often one may ask ----------------------------------------------------------------------


def asked_today(repairs: int, since_ms: int, now_ms: int) -> int:
    """Return how often a repair was asked for in the day that began with the first question."""
    # A day that begins more than a day from now was begun by a clock that was wrong.
    return repairs if abs(now_ms - since_ms) < DAY_MS else 0


def ask_refusal(
    counts: Counts, asked_of_day: int, *, chain_max: int, day_max: int, has_repairer: bool
) -> str | None:
    """Say why the repairer is not asked any more, or None (F3)."""
    if not has_repairer:
        return "there is no repairer."
    if not (chain_max and day_max):
        return "the policy allows no repairs."
    if counts.repair >= chain_max:
        return f"a repair was asked for {_times(counts.repair)}, which is all the policy allows."
    if asked_of_day >= day_max:
        return (
            f"a repair was asked for {_times(asked_of_day)} within a day, "
            "which is all the policy allows."
        )
    return None


# -- Whether it is adopted ----------------------------------------------------------------------


def adoption_refusal(
    old: Declaration,
    new: Declaration,
    *,
    findings: Iterable[str],
    used: frozenset[str],
    granted: frozenset[str],
) -> str | None:
    """Say why a version that could be run is not adopted, or None (F3, A2, W5)."""
    if missing := missing_capabilities(granted, used):
        verb = "is" if len(missing) == 1 else "are"
        return f"it needs {_list(missing)}, which {verb} not granted."
    if lost := left_out(old, new):
        return f"it leaves out {_list(lost)}, and what waits there would be left lying."
    if more := added(old, new):
        return f"it adds {_list(more)}, which only a person may."
    if said := " ".join(findings):
        return f"it does not check clean: {cut(said)}"
    return None


@dataclass(frozen=True, slots=True)
class Surprise:
    """A use of clock or dice: the line of the new text, and the word that gives it away."""

    line: int
    word: str


def surprise_refusal(
    asked: tuple[Surprise, ...], risky: Mapping[tuple[str, Step], tuple[str, ...]]
) -> str | None:
    """Say what in a repair no past run can show, or None (F3).

    `asked` are the uses of clock and dice that the failed version had not, `risky` the steps it
    changes that call tools of high risk, with these tools.
    """
    if asked:
        first = asked[0]
        more = len(asked) - 1
        rest = f" and in {more} more place{'s' * (more > 1)}" if more else ""
        return (
            "it asks the clock or the dice where the failed version did not: "
            f"“{first.word[:SAID_CHARS]}” on line {first.line}{rest}."
        )
    if risky:
        (handler, step), tools = next(iter(risky.items()))
        return f"it changes {handler}.{step}, which calls {_list(tools)}, a tool of high risk."
    return None


def left_out(old: Declaration, new: Declaration) -> tuple[str, ...]:
    """List what the failing version does and a repair would not do any more (W9)."""
    still = _does(new)
    return tuple(said for deed, said in _does(old).items() if deed not in still)


def added(old: Declaration, new: Declaration) -> tuple[str, ...]:
    """List the changes and the ways in that a repair would bring along.

    What lies in a topic, outputs too, would come to a change that was never made of it (W9).
    """
    before = _does(old)
    changing = {each.name for each in new.consumers if Step.MUTATE in each.steps}
    return tuple(
        said
        for (deed, name, more), said in _does(new).items()
        if (deed, name, more) not in before
        and (deed in ("way", Step.MUTATE) or (deed == "subscribe" and name in changing))
    )


def _does(declaration: Declaration) -> dict[tuple[str, str, object], str]:
    """Name all that a user would miss if a repair left it out, by what it is."""
    does: dict[tuple[str, str, object], str] = {}
    for producer in declaration.producers:
        name = producer.name
        does["produce", name, None] = f"“{name}”"
        # A handler that never runs again also stops failing; a repair must not "fix" it that way.
        if producer.schedule != MANUAL:
            does["schedule", name, producer.schedule] = f"the schedule of “{name}”"
    for consumer in declaration.consumers:
        name = consumer.name
        for topic in consumer.subscribe:
            does["subscribe", name, topic] = f"“{name}” for “{topic}”"
        # A consumer that changes nothing any more would end its events as if it had worked.
        if Step.MUTATE in consumer.steps:
            does[Step.MUTATE, name, None] = f"the change “{name}” makes"
        if Step.NEXT in consumer.steps:
            does[Step.NEXT, name, None] = f"what follows “{name}”"
    for each in declaration.topics:
        if each.ingress or each.bus is not None:
            does["way", each.name, each.bus] = f"the way into “{each.name}”"
    return does


def replay_refusal(replay: Replay) -> str | None:
    """Say what a repair would do otherwise than it was done, or None (F3)."""
    if replay.is_same:
        return None
    more = len(replay.differences) - 1
    rest = f" (and {more} more)" if more else ""
    return cut(f"it would not do again what was done. {replay.differences[0].sentence}{rest}")


def next_repair(failed: str, known: Iterable[str]) -> str:
    """Number a repair: the next minor one of the major that failed, proposals counted (W8)."""
    major = failed.partition(".")[0]
    minors = [
        int(minor)
        for number in (failed, *known)
        for found, _, minor in (number.partition("."),)
        if found == major
    ]
    return f"{major}.{max(minors) + 1}"


def find_script(answer: str) -> str:
    """Return the script in what an agent said: its only fenced block, else all of it."""
    blocks = FENCED.findall(answer)
    return blocks[0] if len(blocks) == 1 else answer


# -- Words --------------------------------------------------------------------------------------


def cut(text: str) -> str:
    """Keep a readable part of words that may be long."""
    return shown.cut(text, REASON_CHARS)


def _list(names: tuple[str, ...]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
