"""The parts of sentences: each is made from facts by one function, and empty without them.

Law 1  Of a change the call that was seen comes first; what the script calls it is marked (L11).
Law 2  A fact that has no function of its own here is ours: a number, a name, a version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from duly.rules.shown import cut, visible
from duly.words.history import RUN_IS, say_act
from duly.words.late import say_all_late
from duly.words.noun import are_several, say_counts, say_list
from duly.words.phrase import Clock, capital, in_quotes, name_all, person, quote
from duly.words.repair import say_unrepaired
from duly.words.template import fill
from duly.words.trial import say_broken, say_left_out, say_over, say_would

Facts = Mapping[str, Any]

WHOLE_CHARS_MAX: Final = 600  # of a message with what to do in it
DOING: Final[Mapping[str, str]] = {
    "checking": "checking for something new",
    "choosing": "choosing what to work on next",
    "working": "working on {subject}",
    "finishing": "finishing {subject}",
    "finishing_applied": "finishing {subject}, whose change is done",
    "finishing_rejected": "finishing {subject}, whose change was rejected",
    "finishing_skipped": "finishing {subject}, whose change was skipped",
}
# How an outcome became known (L12); that nothing was sent is said before.
KNOWN: Final[Mapping[str, str]] = {
    "answered": "[Nothing was sent.{?unsent}|The outside answered[: {known_said}].]",
    "asked": "Duly asked the outside[, which said: {known_said}].",
    "sent_again": "Duly sent it again and got an answer[: {known_said}].",
    "settled": "Settled by {known_by}[ as {known_said}].",
    "unsent": "[The reason given: {known_said}.]",
}
# What is left of a run that a person ended, by what the ledger says of its call (R9).
LEFT: Final[Mapping[str, str]] = {
    "applied": "{made} is done and stays so",
    "rejected": "{made} was rejected and not sent",
    "skipped": "it is left open whether {made} happened",
    "nothing": "nothing was changed[ for {inputs}]",
}
PAUSED: Final = (
    "[the store has lost its log and knows nothing newer than {copied_at}{?log_lost}"
    "|the server lost changes that it had confirmed and knows nothing newer than {copied_at}"
    "{?writes_lost}"
    "|a standby was promoted that lacks confirmed changes and knows nothing newer than {copied_at}"
    "{?standby_behind}"
    "|a standby was promoted that may lack what is newer than {copied_at}{?standby_promoted}"
    "|the workflow was imported from a file of {copied_at} and knows nothing newer{?imported}"
    "|the workflow was handed over to another store at {copied_at}{?handed_over}"
    "|the workflow was restored from a backup of {copied_at} and knows nothing newer"
    "|the workflow was paused by {paused_by}[ on {paused_since}]]"
)
BLOCKED: Final = "{name} is blocked[; {behind} behind this]."
SCHEDULE: Final = "its schedule"


def fill_with(template: str, facts: Facts, clock: Clock) -> str:
    """Fill a template with the parts that facts give."""

    def part(name: str) -> str:
        if name in PARTS:
            return PARTS[name](facts, clock)
        value = facts.get(name)
        return "" if value is None or value is False else visible(str(value))

    return fill(template, part)


def _short(facts: Facts, _: Clock) -> str:
    """The outside change; before there is a call, the script's word for it."""
    tool, title = facts.get("tool"), facts.get("title")
    claimed = in_quotes(title) if title else ""
    if tool:
        said = f"{visible(tool)} (claimed: {claimed})" if claimed else visible(tool)
    else:
        said = claimed or "a change"
    return said


def _made(facts: Facts, clock: Clock) -> str:
    subject = _inputs(facts, clock)
    return f"{_short(facts, clock)} for {subject}" if subject else _short(facts, clock)


def _change(facts: Facts, clock: Clock) -> str:
    """The same in the middle of a sentence; commas keep “and 2 more” apart from what follows."""
    if len(facts.get("inputs", ())) < 2:
        return _made(facts, clock)
    return f"{_short(facts, clock)}, for {_inputs(facts, clock)},"


def _inputs(facts: Facts, _: Clock) -> str:
    return name_all(facts.get("inputs", ()), facts.get("more_inputs", 0))


def _name(facts: Facts, _: Clock) -> str:
    name = facts.get("workflow")
    return in_quotes(name) if name else "the workflow"


def _time(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, clock: clock.say(_read_time(facts[name])) if name in facts else ""


def _wait(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, clock: clock.say_wait(_read_time(facts[name])) if name in facts else ""


def _read_time(value: datetime | str) -> datetime:
    """Read a time; one that was kept as JSON is text."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _table(table: Mapping[str, str], name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, clock: fill_with(table[facts[name]], facts, clock) if name in facts else ""


def _quoted(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: quote(facts.get(name, ""))


def _titled(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: in_quotes(facts[name]) if facts.get(name) else ""


def _row(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: say_list([visible(each) for each in facts.get(name, ())])


def _person(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: person(facts[name]) if facts.get(name) else ""


def _counts(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: say_counts(facts.get(name, ()))


def _behind(facts: Facts, _: Clock) -> str:
    """Say what waits until a run moves: inputs, and the schedule (F6)."""
    counts = facts.get("pending", ())
    waiting = [
        each for each in (say_counts(counts), SCHEDULE * bool(facts.get("schedule"))) if each
    ]
    verb = "wait" if len(waiting) > 1 or are_several(counts) else "waits"
    return f"{' and '.join(waiting)} {verb}" if waiting else ""


def _unended(name: str) -> Callable[[Facts, Clock], str]:
    return lambda facts, _: visible(str(facts.get(name, ""))).rstrip(". ")


def _paused(facts: Facts, clock: Clock) -> str:
    return fill_with(PAUSED, facts, clock) if {"paused_by", "copied_at"} & set(facts) else ""


PARTS: Final[Mapping[str, Callable[[Facts, Clock], str]]] = {
    "change": _change,
    "made": _made,
    "short": _short,
    "call": lambda facts, clock: ("the call " * bool(facts.get("tool"))) + _change(facts, clock),
    "subject": lambda facts, clock: _inputs(facts, clock) or "its next input",
    "inputs": _inputs,
    "name": _name,
    "whole": lambda facts, clock: (
        f"the workflow {_name(facts, clock)}" if facts.get("workflow") else "the workflow"
    ),
    "there": lambda facts, _: visible(facts.get("service") or "the service"),
    "lacking": lambda facts, _: visible(facts.get("needs") or "what it needs"),
    "doing": _table(DOING, "doing"),
    "paused": _paused,
    "stopped": lambda facts, clock: capital(_paused(facts, clock)),
    "blocked": lambda facts, clock: (
        capital(fill_with(BLOCKED, facts, clock)) if facts.get("blocks") else ""
    ),
    "message": _quoted("message"),
    "error": _quoted("error"),
    "tried_error": _quoted("tried_error"),
    "tried_at": _time("tried_at"),
    "tried_by": _person("tried_by"),
    "whole_message": lambda facts, _: (
        in_quotes(cut(facts["message"].rstrip(". "), WHOLE_CHARS_MAX))
        if facts.get("message")
        else ""
    ),
    "suspect": _titled("suspect"),
    "oldest": _titled("oldest"),
    "secret": _titled("secret"),
    "receiver": _titled("receiver"),
    "pending": _counts("pending"),
    "behind": _behind,
    "counts": _counts("counts"),
    "tools": _row("tools"),
    "hosts": _row("hosts"),
    "retry_in": lambda facts, clock: _wait("retry_at")(facts, clock) or "now",
    "check_in": _wait("check_at"),
    "wake_in": _wait("wake_at"),
    "held_in": _wait("held_until"),
    "copied_at": _time("copied_at"),
    "paused_since": _time("paused_since"),
    "waits_until": _time("waits_until"),
    "unreachable_since": _time("unreachable_since"),
    "since": _time("since"),
    "at": _time("at"),
    "paused_by": _person("paused_by"),
    "by": _person("by"),
    "known": _table(KNOWN, "known"),
    "run_is": _table(RUN_IS, "status"),
    "acted": lambda facts, _: capital(visible(say_act(str(facts.get("act", ""))))),
    "known_by": lambda facts, _: person(facts.get("known_by") or "a person"),
    "known_said": _titled("known_said"),
    "note": _titled("note"),
    "left": _table(LEFT, "left"),
    "late": lambda facts, clock: say_all_late(
        facts.get("late"), clock, visible(facts.get("tool") or "")
    ),
    "said": _unended("said"),
    "errors": _unended("errors"),
    "would": lambda facts, _: visible(say_would(facts)),
    "untried": lambda facts, _: visible(say_list(facts["untried"])) if facts.get("untried") else "",
    "over": lambda facts, _: visible(say_over(facts["over"])) if facts.get("over") else "",
    "left_out": lambda facts, _: visible(say_left_out(facts.get("left_out", ()))),
    "broken": lambda facts, _: visible(say_broken(facts)),
    "unrepaired": lambda facts, _: (
        visible(say_unrepaired(facts["unrepaired"])) if facts.get("unrepaired") else ""
    ),
    "subscribers": lambda facts, _: visible(" and ".join(facts.get("subscribers", ()))),
}
