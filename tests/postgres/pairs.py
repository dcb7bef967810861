"""The isolation exam: two verbs at once, one of them stopped between any two of its statements.

Whatever the server lets happen must be what one of the two serial orders gives: the same rows, and
the same results or refusals. One of the two may also be refused because the other was faster
(`Stale`): then the store must be as if it had never been called.

The verbs run as they ship: statements are sent ahead in batches, and their guards are checked by
the server. So it is the server that stops: before the chosen statement of a batch stands one that
waits for a lock of the exam. It is deterministic: the server says when a verb has come there, and
when the other one waits for it.

The states and the calls are those of the store's exam, so every writing verb takes part. A pair is
two cases in the state of the first one; if the second cannot be called there, in the states of
both, one made after the other. Where two states cannot be in one store, the pair sits only as the
second beside the first: `Seats` counts who sat where. A pair that is left out is in `APART`.

    python -m tests.postgres.pairs                   every pair
    python -m tests.postgres.pairs 40 3              every 40th pair, beginning with the third
    python -m tests.postgres.pairs 1 600 900         the pairs from 600 up to, and without, 900
    python -m tests.postgres.pairs --of forget send  every pair that has one of these verbs
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psycopg

from bench.fleet.crew import server_cpu_s
from duly.errors import DulyError
from duly.store import Store, queries
from duly.store.base import Durability
from duly.store.dialect import number
from duly.store.postgres_session import Beside, ServerSession
from duly.store.turn import TurnTaken
from tests.postgres.server import address, server, superuser
from tests.postgres.stopped import HOLD, LET_GO, OWN, WAITING, Body, Capture, Captured, StoppedLine
from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import SCHEMA, Case
from tests.store.test_exam_complete import VERBS, sat_trials

PATIENCE_S: Final = 60.0
# Only one host does this, before it is one: it writes what no other host writes.
NOT_BESIDE: Final = frozenset({"recover_bus"})
NO_CALL: Final = (
    "no store has both states: a slip is about a call that waits, and a run that commits what it"
    " read has none; the two verbs sit together in other cases of theirs"
)
# What each pair finds is no fault, for a reason.
APART: Final = {
    ("hold_subscribers", "finish_delivery_and begin the next of the lane"): (
        "the next is begun without a host, as on a file, for a host that is gone; on a server the"
        " first statement of a host that is gone is refused (`test_slot.py`)"
    ),
    ("commit_run_with what it read", "move_slip"): NO_CALL,
    ("commit_producer_with what it read", "move_slip"): NO_CALL,
    ("move_slip", "commit_run_with what it read"): NO_CALL,
    ("move_slip", "commit_producer_with what it read"): NO_CALL,
}
# A host joins once under its id.
ONCE: Final = frozenset({"join"})


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
    return [
        each
        for each in every
        if not (each.first is each.second and each.first.verb in ONCE)
        and (each.first.name, each.second.name) not in APART
    ]


Outcome = tuple[str, str]
STALE: Final[Outcome] = ("Stale", "changed_meanwhile")
Rows = tuple[tuple[str, str], ...]  # of each table, all in one text
State = tuple[Rows, Outcome, Outcome]
Alone = tuple[tuple[Rows, Outcome], ...]


class Isolation:
    """One database, two connections to it, and the states that are brought back."""

    def __init__(self, place: Place, without: str = "") -> None:
        self._place = place
        self._world = PostgresWorld(place)
        self._url = address(place.folder, self._world._name)
        own = {name: each for name, each in queries.load("postgres").items() if name != without}
        statements = number(dict(SCHEMA.statements) | own)
        self._sessions = [ServerSession(self._url, each, statements, statements) for each in (0, 1)]
        self._lines: list[StoppedLine] = []
        for session in self._sessions:
            connection = session._open()[0]
            session._opened = connection, StoppedLine(connection)
            self._lines.append(session._opened[1])
        self._backends = [each._open()[0].info.backend_pid for each in self._sessions]
        self._beside = Beside(clock=lambda: 0)
        own_database = superuser(place.folder, self._world._name)
        self._admin = psycopg.connect(own_database, autocommit=True)
        self.tried = self.waited = self.stale = 0
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

    @property
    def inside(self) -> int:
        """How often a verb was stopped before a statement that was sent with the one before it."""
        return sum(each.inside for each in self._lines)

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
            await self._begin()
            await pair.first.arrange(self._world)
            await self._end()
            self._arranged, self._given = pair.first, dict(self._world.kept)
        first = await self._call(pair.first)
        second = await self._call(pair.second)
        return (first, second) if first and second else None

    async def arrange_both(self, pair: Pair) -> tuple[Body, Body] | None:
        """Make the state of the first case, and that of the second after it, if it can be."""
        self._arranged, self._given = None, {}
        await self._begin()
        try:
            await pair.first.arrange(self._world)
            self._given = dict(self._world.kept)
            first = await self._call(pair.first)
            await pair.second.arrange(self._world)
            self._given = dict(self._world.kept)
            second = await self._call(pair.second)
        except DulyError:  # the second state has what the first one has already
            return None
        finally:
            await self._end()
        return (first, second) if first and second else None

    async def _begin(self) -> None:
        self._empty()
        self._world.kept.clear()
        await self._world.open()

    async def _end(self) -> None:
        await self._world._leave()
        self._keep()

    async def _call(self, case: Case) -> Body | None:
        """Return what a case would run; nothing if it needs what only its own state has."""
        self._world.kept = dict(self._given)
        store, self._world.store = self._world.store, Store(Capture())  # type: ignore[arg-type]
        try:
            await case.call(self._world)
        except Captured as found:
            return found.body
        except Exception:
            return None
        finally:
            self._world.store = store
        return None

    def wrong(self, first: Body, second: Body, *, both: bool = True) -> Iterator[str]:
        """Try every interleaving of two verbs; say which is like no serial order.

        First one is stopped before each of its statements, then the other one.
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
        # Before its first own statement it has locked and read nothing: that is a serial order.
        for stop_before in range(OWN + 1, count + 1):
            got = self._interleaved(first, stop_before, second)
            if got is None:
                assert serial[0][1][0] != "done", "it never came to a statement that it sent"
                return
            if got not in serial and not self._is_stale(got, alone):
                known = [each[0] for each in serial]
                rows = "" if got[0] in known else f"; rows of {_differing(got[0], known)}"
                orders = " or ".join(_said(*each) for each in serial)
                where = f"stopped before statement {stop_before} of {count}"
                yield f"{where}: {_said(*got)}, serial {orders}{rows}"

    def _serial(self, first: Body, second: Body) -> tuple[State, int]:
        self._bring_back()
        told = self._perform(0, first)
        count = self._lines[0].sent
        after = self._perform(0, second)
        return (self._dump(), told, after), count

    def _alone(self, body: Body) -> tuple[Rows, Outcome]:
        self._bring_back()
        told = self._perform(0, body)
        return self._dump(), told

    def _is_stale(self, got: State, alone: Alone) -> bool:
        """Tell whether one verb was refused because the other was faster, and did nothing."""
        rows, first, second = got
        is_so = (first == STALE and (rows, second) == alone[1]) or (
            second == STALE and (rows, first) == alone[0]
        )
        self.stale += is_so
        return is_so

    def _interleaved(self, first: Body, stop_before: int, second: Body) -> State | None:
        self._bring_back()
        told: dict[int, Outcome] = {}

        def work(number: int, body: Body, stop: int | None = None) -> None:
            told[number] = self._perform(number, body, stop)

        self._admin.execute(HOLD)
        one = threading.Thread(target=work, args=(0, first, stop_before))
        one.start()
        while one.is_alive() and not self._waiting()[0]:
            one.join(0.0005)
        if not one.is_alive():  # the server refused a statement before, and ran nothing after it
            self._admin.execute(LET_GO)
            return None
        self.tried += 1
        other = threading.Thread(target=work, args=(1, second))
        other.start()
        while other.is_alive():
            other.join(0.001)
            if other.is_alive() and self._waiting()[1]:
                self.waited += 1
                break
        self._admin.execute(LET_GO)
        one.join(PATIENCE_S)
        other.join(PATIENCE_S)
        return self._dump(), told[0], told[1]

    def _perform(self, number: int, body: Body, stop_before: int | None = None) -> Outcome:
        self._lines[number].stop_before = stop_before
        try:
            value = self._sessions[number].run(body, Durability.RIDER, self._beside, None)
        except DulyError as error:
            return type(error).__name__, error.code
        except psycopg.Error as error:
            return f"{type(error).__name__}: {error}", ""
        return "done", repr(_in_order(value))

    def _waiting(self) -> tuple[bool, bool]:
        """Tell whether the first one has come to its stop, and whether the other one waits."""
        found = self._admin.execute(WAITING, self._backends).fetchone()
        assert found is not None
        return found

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


def _said(_: Rows, *outcomes: Outcome) -> str:
    said = (name if name == "done" else f"{name} {code}" for name, code in outcomes)
    return "/".join(said)


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


@dataclass
class Seats:
    """In which state pairs sat."""

    of_first: int = 0
    of_both: int = 0
    turned: list[str] = field(default_factory=list)  # they sit as the second beside the first
    never: list[str] = field(default_factory=list)

    async def find(self, isolation: Isolation, pair: Pair) -> tuple[Body, Body] | None:
        """Make a state in which both verbs of a pair can be called; nothing if it sits turned."""
        if (bodies := await isolation.arrange(pair)) is not None:
            self.of_first += 1
        elif (bodies := await isolation.arrange_both(pair)) is not None:
            self.of_both += 1
        else:
            turned = await isolation.arrange(Pair(pair.second, pair.first))
            (self.never if turned is None else self.turned).append(pair.name)
        return bodies

    def __str__(self) -> str:
        return (
            f"{self.of_first} in the state of the first, {self.of_both} in both, "
            f"{len(self.turned)} only as the second beside the first, {len(self.never)} never"
        )


async def examine(isolation: Isolation, chosen: Iterable[Pair], seats: Seats) -> list[str]:
    """Sit the exam for some pairs; return what is wrong."""
    found = []
    for pair in chosen:
        if (bodies := await seats.find(isolation, pair)) is None:
            continue
        both = pair.first is not pair.second
        found += [f"{pair.name}: {each}" for each in isolation.wrong(*bodies, both=both)]
    return found + [f"{each}: it never sits" for each in seats.never]


async def _sit(place: Place, chosen: list[Pair]) -> int:
    isolation, seats = Isolation(place), Seats()
    began_s, wrong = time.monotonic(), list[str]()
    for number_, pair in enumerate(chosen, 1):
        found = await examine(isolation, [pair], seats)
        wrong += found
        print(*found, sep="\n", end="\n" * bool(found), flush=True)
        seats.never.clear()  # it has been said
        if number_ % 100 == 0:
            said = f"{isolation.tried} interleavings, {isolation.waited} waited, {len(wrong)} wrong"
            print(f"{number_} of {len(chosen)} pairs: {said}", flush=True)
    print(*wrong, sep="\n", end="\n" * bool(wrong))  # again: a proof keeps the end of this
    took_s = time.monotonic() - began_s
    cpu_s = time.process_time(), server_cpu_s(place.folder)
    print(f"{len(chosen)} pairs: {seats}; {len(APART)} left out for a reason")
    print(f"{isolation.tried} interleavings, {isolation.inside} of them inside a batch, ", end="")
    print(f"{isolation.waited} waited for a lock, ", end="")
    print(f"{isolation.stale} refused as stale, {len(wrong)} wrong; {took_s:.0f} s, ", end="")
    print(f"{cpu_s[0]:.0f} s of processor time, and {cpu_s[1]:.0f} s of the server's")
    await isolation.close()
    return len(wrong)


def main() -> int:
    """Sit the exam on a server of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("step", nargs="?", type=int, default=1)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("end", nargs="?", type=int)
    parser.add_argument("--of", nargs="+", metavar="VERB", default=())
    given = parser.parse_args()
    verbs = set(given.of)
    every = [each for each in pairs() if not verbs or {each.first.verb, each.second.verb} & verbs]
    with tempfile.TemporaryDirectory(prefix="duly-pairs-") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "server"
        with server(folder):
            place = Place(folder, str(os.getpid()))
            wrong = asyncio.run(_sit(place, every[given.first : given.end : given.step]))
            place.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
