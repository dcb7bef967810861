"""Bugs that only an unkind world finds; the law is `planted`'s.

Each line is what a bug is called, what it says, and the place it changes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any, Final

from duly.errors import Refused, StoreUnavailable
from duly.store.base import rider


def _always_alive(_: Any) -> Any:
    return lambda terms, firsts, now: terms.key_lifetime_ms is not None


def _without_time(original: Any) -> Any:
    return lambda terms, firsts, now: original(replace(terms, timeout_ms=0, lag_ms=0), firsts, now)


def _half_the_lag(original: Any) -> Any:
    return lambda lag_ms, since_end_ms: original(lag_ms // 2, since_end_ms)


def _failed_syncs_are_fine(original: Any) -> Any:
    def sync(self: Any) -> None:
        try:
            original(self)
        except Exception:
            self.log.is_unsynced = False

    return sync


def _failed_writes_are_fine(original: Any) -> Any:
    def fail(self: Any, job: Any, error: Exception) -> None:
        original(self, job, error)
        if isinstance(job.error, StoreUnavailable):
            job.error = None

    return fail


def _wait_for_nothing(_: Any) -> Any:
    async def until_sent(self: Any, wait_s: float) -> None:
        return None

    return until_sent


def _odd_is_refused(original: Any) -> Any:
    def made(error: BaseException) -> Exception:
        found: Exception = original(error)
        return Refused("odd") if isinstance(error, SystemExit) else found

    return made


def statement(name: str, was: str, becomes: str) -> Any:
    """Make a schema in which one statement says something else."""

    def make(original: Any) -> Any:
        @cache
        def schema() -> Any:
            found = original()
            text = found.statements[name]
            assert was in text, (name, was)
            return replace(found, statements={**found.statements, name: text.replace(was, becomes)})

        return schema

    return make


def _say_nothing(_: Any) -> Any:
    return lambda self, live, new: ()


def _say_twice(original: Any) -> Any:
    def committed(self: Any, live: Any, new: Any) -> Any:
        return original(self, live, new) * 2

    return committed


def _never_wake(original: Any) -> Any:
    return lambda *args: replace(original(*args), at_ms=None)


def _in_any_order(_: Any) -> Any:
    def inputs_digest(workflow_id: str, consumer: str, reserved: Any) -> str:
        named = [workflow_id, consumer, [list(each) for each in reserved]]
        return sha256(repr(named).encode()).hexdigest()

    return inputs_digest


def _ask_uncounted(original: Any) -> Any:
    async def wait(
        self: Any, live: Any, row: Any, wait_ms: int, reason: Any, **further: Any
    ) -> None:
        await original(self, live, row, wait_ms, reason, **{**further, "is_counted": False})

    return wait


UNKIND: Final = (
    ("half-the-lag", "'It did not happen' is believed after half of the lag.",
     "duly.rules.ledger", "is_absence_settled", _half_the_lag),
    ("an-odd-error-is-a-no", "What a connector must not raise is taken for a refusal.",
     "duly.connectors.raised", "_made", _odd_is_refused),
    ("keys-never-age", "A call is sent again although its key is forgotten.",
     "duly.rules.ledger", "is_key_alive", _always_alive),
    ("a-resend-takes-no-time", "A call is sent again shortly before its key is forgotten.",
     "duly.rules.ledger", "is_key_alive", _without_time),
    ("failed-syncs-are-fine", "What the disk could not keep is acknowledged.",
     "duly.store.writer", "Writer._sync", _failed_syncs_are_fine),
    ("failed-writes-are-fine", "What the disk had no room for is taken for written.",
     "duly.store.writer", "Writer._fail", _failed_writes_are_fine),
    ("a-commit-is-not-announced", "The bus does not hear of a commit.",
     "duly.engine.announcements", "Announcements.committed", _say_nothing),
    ("a-commit-is-announced-twice", "The bus hears of a commit twice.",
     "duly.engine.announcements", "Announcements.committed", _say_twice),
    ("a-pause-does-not-wait", "A pause is acknowledged before it is on the disk.",
     "duly.store", "Store.set_paused", lambda original: rider(original.body)),
    ("a-skip-does-not-wait", "A skip is acknowledged before it is on the disk.",
     "duly.store", "Store.skip_event", lambda original: rider(original.body)),
    ("heirs-have-another-clock", "A run that follows another sees another time in its steps.",
     "verification.life", "schema", statement("insert_heir", "r.clock_at", "r.clock_at + 1")),
    ("heirs-forget-to-wake", "A run that follows another forgets when to be woken.",
     "verification.life", "schema",
     statement("insert_heir", "r.wake_at_asked", "null")),
    ("wakes-are-forgotten", "No consumer is woken at the time it asked for.",
     "duly.rules.schedule", "clamp_wake_at", _never_wake),
    ("newer-content-is-dropped", "A released event has the content it had before.",
     "verification.life", "schema",
     statement("release_events", "coalesce(content_beside, content)", "content")),
    ("the-order-makes-the-key", "The order of the reservations changes the key.",
     "duly.rules.ledger", "inputs_digest", _in_any_order),
    ("questions-are-not-counted", "The outside is asked for ever.",
     "duly.engine.reconciler", "Reconciler._wait", _ask_uncounted),
)  # fmt: skip

# Found by a scenario of their own; random ones come by them too seldom to be counted on.
DIRECTED: Final = (
    ("close-does-not-wait", "A host is closed while its send is still out.",
     "duly.host", "Host._until_sent", _wait_for_nothing),
)  # fmt: skip
