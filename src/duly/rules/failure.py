"""What an error of a connector means (F1, L4).

Law: an error is classified once, where it is born; these tables translate its type. What is not
listed is our bug in a read, and an unknown outcome in a mutation that began, never a failed one.
A message's text decides nothing. A temporary error of a connector means that the outside is
unreachable: it never waits for a person (F2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly import errors
from duly.rules.catalog import Tool
from duly.rules.word import Answer, Failure

# Codes of errors that neither waiting nor another script heals: the owner of a connection must act.
WRONG_SET_UP: Final = "wrong_set_up"  # its settings, its database or its rights
RECORD_LOST: Final = "record_lost"  # what says whether a call was made began after the call
FOR_OWNER: Final = frozenset({WRONG_SET_UP, RECORD_LOST})

# Codes of errors that say for certain that nothing was sent.
UNSENT: Final = frozenset({"not_sent", "connector_gone", "key_forgotten", *FOR_OWNER})

READ_ERRORS: Final[Mapping[type[BaseException], Failure]] = {
    errors.NotSent: Failure.UNREACHABLE,
    errors.Refused: Failure.LOGIC,
    errors.AuthNeeded: Failure.AUTH,
    errors.PermissionDenied: Failure.PERMISSION,
    errors.Transient: Failure.UNREACHABLE,
    errors.UnknownOutcome: Failure.UNREACHABLE,
    TimeoutError: Failure.UNREACHABLE,
    ConnectionError: Failure.UNREACHABLE,
}
MUTATION_ERRORS: Final[Mapping[type[BaseException], Answer]] = {
    errors.NotSent: Answer.NOT_SENT,
    errors.Refused: Answer.REFUSED,
    errors.AuthNeeded: Answer.AUTH,
    errors.PermissionDenied: Answer.PERMISSION,
}
TRANSIENT_OUTCOMES: Final[Mapping[str | None, Answer]] = {
    None: Answer.UNKNOWN,
    "refused": Answer.RATE_LIMITED,
    "not_sent": Answer.NOT_SENT,
}
# What a definite answer to a mutation means for its run; an unknown one is no failure (L4).
ANSWERED: Final[Mapping[Answer, Failure]] = {
    Answer.REFUSED: Failure.LOGIC,
    Answer.REMEMBERED: Failure.LOGIC,
    Answer.RATE_LIMITED: Failure.UNREACHABLE,
    Answer.NOT_SENT: Failure.UNREACHABLE,
    Answer.AUTH: Failure.AUTH,
    Answer.PERMISSION: Failure.PERMISSION,
}


def failure_of(error: BaseException) -> Failure:
    """Classify what a connector's read raised (F1)."""
    for kind in type(error).__mro__:
        if kind in READ_ERRORS:
            return READ_ERRORS[kind]
    return Failure.INTERNAL


def answer_of(error: BaseException) -> Answer:
    """Classify what a connector's mutation raised after the call began (L4)."""
    if isinstance(error, errors.Transient):
        return TRANSIENT_OUTCOMES.get(error.outcome, Answer.UNKNOWN)
    if isinstance(error, errors.Refused) and error.remembered:
        return Answer.REMEMBERED
    for kind in type(error).__mro__:
        if kind in MUTATION_ERRORS:
            return MUTATION_ERRORS[kind]
    return Answer.UNKNOWN


def waits_on(failure: Failure, tool: Tool, error: BaseException) -> str | None:
    """Name what a person must see to: a connection, one of its secrets, or a capability (F4)."""
    if failure is Failure.AUTH:
        named = error.connect if isinstance(error, errors.AuthNeeded) else None
        connection = named or tool.name.partition(".")[0]
        secret = error.secret if isinstance(error, errors.AuthNeeded) else None
        return f"{connection}.{secret}" if secret else connection
    return tool.capability if failure is Failure.PERMISSION else None
