"""The isolation exam: two verbs at once, one of them stopped after each of its statements.

Whatever the server lets happen must be what one of the two serial orders gives: the same rows, and
the same results or refusals. One of the two may also be refused because the other was faster
(`Stale`): then the store must be as if it had never been called. It is deterministic: a verb is
stepped statement by statement, and the server says when the other one waits for a lock.

The states and the calls are those of the store's exam, so every writing verb takes part. A pair is
two cases in the state of the first one.

    python -m tests.postgres.pairs            every pair: an hour of a busy machine
    python -m tests.postgres.pairs 40 3       every 40th pair, beginning with the third
    python -m tests.postgres.pairs 1 600 900  the pairs from 600 up to, and without, 900
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from duly.errors import DulyError
from duly.store import Store, queries
from duly.store.base import Durability, Row, Transaction
from duly.store.dialect import number
from duly.store.postgres_session import Beside, ServerSession
from duly.store.transaction import AtOnce
from duly.store.turn import TurnTaken
from tests.postgres.server import address, server
from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import SCHEMA, Case
from tests.store.test_exam_complete import VERBS, sat_trials

PATIENCE_S: Final = 60.0
R = TypeVar("R")
Body = Callable[[Transaction], Any]
# Only one host does this, before it is one: it writes what no other host writes.
NOT_BESIDE: Final = frozenset({"recover_bus"})
# A host joins once under its id.
ONCE: Final = frozenset({"join"})


class Captured(Exception):  # no error: a way out with what was found
    """The transaction that a call would run."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body


class Capture:
    """A backend that runs nothing, and hands out what it was to run."""

    async def transact(self, body: Body, durability: Durability) -> Any:
        """Hand out a transaction instead of running it."""
        raise Captured(body)

    ask = transact


@dataclass
class Gate(AtOnce):
    """A transaction that stops after so many statements, until it is let go."""

    inner: Transaction
    stop_after: int | None
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    count: int = 0

    def all(self, statement: str, /, **parameters: Any) -> list[Row]:
        """Run a statement."""
        return self._after(self.inner.all(statement, **parameters))

    def one(self, statement: str, /, **parameters: Any) -> Row | None:
        """Run a statement."""
        return self._after(self.inner.one(statement, **parameters))

    def run(self, statement: str, /, **parameters: Any) -> int:
        """Run a statement."""
        return self._after(self.inner.run(statement, **parameters))

    @property
    def clock_ms(self) -> int:
        """Show a clock that stands still."""
        return self.inner.clock_ms

    @property
    def timeline(self) -> int | None:
        """Tell one history."""
        return self.inner.timeline

    @property
    def seal_key(self) -> bytes | None:
        """Return the key of the exam."""
        return self.inner.seal_key

    def _after(self, result: R) -> R:
        self.count += 1
        if self.count == self.stop_after:
            self.reached.set()
            assert self.go.wait(PATIENCE_S)
        return result


@dataclass(frozen=True)
class Pair:
    """Two cases of the exam, in the state of the first."""

    first: Case
    second: Case

    @property
    def name(self) -> str:
        """Name the pair for a test."""
        return f"{self.first.name}, and {self.second.name}"


def cases() -> list[Case]:
    """List every case of the exam whose verb writes."""
    found = {id(each.case): each.case for each in sat_trials()}
    return [
        each
        for each in found.values()
        if isinstance(each, Case)
        and each.store is Store
        and VERBS[each.verb].durability is not Durability.READ
        and each.verb not in NOT_BESIDE
    ]


def pairs() -> list[Pair]:
    """List every pair; a verb beside itself is one too."""
    known = cases()
    every = (Pair(first, second) for first in known for second in known)
    return [each for each in every if not (each.first is each.second and each.first.verb in ONCE)]


Outcome = tuple[str, str]
STALE: Final[Outcome] = ("Stale", "changed_meanwhile")
Rows = tuple[tuple[str, str], ...]  # of each table, all in one text
State = tuple[Rows, Outcome, Outcome]
Alone = tuple[tuple[Rows, Outcome], ...]


class Isolation:
    """One database, two connections to it, and the states that are brought back."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._world = PostgresWorld(place)
        self._url = address(place.folder, self._world._name)
        own = queries.load("postgres")
        statements = number(dict(SCHEMA.statements) | own)
        self._sessions = [ServerSession(self._url, each, statements, statements) for each in (0, 1)]
        self._beside = Beside(clock=lambda: 0)
        self._admin = psycopg.connect(self._url, autocommit=True)
        self.tried = self.waited = self.stale = 0
        self.passed_over = 0  # pairs of which one verb cannot be called in the state of the other
        self._arranged: Case | None = None
        self._given: dict[str, Any] = {}
        found = self._admin.execute("select tablename from pg_tables where schemaname = 'public'")
        self._tables = [name for (name,) in found.fetchall() if name not in ("store", "slot")]
        parts = (
            f"select '{each}', coalesce(string_agg(t::text, chr(10) order by t::text), '')"
            f' from "{each}" t'
            for each in self._tables
        )
        self._has_kept = False
        self._kept: Rows = ()
        self._back: dict[str, list[str]] = {}  # of each table, how its rows are brought back
        self._moved: list[str] = []  # tables that are not as they were kept
        self._dumping = " union all ".join(parts).encode()

    async def close(self) -> None:
        """Give everything back."""
        for each in self._sessions:
            each.close()
        self._admin.close()
        await self._world.close()

    async def arrange(self, pair: Pair) -> tuple[Body, Body] | None:
        """Make the state of a pair and keep it; return the two verbs, if both can be called.

        Pairs with the same first case, one after the other, share its state.
        """
        if self._arranged is not pair.first:
            self._empty()
            self._world.kept.clear()
            await self._world.open()
            await pair.first.arrange(self._world)
            await self._world._leave()
            self._keep()
            self._arranged, self._given = pair.first, dict(self._world.kept)
        bodies = []
        for case in (pair.first, pair.second):
            self._world.kept = dict(self._given)
            store, self._world.store = self._world.store, Store(Capture())  # type: ignore[arg-type]
            try:
                await case.call(self._world)
            except Captured as found:
                bodies.append(found.body)
            except Exception:
                break  # it needs what its own state has
            finally:
                self._world.store = store
        return (bodies[0], bodies[1]) if len(bodies) == 2 else None

    def wrong(self, first: Body, second: Body, *, both: bool = True) -> Iterator[str]:
        """Try every interleaving of two verbs; say which is like no serial order.

        First one is stopped after each of its statements, then the other one.
        """
        alone = (self._alone(first), self._alone(second))
        one, count = self._serial(first, second)
        reverse, other_count = self._serial(second, first)
        yield from self._stopped(first, second, count, alone, (one, _turned(reverse)))
        if both:
            for each in self._stopped(
                second, first, other_count, alone[::-1], (reverse, _turned(one))
            ):
                yield f"the second: {each}"

    def _stopped(
        self, first: Body, second: Body, count: int, alone: Alone, serial: tuple[State, State]
    ) -> Iterator[str]:
        for stop_after in range(1, count + 1):
            got = self._interleaved(first, stop_after, second)
            if got not in serial and not self._is_stale(got, alone):
                known = [each[0] for each in serial]
                rows = "" if got[0] in known else f"; rows of {_differing(got[0], known)}"
                orders = " or ".join(f"{told[0]}/{after[0]}" for _, told, after in serial)
                yield (
                    f"stopped after statement {stop_after} of {count}: {got[1][0]}/{got[2][0]}, "
                    f"serial {orders}{rows}"
                )

    def _serial(self, first: Body, second: Body) -> tuple[State, int]:
        self._bring_back()
        gate: list[Gate] = []
        told = self._perform(0, first, None, gate)
        after = self._perform(0, second, None, [])
        return (self._dump(), told, after), gate[0].count

    def _alone(self, body: Body) -> tuple[Rows, Outcome]:
        self._bring_back()
        told = self._perform(0, body, None, [])
        return self._dump(), told

    def _is_stale(self, got: State, alone: Alone) -> bool:
        """Tell whether one verb was refused because the other was faster, and did nothing."""
        rows, first, second = got
        is_so = (first == STALE and (rows, second) == alone[1]) or (
            second == STALE and (rows, first) == alone[0]
        )
        self.stale += is_so
        return is_so

    def _interleaved(self, first: Body, stop_after: int, second: Body) -> State:
        self.tried += 1
        self._bring_back()
        gates: list[Gate] = []
        told: dict[int, Outcome] = {}

        def work(number: int, body: Body, stop: int | None, into: list[Gate]) -> None:
            told[number] = self._perform(number, body, stop, into)

        one = threading.Thread(target=work, args=(0, first, stop_after, gates))
        one.start()
        while not gates or not (gates[0].reached.is_set() or not one.is_alive()):
            time.sleep(0.0002)
        other = threading.Thread(target=work, args=(1, second, None, []))
        other.start()
        while other.is_alive():
            other.join(0.001)
            if other.is_alive() and self._is_waiting():
                self.waited += 1
                break
        gates[0].go.set()
        one.join(PATIENCE_S)
        other.join(PATIENCE_S)
        return self._dump(), told[0], told[1]

    def _perform(self, number: int, body: Body, stop: int | None, into: list[Gate]) -> Outcome:
        def gated(tx: Transaction) -> Any:
            # What is run again because of a deadlock is not stopped a second time.
            gate = Gate(tx, stop if not into else None)
            into.append(gate)
            return body(gate)

        try:
            value = self._sessions[number].run(gated, Durability.RIDER, self._beside, None)
        except DulyError as error:
            return type(error).__name__, error.code
        except psycopg.Error as error:
            return f"{type(error).__name__}: {error}", ""
        return "done", repr(_in_order(value))

    def _is_waiting(self) -> bool:
        asked = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
        return self._admin.execute(asked, (self._world._name,)).fetchone() is not None

    # -- States ---------------------------------------------------------------------------------

    def _empty(self) -> None:
        parts = [
            "update counter set value = 0" if each == "counter" else f'delete from "{each}"'
            for each in self._tables
        ]
        self._execute(parts)

    def _keep(self) -> None:
        """Keep the state in tables beside; which columns there are does not change."""
        if not self._has_kept:
            self._has_kept = True
            tables = (
                f'create unlogged table kept."{each}" (like "{each}")' for each in self._tables
            )
            made = ["drop schema if exists kept cascade", "create schema kept", *tables]
            self._execute(made)
        parts = [f'delete from kept."{each}"' for each in self._tables]
        parts += [f'insert into kept."{each}" select * from "{each}"' for each in self._tables]
        self._execute(parts)
        filled = " union all ".join(
            f"select '{each}' where exists (select 1 from kept.\"{each}\")" for each in self._tables
        )
        kept = [name for (name,) in self._admin.execute(filled.encode()).fetchall()]
        self._back = {each: [f'delete from public."{each}"'] for each in self._tables}
        for each in kept:
            self._back[each] += [f'insert into public."{each}" select * from kept."{each}"']
        self._kept = self._dump()
        self._moved = []

    def _bring_back(self) -> None:
        """Bring back what was changed since: all of it is more than ten times the work."""
        self._execute(part for each in self._moved for part in self._back[each])

    def _execute(self, parts: Iterable[str]) -> None:
        text = "; ".join(
            ["begin", "set local session_replication_role = replica", *parts, "commit"]
        )
        self._admin.execute(text.encode())

    def _dump(self) -> Rows:
        """Read every table; which of them comes first is the server's to choose."""
        rows = tuple(sorted(self._admin.execute(self._dumping).fetchall()))
        self._moved = [name for name, text in rows if (name, text) not in self._kept]
        return rows


def _in_order(value: Any) -> Any:
    """Put in order what a verb leaves to its caller to put in order."""
    if not isinstance(value, TurnTaken):
        return value
    handlers = tuple(sorted(value.outlook.handlers, key=lambda each: each.position))
    return replace(value, outlook=replace(value.outlook, handlers=handlers))


def _turned(state: State) -> State:
    rows, first, second = state
    return rows, second, first


def _differing(got: Rows, known: Sequence[Rows]) -> str:
    """Name the tables that are as in none of the known states."""
    tables = (each for each in got if not any(each in rows for rows in known))
    return ", ".join(name for name, _ in tables) or "each table like one of them"


async def examine(isolation: Isolation, chosen: Iterable[Pair]) -> list[str]:
    """Sit the exam for some pairs; return what is wrong."""
    found = []
    for pair in chosen:
        bodies = await isolation.arrange(pair)
        if bodies is None:
            isolation.passed_over += 1
            continue
        both = pair.first is not pair.second
        found += [f"{pair.name}: {each}" for each in isolation.wrong(*bodies, both=both)]
    return found


async def _sit(place: Place, chosen: list[Pair]) -> int:
    isolation = Isolation(place)
    began = time.monotonic()
    wrong = 0
    for number_, pair in enumerate(chosen, 1):
        for each in await examine(isolation, [pair]):
            wrong += 1
            print(each, flush=True)
        if number_ % 100 == 0:
            said = f"{isolation.tried} interleavings, {isolation.waited} waited, {wrong} wrong"
            print(f"{number_} of {len(chosen)} pairs: {said}", flush=True)
    took_s = time.monotonic() - began
    told = f"{isolation.tried} interleavings, {isolation.waited} waited for a lock"
    said = f"{isolation.stale} refused as stale, {wrong} like no serial order"
    over = f"{isolation.passed_over} of them cannot be called in one state"
    print(f"{len(chosen)} pairs, {over}; {told}, {said}, {took_s:.0f} s")
    await isolation.close()
    return wrong


def _main(step: int, first: int = 0, end: int | None = None) -> int:
    with tempfile.TemporaryDirectory(prefix="duly-pairs-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "server"
        with server(folder):
            place = Place(folder, str(os.getpid()))
            wrong = asyncio.run(_sit(place, pairs()[first:end:step]))
            place.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    sys.exit(_main(*given) if given else _main(1, 0))
