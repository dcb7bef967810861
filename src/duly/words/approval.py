"""When a person is asked before a change, by which rule, and where the rule is changed (A3).

Law: it is always said, also where no person is asked; silence would be read as either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from duly.rules.permission import ASKS, Approval, Asks, strictness
from duly.rules.toml_text import write_value
from duly.words.noun import say_list, say_number

RULES_SHOWN_MAX: Final = 5
HEAD: Final = "Where it is decided whether you are asked"
# What each word asks about; that of the first calls may have any number.
WORDS: Final[Mapping[str, str]] = {
    Approval.NEVER: "nothing",
    Approval.ABOVE_MEDIUM: "changes of high risk",
    Approval.ABOVE_LOW: "changes of medium or high risk",
    "first:5": "the first 5 calls of each new version",
    Approval.ALWAYS: "every change",
    "after_model": "changes in which a language model may have had a part",
}
STRICTEST: Final = (
    "Of all rules that fit a tool the strictest holds: a rule for one tool asks more than that for"
    ' "*", never less, and what you choose asks more than the settings, never less.'
)
WHY_ASKED: Final = "Why you are asked, and how often"
GRANT_LASTS: Final = "A grant lasts until it is revoked; it is no yes to one change."
RULES_STAND: Final = (
    "What you choose here holds at once and stands with the grant; revoking the grant takes it"
    " along. The rules of the project stand in duly.toml as approvals, below [policy] or the table"
    f" of the workflow. {STRICTEST}"
)
ASK_ME: Final = "When it asks you"
CHOICES: Final[Mapping[str, str]] = {
    "": "as the settings say",
    "first:5": "the first 5 times of each new version",
    Approval.ALWAYS: "each time",
}
UNALLOWED: Final = (
    "Nothing was deployed. You chose when to be asked before changes of {}, and did not allow it;"
    " a choice stands with what you allow. Allow it too, or choose “as the settings say”."
)
LESS_OFTEN: Final = "Written so, they ask only for the first five calls of each tool:"
ALWAYS_ASKING: Final = (Approval.ALWAYS, Approval.ABOVE_LOW, Approval.ABOVE_MEDIUM)
THEN: Final = "Save the file, and press Start again on the page Tools, or start the host again."


def say_unallowed(capabilities: Sequence[str]) -> str:
    """Say that something was chosen for what is not allowed, and what to do."""
    return UNALLOWED.format(say_list(capabilities))


def say_asks(asks: Asks) -> str:
    """Say when a person is asked before a change, and why."""
    return f"{say_when(asks)} ({_say_why(asks)})"


def say_when(asks: Asks, whom: str = "you") -> str:
    """Say when a person is asked before a change.

    >>> from duly.rules.catalog import Risk
    >>> say_when(Asks("table.insert", "table.write", Risk.LOW, False, 0, False, ()))
    'is made without asking you'
    """
    if asks.each_time:
        return f"asks {whom} each time"
    told = []
    if asks.first:
        told.append(f"for the first {say_number(asks.first, 'call')} of each new version")
    if asks.after_model:
        told.append("where a language model may have had a part")
    if not told:
        return f"is made without asking {whom}"
    return f"asks {whom} {' and '.join(told)}, else not"


def list_choices(asks: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """List when a person can ask to be asked about a change: word, label, whether it stands."""
    known = {**CHOICES, asks["chosen"]: say_word(asks["chosen"])}
    typed = asks.get("typed", asks["chosen"])
    return [(word, label, word == typed) for word, label in known.items()]


def asks_less(word: str, before: str) -> bool:
    """Tell whether a choice asks less than the one before it."""
    return strictness(word) < strictness(before)


def say_word(word: str) -> str:
    """Say when a rule asks that stands with a grant."""
    count = word.removeprefix("first:")
    return CHOICES.get(word) or f"the first {count} times of each new version"


def _say_why(asks: Asks) -> str:
    risk = f"its risk is {asks.risk}"
    if asks.chosen:
        risk += f"; with the grant it was chosen to ask {say_word(asks.chosen)}"
    if not asks.rules:
        return f"{risk}, and no rule names it"
    named = [say_rule(*each) for each in asks.rules[:RULES_SHOWN_MAX]]
    more = len(asks.rules) - len(named)
    named += [f"{more} more"] if more else []
    if len(named) == 1:
        return f"{risk}, and the rule is {named[0]}"
    return f"{risk}; of the rules {say_list(named)} the strictest holds"


def say_rule(glob: str, word: str) -> str:
    """Write one rule as it stands in the settings."""
    return f"{write_value(glob)} = {write_value(word)}"


def write_approvals(approvals: Mapping[str, str]) -> str:
    """Write the line of the settings that has these rules."""
    rules = ", ".join(say_rule(*each) for each in approvals.items())
    return f"approvals = {{ {rules} }}" if rules else "approvals = {}"


def say_settings(asks: Sequence[Asks], approvals: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Say where the rules stand, what each word asks about, and what asks about all of these."""
    if not asks:
        return
    now = dict(approvals)
    more = {each.tool: str(Approval.ALWAYS) for each in asks if not each.each_time}
    yield (
        "In duly.toml, as approvals below [policy]; a workflow can have stricter ones of its own."
        " Now it is:"
    )
    yield f"  {write_approvals(now)}"
    if more:
        yield "Written so, you are asked each time:"
        yield f"  {write_approvals({**now, **more})}"
    yield "What each word asks about:"
    yield from (f'  "{word}": {does}' for word, does in WORDS.items())
    yield STRICTEST
    yield THEN


def say_rules(rules: Sequence[Sequence[str]]) -> str:
    """Say which rules ask a person before a call, and where they are changed."""
    chosen = [word for glob, word in rules if glob.startswith(ASKS)]
    named = ", ".join(say_rule(*each) for each in rules if not each[0].startswith(ASKS))
    told = [
        f"With the grant it was chosen to ask {say_word(word)}; that is changed below Setup of the"
        " workflow."
        for word in chosen
    ]
    if named:
        told.append(
            f"The settings ask by {named}. That stands in duly.toml as approvals, below [policy] or"
            " the table of the workflow, and is changed there."
        )
    return " ".join((*told, STRICTEST))


def say_less_often(rules: Sequence[Sequence[str]]) -> str:
    """Write what asks only for the first calls of each tool, in place of rules that always ask."""
    each = {
        glob: "first:5"
        for glob, word in rules
        if word in ALWAYS_ASKING and not glob.startswith(ASKS)
    }
    return write_approvals(each) if each else ""
