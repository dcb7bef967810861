"""Every sentence a person reads, made from facts, once for all faces (U1, U2, U5, U7).

Law 1  A sentence is a template under a code. It decides nothing: which code applies is decided in
       `rules`, and no program reads a sentence back.
Law 2  What is relative to now or to a zone (“in 3 min”, “3 May 09:12 UTC”) is made here from
       times.
Law 3  No sentence contains a command or a call: what can be done is an offer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.fact import Offer, Reason
from duly.rules.asking import Answering
from duly.rules.count import Activity, Count
from duly.rules.late import LateAnswer
from duly.rules.permission import Asks
from duly.rules.planned import Planned
from duly.rules.preview import SourcePreview
from duly.rules.replay import Difference
from duly.rules.shown import visible
from duly.words import attention, done, ending, history, offer, standing, trial
from duly.words.approval import say_asks
from duly.words.asking import say_answering, say_proof
from duly.words.late import say_late
from duly.words.noun import say_activity, say_count, say_counts
from duly.words.part import fill_with
from duly.words.phrase import Clock, capital, quote
from duly.words.preview import say_preview
from duly.words.replay import say_difference
from duly.words.schedule import say_next, say_schedule

SHORT: Final[dict[str, str]] = {
    **standing.SHORT,
    **ending.SHORT,
    **attention.SHORT,
    **trial.SHORT,
    **history.SHORT,
}
LONG: Final[dict[str, str]] = {**standing.LONG, **attention.LONG}
DOES: Final[dict[str, str]] = {**offer.DOES, **done.DOES}

__all__ = [
    "Clock",
    "alert",
    "say",
    "say_activity",
    "say_count",
    "say_counts",
    "say_difference",
    "say_next",
    "say_offer",
    "say_preview",
    "say_schedule",
    "texts",
]


def say(reason: Reason, clock: Clock, *, long: bool = False) -> str:
    """Say a reason: in one short sentence, or at length, with what to do and what it blocks."""
    template = (LONG.get(reason.code) if long else None) or SHORT.get(reason.code)
    if template is None:
        return _say_unknown(reason)
    facts = _with_waits(reason.facts, clock)
    said = capital(fill_with(template, facts, clock))
    if not long:
        return said
    return f"{said}{fill_with('[ {blocked}][ {late}.]', facts, clock) if _is_open(reason) else ''}"


def _say_unknown(reason: Reason) -> str:
    """Say a reason of a newer host: its code, and the facts that are texts or numbers."""
    told = ", ".join(
        f"{name} {visible(str(each))}"
        for name, each in reason.facts.items()
        if isinstance(each, str | int | float) and each != ""
    )
    return f"{reason.code} ({told})" if told else reason.code


def _is_open(reason: Reason) -> bool:
    """Tell whether a reason is one of an open run; an ending says what came late by itself."""
    return reason.code in standing.LONG


def _with_waits(facts: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """Say for what each delivery of an event waits, where a reason has such reasons in it."""
    if "deliveries" not in facts:
        return facts
    each = (say(_read(found), clock) for found in facts["deliveries"])
    return {**facts, "waits": " ".join(dict.fromkeys(each))}


def _read(found: Reason | Mapping[str, Any]) -> Reason:
    return found if isinstance(found, Reason) else Reason(found["code"], "", found["facts"])


def alert(reason: Reason, clock: Clock) -> str:
    """Say to a person what needs them, and what went wrong, in one sentence (F8)."""
    said, error = say(reason, clock), quote(str(reason.facts.get("message", "")))
    return said if not error or error in said else f"{said}: {error}"


def say_offer(offer: Offer) -> str:
    """Say what comes of an offer, in half a sentence."""
    return DOES.get(offer.does, offer.does)


def texts(value: object, clock: Clock, *, long: bool = False) -> dict[str, str]:
    """Say a fact that has words of its own, as `text` and, at length, as `detail`."""
    if isinstance(value, Reason):
        said = {"text": say(value, clock)}
        return {**said, "detail": say(value, clock, long=True)} if long else said
    if isinstance(value, Offer):
        return {"text": say_offer(value)}
    if isinstance(value, LateAnswer):
        return {"text": say_late(value.facts, clock)}
    if isinstance(value, Planned):
        return {"text": say_schedule(value, clock)}
    if isinstance(value, Answering):
        proof = say_proof(value.proof, value.proven_at, clock)
        return {"text": say_answering(value, clock), "proof_text": proof}
    if isinstance(value, SourcePreview):
        return {"text": say_preview(value, clock)}
    if isinstance(value, Asks):
        return {"text": say_asks(value)}
    if isinstance(value, Count):
        return {"text": say_count(value)}
    if isinstance(value, Difference):
        return {"text": say_difference(value)}
    return {"text": say_activity(value)} if isinstance(value, Activity) else {}
