"""Crashes at planned points: the one mechanism of stages, of `duly simulate` and of verification.

Law 1  After a crash nothing of that host writes. What it had committed stays, what it had not is
       gone, and another host opens the same file.
Law 2  Every verb of the store has a point before it and one after it. The other code that knows
       where a host may crash (a disk, an outside) adds its points to the same `CrashPoints`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from duly.errors import ConfigError
from duly.rules.value import suggest
from duly.store import Store
from duly.store.base import Backend, Durability, StoreVerb, Transaction

R = TypeVar("R")

Moment = Literal["before", "after"]
BEFORE: Final = "before"
AFTER: Final = "after"
MOMENTS: Final = (BEFORE, AFTER)
VERBS: Final = tuple(name for name, verb in vars(Store).items() if isinstance(verb, StoreVerb))
STEPS_MAX: Final = 20_000  # a scenario has some hundred; a host that needs so many goes in circles


class Crash(BaseException):
    """The host has crashed here, as planned. No `except Exception` outlives it."""


class CrashPoints:
    """Counts the points that one host passes, and crashes it at the planned one.

    `is_planned` is asked at every point: its name, how many points were passed, and how often this
    one. `on_crash` is told the name of the point at which the host crashed.
    """

    def __init__(
        self,
        is_planned: Callable[[str, int, int], bool] = lambda name, count, times: False,
        on_crash: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._is_planned = is_planned
        self._on_crash = on_crash
        self.on_point: Callable[[str], None] = lambda name: None
        self.on_circle: Callable[[], None] | None = None  # set it to limit the steps of a host
        self.count = 0
        self.steps = 0
        self.names: Counter[str] = Counter()
        self.is_dead = False
        self.died = asyncio.Event()

    def pass_by(self, moment: str, what: str) -> None:
        """Pass a point; the host may be dead afterwards, and does not notice yet."""
        if self.is_dead:
            return
        name = f"{moment} {what}"
        self.count += 1
        self.names[name] += 1
        self.on_point(name)
        if self._is_planned(name, self.count, self.names[name]):
            self.is_dead = True
            self._on_crash(name)
            self.died.set()

    def reach(self, moment: str, what: str) -> None:
        """Pass a point, and raise Crash if the host is dead then."""
        self.pass_by(moment, what)
        self.stop_if_dead()

    def stop_if_dead(self) -> None:
        """Raise Crash in a task of a host that is dead, or that goes in circles."""
        self.steps += 1
        if self.on_circle is not None and self.steps == STEPS_MAX:
            self.is_dead = True
            self.on_circle()
        if self.is_dead:
            raise Crash


class CrashingBackend:
    """A backend with a point before and after every write, and on request every read."""

    def __init__(self, backend: Backend, points: CrashPoints, *, with_reads: bool = False) -> None:
        self._backend = backend
        self._transact = backend.transact
        self._points = points
        self._with_reads = with_reads

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        """Read as any other reader does."""
        return await self.transact(body, Durability.READ)

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run a verb, unless the host crashes before it or right after."""
        if durability is Durability.READ and not self._with_reads:
            return await self._read(body)
        verb = getattr(body, "__name__", "a transaction")
        self._points.reach(BEFORE, verb)
        result = await self._write(body, durability)
        self._points.reach(AFTER, verb)
        return result

    async def _read(self, body: Callable[[Transaction], R]) -> R:
        self._points.stop_if_dead()
        result = await self._transact(body, Durability.READ)
        self._points.stop_if_dead()
        return result

    async def _write(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        return await self._transact(body, durability)

    async def sync(self) -> None:
        """Return when everything committed so far is durable."""
        await self._backend.sync()

    async def close(self) -> None:
        """Give the database back."""
        await self._backend.close()


class CrashingStore:
    """Takes over the transactions of a store: it crashes where planned and returns none after it.

    CrashingStore(store, at={"record": "before"})
    """

    def __init__(
        self,
        store: Store,
        at: Mapping[str, Moment] | None = None,
        *,
        on_crash: Callable[[], None] = lambda: None,
    ) -> None:
        self._planned: dict[str, str] = {}  # by verb, the name of its point
        self._planned_nth: tuple[str, int] | None = None
        self._backend = store.backend
        self.points = CrashPoints(self._is_planned, lambda name: on_crash())
        self.plan(at or {})
        # On the instance: a caller that already holds this store or its backend meets the crash
        # too, and the backend is still of the class that its backups need.
        crashing: Any = CrashingBackend(store.backend, self.points, with_reads=True)
        object.__setattr__(store.backend, "transact", crashing.transact)
        object.__setattr__(store.backend, "ask", crashing.ask)

    def plan(self, at: Mapping[str, Moment]) -> None:
        """Crash at the next call of each of these verbs, before it begins or after it returned."""
        for verb, moment in at.items():
            if verb not in VERBS:
                raise ConfigError(f"The store has no verb {verb}. {suggest(verb, VERBS)}")
            if moment not in MOMENTS:
                raise ConfigError(f"{verb}: {moment!r} is no moment; say before or after.")
            self._planned[verb] = f"{moment} {verb}"

    def plan_nth(self, name: str, nth: int) -> None:
        """Crash when this point is passed for the nth time, as `points.names` counts."""
        self._planned_nth = name, nth

    def kill(self) -> None:
        """Return no result from now on; every call raises Crash."""
        self.points.is_dead = True

    async def close(self) -> None:
        """Give the database back, as the end of a process does."""
        self.kill()
        await self._backend.close()

    def _is_planned(self, name: str, count: int, times: int) -> bool:
        return name in self._planned.values() or (name, times) == self._planned_nth
