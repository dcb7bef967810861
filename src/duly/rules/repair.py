"""Asking for a repair, and judging one (F3, A2, W8).

Law 1  A repairer proposes; the rules decide. Its version is adopted only if it checks clean, asks
       for nothing that is not granted, leaves nothing out and changes nothing that was done.
Law 2  Asking is bounded, for one failure and for one day of a workflow; failed questions count.
Law 3  What is not adopted has a reason, a code with facts, and is kept if it could be run at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from duly.errors import ConfigError
from duly.fact import Reason
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


# Something a version does, to be said: its kind, the name of its handler or topic, and more.
Deed: TypeAlias = Mapping[str, str]


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
    workflow_id: str = ""


class Repairer(Protocol):
    """Writes a corrected source: a language model, a rule, a person at a terminal."""

    async def repair(self, case: RepairCase) -> Source | None:
        """Return a corrected source, or nothing."""


def check_repairer(repairer: Repairer | None) -> Repairer | None:
    """Refuse what cannot be asked when the host is built, not when the first script fails."""
    if repairer is not None and not callable(getattr(repairer, "repair", None)):
        raise ConfigError(code="not_repairer", subject=type(repairer).__name__)
    return repairer


# -- How often one may ask ----------------------------------------------------------------------


def asked_today(repairs: int, since_ms: int, now_ms: int) -> int:
    """Return how often a repair was asked for in the day that began with the first question."""
    # A day that begins more than a day from now was begun by a clock that was wrong.
    return repairs if abs(now_ms - since_ms) < DAY_MS else 0


def ask_refusal(
    counts: Counts, asked_of_day: int, *, chain_max: int, day_max: int, has_repairer: bool
) -> Reason | None:
    """Return why no repair is asked for any more, or None (F3)."""
    if not has_repairer:
        return Reason("no_repairer")
    if not (chain_max and day_max):
        return Reason("repairs_off")
    if counts.repair >= chain_max:
        return Reason("chain_used_up", facts={"count": counts.repair})
    if asked_of_day >= day_max:
        return Reason("day_used_up", facts={"count": asked_of_day})
    return None


# -- Whether it is adopted ----------------------------------------------------------------------


def adoption_refusal(
    old: Declaration,
    new: Declaration,
    *,
    findings: Iterable[str],
    used: frozenset[str],
    granted: frozenset[str],
) -> Reason | None:
    """Return why a version that could be run is not adopted, or None (F3, A2, W5)."""
    if missing := missing_capabilities(granted, used):
        return Reason("needs_grants", facts={"names": missing})
    if lost := left_out(old, new):
        return Reason("leaves_out", facts={"deeds": lost})
    if more := added(old, new):
        return Reason("adds", facts={"deeds": more})
    if said := " ".join(findings):
        return Reason("not_clean", facts={"said": cut(said)})
    return None


@dataclass(frozen=True, slots=True)
class Surprise:
    """A use of clock or dice: the line of the new text, and the word that gives it away."""

    line: int
    word: str


def surprise_refusal(
    asked: tuple[Surprise, ...], risky: Mapping[tuple[str, Step], tuple[str, ...]]
) -> Reason | None:
    """Return what in a repair no past run can show, or None (F3).

    `asked` are the uses of clock and dice that the failed version had not, `risky` the steps it
    changes that call tools of high risk, with these tools.
    """
    if asked:
        word, line = asked[0].word[:SAID_CHARS], asked[0].line
        return Reason("asks_by_chance", facts={"word": word, "line": line, "more": len(asked) - 1})
    if risky:
        (handler, step), tools = next(iter(risky.items()))
        facts = {"handler": handler, "step": str(step), "names": tools}
        return Reason("changes_risky_step", facts=facts)
    return None


def left_out(old: Declaration, new: Declaration) -> tuple[Deed, ...]:
    """List what the failing version does and a repair would not do any more (W9)."""
    still = _does(new)
    return tuple(deed for does, deed in _does(old).items() if does not in still)


def added(old: Declaration, new: Declaration) -> tuple[Deed, ...]:
    """List the changes and the ways in that a repair would bring along.

    What lies in a topic, outputs too, would come to a change that was never made of it (W9).
    """
    before = _does(old)
    changing = {each.name for each in new.consumers if Step.MUTATE in each.steps}
    return tuple(
        does
        for (deed, name, more), does in _does(new).items()
        if (deed, name, more) not in before
        and (deed in ("way", Step.MUTATE) or (deed == "subscribe" and name in changing))
    )


def _does(declaration: Declaration) -> dict[tuple[str, str, object], Deed]:
    """List all that a user would miss, by what it is."""
    does: dict[tuple[str, str, object], Deed] = {}

    def note(deed: str, name: str, more: object = None, **facts: str) -> None:
        does[deed, name, more] = {"deed": deed, "name": name, **facts}

    for producer in declaration.producers:
        note("produce", producer.name)
        # A producer that is never due again also stops failing; that is no repair.
        if producer.schedule != MANUAL:
            note("schedule", producer.name, producer.schedule)
    for consumer in declaration.consumers:
        for topic in consumer.subscribe:
            note("subscribe", consumer.name, topic, topic=topic)
        # A consumer that changes nothing any more would let events end as if it had been done.
        for step in (Step.MUTATE, Step.NEXT):
            if step in consumer.steps:
                note(str(step), consumer.name)
    for each in declaration.topics:
        if each.ingress or each.bus is not None:
            note("way", each.name, each.bus)
    return does


def replay_refusal(replay: Replay, said: str) -> Reason | None:
    """Return what a repair would do otherwise than it was done, or None (F3).

    `said` is the first difference in words.
    """
    if replay.is_same:
        return None
    more = len(replay.differences) - 1
    return Reason("does_otherwise", facts={"said": cut(said), "more": more})


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
