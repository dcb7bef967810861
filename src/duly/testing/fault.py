"""What can go wrong with one call, as a test plans it.

Law: a fault says three things and nothing else: whether the outside changes, when, and what the
caller is told.

    Fault.TIMEOUT_AFTER         the change is made, and the answer never comes
    Fault.LATE(30)              the caller is told nothing certain; the change lands in 30 s
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final

from duly.errors import (
    AuthNeeded,
    ConfigError,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)


class Effect(StrEnum):
    """What a faulty call does to the outside."""

    NEVER = "never"
    AT_ONCE = "at_once"
    LATER = "later"  # after the fault's seconds, whether or not the host still waits


class FaultAnswer(StrEnum):
    """What the caller of a faulty call is told."""

    RESULT = "result"
    NOTHING = "nothing"  # it waits until its own patience ends
    UNKNOWN = "unknown"
    MALFORMED = "malformed"
    UNCLASSIFIED = "unclassified"
    RATE_LIMIT = "rate_limit"
    REFUSED = "refused"
    REMEMBERED = "remembered"  # an idempotent outside repeats the refusal it kept for this key
    NOT_SENT = "not_sent"
    AUTH = "auth"
    FORBIDDEN = "forbidden"
    CRASH = "crash"
    # Of a reconcile only:
    UNSURE = "unsure"
    NOT_APPLIED = "not_applied"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Fault:
    """One planned fault; those that take seconds are called with them: `Fault.SLOW(5)`."""

    name: str
    effect: Effect
    answer: FaultAnswer
    seconds: float | None = None

    OK: ClassVar[Fault]
    TIMEOUT_BEFORE: ClassVar[Fault]
    TIMEOUT_AFTER: ClassVar[Fault]
    AMBIGUOUS: ClassVar[Fault]
    AMBIGUOUS_BEFORE: ClassVar[Fault]
    MALFORMED: ClassVar[Fault]
    ERROR: ClassVar[Fault]
    ERROR_AFTER: ClassVar[Fault]
    LATE: ClassVar[Fault]
    SLOW: ClassVar[Fault]
    RATE_LIMIT: ClassVar[Fault]
    REFUSE: ClassVar[Fault]
    REFUSE_REMEMBERED: ClassVar[Fault]
    NOT_SENT: ClassVar[Fault]
    AUTH: ClassVar[Fault]
    FORBID: ClassVar[Fault]
    CRASH_BEFORE: ClassVar[Fault]
    CRASH_AFTER: ClassVar[Fault]
    UNSURE: ClassVar[Fault]
    NOT_YET_VISIBLE: ClassVar[Fault]
    WRONG: ClassVar[Fault]

    def __call__(self, seconds: float) -> Fault:
        """Say how many seconds: until the effect, or until the outside wants to be asked again."""
        if self.name not in TAKES_SECONDS or not seconds >= 0:
            raise ConfigError(
                f"Fault.{self.name}({seconds}): only {', '.join(sorted(TAKES_SECONDS))} take"
                " seconds, and none takes less than 0."
            )
        return replace(self, seconds=seconds)


TAKES_SECONDS: Final = frozenset({"LATE", "SLOW", "RATE_LIMIT"})
NEEDS_SECONDS: Final = TAKES_SECONDS - {"RATE_LIMIT"}

_TABLE: Final = {
    "OK": (Effect.AT_ONCE, FaultAnswer.RESULT),
    "TIMEOUT_BEFORE": (Effect.NEVER, FaultAnswer.NOTHING),
    "TIMEOUT_AFTER": (Effect.AT_ONCE, FaultAnswer.NOTHING),
    "AMBIGUOUS": (Effect.AT_ONCE, FaultAnswer.UNKNOWN),
    "AMBIGUOUS_BEFORE": (Effect.NEVER, FaultAnswer.UNKNOWN),
    "MALFORMED": (Effect.AT_ONCE, FaultAnswer.MALFORMED),
    "ERROR": (Effect.NEVER, FaultAnswer.UNCLASSIFIED),
    "ERROR_AFTER": (Effect.AT_ONCE, FaultAnswer.UNCLASSIFIED),
    "LATE": (Effect.LATER, FaultAnswer.UNKNOWN),
    "SLOW": (Effect.LATER, FaultAnswer.RESULT),
    "RATE_LIMIT": (Effect.NEVER, FaultAnswer.RATE_LIMIT),
    "REFUSE": (Effect.NEVER, FaultAnswer.REFUSED),
    "REFUSE_REMEMBERED": (Effect.NEVER, FaultAnswer.REMEMBERED),
    "NOT_SENT": (Effect.NEVER, FaultAnswer.NOT_SENT),
    "AUTH": (Effect.NEVER, FaultAnswer.AUTH),
    "FORBID": (Effect.NEVER, FaultAnswer.FORBIDDEN),
    "CRASH_BEFORE": (Effect.NEVER, FaultAnswer.CRASH),
    "CRASH_AFTER": (Effect.AT_ONCE, FaultAnswer.CRASH),
    "UNSURE": (Effect.NEVER, FaultAnswer.UNSURE),
    "NOT_YET_VISIBLE": (Effect.NEVER, FaultAnswer.NOT_APPLIED),
    "WRONG": (Effect.NEVER, FaultAnswer.WRONG),
}
for _name, (_effect, _answer) in _TABLE.items():
    setattr(Fault, _name, Fault(_name, _effect, _answer))

RECONCILE_ONLY: Final = frozenset({FaultAnswer.UNSURE, FaultAnswer.NOT_APPLIED, FaultAnswer.WRONG})


def check_plan(tool: str, faults: tuple[Fault, ...], *, is_reconcile: bool = False) -> None:
    """Refuse a plan that could not be carried out."""
    for fault in faults:
        if fault.name in NEEDS_SECONDS and fault.seconds is None:
            raise ConfigError(f"{tool}: say how many seconds, as in Fault.{fault.name}(5).")
        if fault.answer in RECONCILE_ONLY and not is_reconcile:
            raise ConfigError(
                f"{tool}: Fault.{fault.name} is an answer of reconcile."
                f" Plan it as reconcile=[Fault.{fault.name}]."
            )


def trouble(fault: Fault, tool: str) -> BaseException:
    """Make the error a fault's caller is told (L4)."""
    said = f"{tool}: planned ({fault.name})"
    errors: dict[FaultAnswer, BaseException] = {
        FaultAnswer.UNKNOWN: UnknownOutcome(said),
        FaultAnswer.UNCLASSIFIED: RuntimeError(said),
        FaultAnswer.RATE_LIMIT: Transient(said, retry_after_s=fault.seconds, outcome="refused"),
        FaultAnswer.REFUSED: Refused(said),
        FaultAnswer.REMEMBERED: Refused(said, remembered=True),
        FaultAnswer.NOT_SENT: NotSent(said),
        FaultAnswer.AUTH: AuthNeeded(said, connect=tool.partition(".")[0]),
        FaultAnswer.FORBIDDEN: PermissionDenied(said),
    }
    return errors[fault.answer]
