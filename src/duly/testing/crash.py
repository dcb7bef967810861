"""Crashes at planned places: before or after an outside effect, before or after a store verb.

Law: after a crash nothing of that host writes. What it had committed stays, what it had not is
gone, and another host opens the same file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final, Literal

from duly.errors import ConfigError
from duly.rules.value import suggest
from duly.store import Store
from duly.store.base import Verb

Moment = Literal["before", "after"]
BEFORE: Final = "before"
AFTER: Final = "after"
MOMENTS: Final = (BEFORE, AFTER)
VERBS: Final = tuple(name for name, verb in vars(Store).items() if isinstance(verb, Verb))


class Crash(BaseException):
    """The host has crashed here, as planned. No `except Exception` outlives it."""


class CrashingStore:
    """Takes over the verbs of a store: it crashes where planned and answers nobody afterwards.

    CrashingStore(store, at={"record": "before"})
    """

    def __init__(
        self,
        store: Store,
        at: Mapping[str, Moment] | None = None,
        *,
        on_crash: Callable[[], None] | None = None,
    ) -> None:
        self._at: dict[str, Moment] = {}
        self._is_dead = False
        self._on_crash = on_crash or self.kill
        self._backend = store.backend
        self.plan(at or {})
        # On the instance, so that whoever holds this store already meets the crash, too.
        for verb in VERBS:
            setattr(store, verb, self._around(verb, getattr(store, verb)))

    def plan(self, at: Mapping[str, Moment]) -> None:
        """Crash at the next call of each of these verbs, before it begins or after it returned."""
        for verb, moment in at.items():
            if verb not in VERBS:
                raise ConfigError(f"The store has no verb {verb}. {suggest(verb, VERBS)}")
            if moment not in MOMENTS:
                raise ConfigError(f"{verb}: {moment!r} is no moment; say before or after.")
            self._at[verb] = moment

    def kill(self) -> None:
        """Answer nobody from now on."""
        self._is_dead = True

    async def close(self) -> None:
        """Give the database back, as the end of a process does."""
        self.kill()
        await self._backend.close()

    def _around(
        self, verb: str, body: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        @wraps(body)
        async def call(*args: Any, **kwargs: Any) -> Any:
            moment = self._at.pop(verb, None)
            if self._is_dead or moment == "before":
                self._crash()
            answer = await body(*args, **kwargs)
            # It may have crashed elsewhere while this was on its way: nobody hears the answer.
            if self._is_dead or moment == "after":
                self._crash()
            return answer

        return call

    def _crash(self) -> None:
        if not self._is_dead:
            self.kill()
            self._on_crash()
        raise Crash
