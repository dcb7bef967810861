"""Tells the bus what happened to a run, in the transaction in which it happens (B10, F8).

Law 1  What is announced is decided by the rules, from the state before and after; this room only
       gathers the words and hands them to the verb that makes the change.
Law 2  No secret leaves with an announcement (A5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from duly.engine.base import Parts
from duly.engine.live import Live
from duly.errors import Invalid
from duly.fact import Reason
from duly.rules.announcement import (
    PREVIEW_BYTES,
    PREVIEW_CHARS,
    RunChange,
    Subject,
    Topic,
    describe,
    topics,
)
from duly.rules.delivery import OWN_SOURCE, encode_payload
from duly.rules.kept import read_error
from duly.rules.lifecycle import Run
from duly.rules.reason import plain
from duly.rules.redaction import Redactor, redact, redact_text
from duly.rules.shown import cut
from duly.rules.standing import Facts, escalate
from duly.rules.value import Json, decode
from duly.rules.word import Way
from duly.store.record import Call, JournalEvent
from duly.words import Clock, alert, say

QUIET: Final[tuple[JournalEvent, ...]] = ()


@dataclass(frozen=True, slots=True)
class AnnouncedCall:
    """The call an announcement speaks of."""

    id: str
    tool: str
    args_text: str


class Announcements:
    """Puts announcements into words."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def committed(self, live: Live, new: Run) -> tuple[JournalEvent, ...]:
        """Announce a commit; it needs no words but its own. The store knows whether it is heard."""
        change = RunChange(live.stored, new)
        subject = Subject(live.workflow, live.id, live.handler)
        return tuple(self._event(topic, change, subject) for topic in topics(change))

    async def changed(
        self,
        live: Live,
        new: Run,
        *,
        tells: Reason | None = None,
        notice: Reason | None = None,
        error: str | None = None,
    ) -> tuple[JournalEvent, ...]:
        """Announce what becomes of a run; where nothing is announced, nothing is read either.

        `notice` informs the person of something that needs no act (F2, R7); a run that stays as it
        is can have one too. The caller stores that it was given, in the same transaction.
        """
        change = RunChange(live.stored, new, tells, notice)
        announced = topics(change)
        if not announced:
            return QUIET
        call = None
        if live.stored.row is not None:
            row = await self._parts.store.get_held_mutation(live.id)
            call = AnnouncedCall(row.id, row.tool, row.args)
        subject = await self._subject(live, call)
        live.is_heard = True
        return tuple(
            self._event(each, change, subject, read_error(error).message) for each in announced
        )

    async def proposed(self, live: Live, new: Run, call: Call) -> tuple[JournalEvent, ...]:
        """Announce a call that waits for a person's yes."""
        facts = Facts(
            run=new, way=Way.PERSON, title=live.title, tool=call.tool, workflow=live.workflow
        )
        change = RunChange(live.stored, new, escalate(facts))
        subject = await self._subject(live, AnnouncedCall(call.id, call.tool, call.args))
        live.is_heard = True
        return tuple(self._event(each, change, subject) for each in topics(change))

    def deployed(self, topic: Topic, payload: Mapping[str, Json]) -> JournalEvent:
        """Announce a version that is active now."""
        return JournalEvent(topic, OWN_SOURCE, encode_payload(dict(payload)))

    async def _subject(self, live: Live, call: AnnouncedCall | None) -> Subject:
        secrets = self._parts.outside.secrets()
        inputs = await self._parts.store.list_inputs(live.id)
        title = live.title if live.prepared_text is not None else None
        return Subject(
            live.workflow,
            live.id,
            live.handler,
            titles=tuple(redact_text(each.title, secrets) for each in inputs),
            claimed=None if title is None else redact_text(title, secrets),
            mutation=None if call is None else call.id,
            tool=None if call is None else call.tool,
            args=None if call is None else _preview(call.args_text, secrets),
        )

    def _event(
        self, topic: Topic, change: RunChange, subject: Subject, message: str = ""
    ) -> JournalEvent:
        return announce(self._parts, topic, change, subject, message)


def announce(
    parts: Parts, topic: Topic, change: RunChange, subject: Subject, message: str = ""
) -> JournalEvent:
    """Put one announcement into words; no secret is in them (A5)."""
    secrets = parts.outside.secrets()
    clock = Clock(parts.env.now_ms(), parts.policy.timezone)
    reason, text = change.reason(topic), ""
    if reason is not None:
        facts = cast("dict[str, Any]", redact(plain(reason.facts), secrets))
        reason = replace(reason, facts=facts)
        text = say(reason, clock, long=True) if topic is Topic.NOTICE else alert(reason, clock)
        change = replace(change, tells=reason, notice=reason)
    payload = describe(topic, change, subject, message=redact_text(message, secrets), text=text)
    return JournalEvent(topic, OWN_SOURCE, encode_payload(payload))


def _preview(text: str, secrets: Redactor) -> Json:
    """Show a call's arguments without secrets; of long ones only the beginning is read.

    Walking through a million values would stop the event loop for as long (X2). More is read than
    is shown, so that no part of a secret stands at the end of it.
    """
    if len(text) <= PREVIEW_BYTES:
        try:
            return redact(decode(text), secrets)
        except Invalid:  # another program wrote it, and a person must hear of that (L11)
            return redact_text(text, secrets)
    return cut(redact_text(text[:PREVIEW_BYTES], secrets, is_cut=True), PREVIEW_CHARS, len(text))
