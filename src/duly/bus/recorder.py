"""Records what handlers came to, and keeps it until the store has it (H3).

Law: a result stays here until the store has taken it, and no handler is called again for it. Each
is tried by itself: one that the store refuses holds up its own lane and no other (B6), and is tried
again at growing intervals, each time with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from typing import Final

from duly.bus.attempt import EndedAttempt
from duly.env import Env
from duly.errors import IllegalTransition, Invalid, NotFound, Stale, StoreLost
from duly.loop import REST_MS
from duly.store import Store
from duly.store.delivery import Finished, Reach

REST_LONGEST_MS: Final = 300_000  # between two tries to record the same result

log = logging.getLogger("duly.bus")


@dataclass(slots=True)
class _Kept:
    """A result with the time of its next try, by the clock of the boot, and why the last failed."""

    ended: EndedAttempt
    due_ms: int = 0
    rest_ms: int = REST_MS
    error: Exception | None = None


class Recorder:
    """Writes results down, and keeps those that the store did not take, one of a subscriber."""

    def __init__(self, env: Env, store: Store, entered: Callable[[str], None]) -> None:
        self._env = env
        self._store = store
        self._entered = entered
        self._kept: dict[str, _Kept] = {}

    def __contains__(self, subscriber_id: object) -> bool:
        return subscriber_id in self._kept

    async def record(self, ended: EndedAttempt, reach: Reach | None = None) -> Finished | None:
        """Record the result of an attempt; None if the store did not take it."""
        self._kept.setdefault(ended.subscriber_id, _Kept(ended))
        finished = None
        try:
            finished = await self._finish(ended, reach)
        except (Stale, NotFound) as error:
            log.error("event %s for %s: %s", ended.event_id, ended.subscriber_id, error)
        except StoreLost:
            raise  # it never comes back
        except Exception as error:  # of this record; the others may go on
            self._postpone(ended, error)
            return None
        self._kept.pop(ended.subscriber_id, None)
        return finished

    async def record_due(self, at_work: Container[str | int]) -> None:
        """Try what the store did not take before; not what a lane at work is recording itself."""
        now_ms = self._env.boot().ms
        rest = ((name, kept) for name, kept in self._kept.items() if name not in at_work)
        for ended in [kept.ended for _, kept in rest if kept.due_ms <= now_ms]:
            if ended.subscriber_id in self:  # all may have been forgotten meanwhile
                await self.record(ended)

    def clear(self) -> None:
        """Forget every result: another host calls these subscribers now (H8)."""
        self._kept.clear()

    def hurry(self) -> None:
        """Try every result at the next look: a caller begins to work, or the host stops."""
        for kept in self._kept.values():
            kept.due_ms = 0

    def pairs(self, at_work: Container[str | int] = ()) -> frozenset[tuple[int, str]]:
        """Return event and subscriber of each result that no lane at work is recording itself."""
        return frozenset(
            (kept.ended.event_id, name) for name, kept in self._kept.items() if name not in at_work
        )

    @property
    def next_at(self) -> int | None:
        """When to look again, as the wall clock shows it now; None if nothing waits for a try."""
        waits = [kept.due_ms for kept in self._kept.values() if kept.error is not None]
        if not waits:
            return None
        return self._env.now_ms() + max(0, min(waits) - self._env.boot().ms)

    @property
    def error(self) -> Exception | None:
        """Why the first of these results is not recorded; None if each has still to be tried."""
        errors = (kept.error for kept in self._kept.values())
        return next((error for error in errors if error is not None), None)

    async def _finish(self, ended: EndedAttempt, reach: Reach | None) -> Finished:
        finish = partial(
            self._store.finish_delivery,
            ended.event_id,
            ended.subscriber_id,
            ended.attempt,
            reach=reach,
        )
        if ended.failure is not None:
            said, is_final = ended.failure.said, ended.failure.is_final
            return await finish(error=said, is_final=is_final, now=self._env.now_ms())
        if ended.ingress is None:
            return await finish(now=self._env.now_ms())
        try:
            finished = await finish(ingress=ended.ingress, now=self._env.now_ms())
        except (Invalid, NotFound, IllegalTransition) as refusal:
            # The workflow stopped listening while this was on its way, or the store refused what
            # no rule had: nothing went in, and a person sees it as a dead letter.
            return await finish(error=str(refusal), now=self._env.now_ms())
        self._entered(ended.ingress.workflow_id)
        return finished

    def _postpone(self, ended: EndedAttempt, error: Exception) -> None:
        """Try a result again later, each time twice as late as before."""
        if (kept := self._kept.get(ended.subscriber_id)) is None:
            return
        log.error(
            "the result of event %s for %s is not recorded yet; the next try is in %s s: %s",
            ended.event_id,
            ended.subscriber_id,
            kept.rest_ms // 1000,
            error,
            exc_info=error,
        )
        kept.error = error
        kept.due_ms = self._env.boot().ms + kept.rest_ms
        kept.rest_ms = min(2 * kept.rest_ms, REST_LONGEST_MS)
