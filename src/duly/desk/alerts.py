"""Tells over the channels what else is listed under attention and has no run (F8, B9).

Law 1  What is told, and that it was, is one transaction: once for each beginning, also after a
       restart and with several hosts.
Law 2  It is told over the bus, as what a run needs is. A host without a channel tells nothing, and
       so a channel that comes later hears of what is so then.
Law 3  What fails here is logged and tried again at the next look; it ends no host.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from duly.desk.attention import walk_attention
from duly.desk.base import Desk
from duly.desk.record import Attention
from duly.desk.sight import Sight
from duly.errors import DulyError
from duly.rules.alert import ALERTED, begun_at, is_new
from duly.rules.announcement import Topic
from duly.rules.delivery import OWN_SOURCE, encode_payload
from duly.rules.reason import plain
from duly.rules.redaction import redact
from duly.rules.value import Json
from duly.store import slip as stored
from duly.store.base import Transaction
from duly.store.record import JournalEvent
from duly.words import alert
from duly.words.phrase import Clock

LOOK_S: Final = 3600.0  # what is told here is counted in days
BACKUP: Final = "/backup"  # the key of what is listed about a scheduled copy

log = logging.getLogger("duly.channel")


async def keep_alerting(desk: Desk, told: Callable[[], None]) -> None:
    """Look every hour, at the beginning too, and call `told` after each alert, until cancelled."""
    while True:
        try:
            if await tell_alerts(desk):
                told()
        except DulyError as error:
            log.warning("No alert could be told: %s", error)
        await desk.parts.env.sleep(LOOK_S)


async def tell_alerts(desk: Desk) -> int:
    """Put on the bus what a person was not told of yet; return how much that was."""
    count = 0
    for entry, begun_ms in await desk.ask(partial(_find_new, desk=desk)):
        event = _write_event(desk, entry)
        tell = partial(desk.parts.store.tell_begun, entry.key, event, at=begun_ms, now=desk.now_ms)
        count += await desk.complete(tell)
    return count


async def end_alert(desk: Desk, key: str) -> None:
    """Note that something is over, so that a person is told when it begins anew."""
    if await desk.look(partial(stored.told_at, key=key)) is not None:
        await desk.complete(partial(desk.parts.store.tell_begun, key, None, at=0, now=desk.now_ms))


def _find_new(tx: Transaction, *, desk: Desk) -> list[tuple[Attention, int]]:
    found = []
    for entry in walk_attention(tx, desk, Sight.of(desk.parts), ""):
        code, days = entry.reason.code, entry.reason.facts.get("days")
        if code in ALERTED:
            since_ms = round(entry.since.timestamp() * 1000)
            begun_ms = begun_at(code, since_ms, days if isinstance(days, int) else 0)
            if is_new(stored.told_at(tx, entry.key), begun_ms, desk.now_ms):
                found.append((entry, begun_ms))
    return found


def _write_event(desk: Desk, entry: Attention) -> JournalEvent:
    """Write the same payload as for a run, without what only a run has; no secret is in it (A5)."""
    facts = cast("dict[str, Any]", redact(plain(entry.reason.facts), desk.parts.outside.secrets()))
    text = alert(replace(entry.reason, facts=facts), Clock(desk.now_ms, desk.parts.policy.timezone))
    payload: dict[str, Json] = {
        "workflow": entry.workflow,
        "text": f"{entry.workflow}: {text}" if entry.workflow else text,
        "code": str(entry.reason.code),
        "facts": facts,
        "verbs": [each.verb for each in entry.offers],
    }
    return JournalEvent(Topic.NEEDS_ATTENTION, OWN_SOURCE, encode_payload(payload))
