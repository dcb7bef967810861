"""The exam that every verb of the store sits: effect, refusals, crash, a second identical call.

Law: a verb is one transaction. It does what it says, or it raises and not one row has changed;
what it did outlives the process; and a second identical call does what its case declares, never
the same thing twice in silence.

A case says how to bring a fresh store into the state the verb needs, and how to call it:

    SEND = Case(
        verb="send",                                  # the name in `Store`
        arrange=a_prepared_run,                       # async (world) -> None
        call=send_it,                                 # async (world) -> the verb's answer
        effect=it_is_in_flight,                       # async (world, answer) -> None, asserts
        refusals=(Refusal("a run that was dropped", Stale, broken=drop_the_run),),
        again=Again.STALE,
    )

    @pytest.mark.parametrize("trial", exam(SEND, …))
    async def test_the_ledger_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
        \"\"\"L2, R8: …\"\"\"
        await trial.sit(tmp_path)

`world.fence` is the right to write that `world.claim(workflow_id)` got, `world.kept` what the
case remembers. A call must be repeatable: its times and ids are constants, kept, or
`world.number()`. `test_exam_complete.py` fails when a verb has not sat all of this.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import apsw
import pytest

from duly.errors import Fenced, NotFound, RequestRefused, Stale
from duly.store import Store
from duly.store.base import Backend, Fence, Row
from duly.store.disk import FileDisk
from duly.store.mark import MARKS
from duly.store.sqlite import default_schema, open_sqlite
from tests.store.interruption import Interrupted, Interruption
from tests.store.virtual import VirtualEnv

R = TypeVar("R")

Dump = dict[str, list[Row]]

NOW = 1_000_000
FAR_MS = 10**12
STATEMENTS_MAX = 1_000
FILE = "duly.db"
SCHEMA = default_schema()


class FastDisk(FileDisk):
    """A disk nobody waits for: in this exam processes die, the power stays on."""

    def connect(self) -> apsw.Connection:
        self.connection = super().connect()
        return self.connection

    def settle(self) -> None:
        self.connection.pragma("synchronous", "off")

    def sync_wal(self) -> None:
        pass


class World:
    """A store in a folder of its own, and what a case wants to remember."""

    # The schema is made once; every other world begins with a copy of that empty store.
    _empty: ClassVar[bytes | None] = None

    def __init__(self, folder: Path, make: type[Store] = Store) -> None:
        self.store: Store
        self.fence = Fence("nobody has claimed a workflow", -1)
        self.kept: dict[str, Any] = {}
        self._make = make
        self._folder = folder
        self._numbers = 0
        self._heirs: list[World] = []
        self._backend: Backend
        self._disk: FastDisk

    async def open(self) -> World:
        """Open the store, making an empty one if there is none."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / FILE
        if World._empty is None:
            await (await open_sqlite(FastDisk(path), VirtualEnv(), schema=SCHEMA)).close()
            World._empty = path.read_bytes()
        if not path.exists():
            path.write_bytes(World._empty)
        self._disk = FastDisk(path)
        self._backend = await open_sqlite(self._disk, VirtualEnv(), schema=SCHEMA)
        self.store = self._make(self._backend)
        return self

    async def close(self) -> None:
        """Give back every store that was opened."""
        for heir in self._heirs:
            await heir.close()
        await self._backend.close()

    @property
    def connection(self) -> apsw.Connection:
        """The store's own connection, to look at what its verbs wrote."""
        return self._disk.connection

    async def claim(self, workflow_id: str, *, now: int = NOW) -> Fence:
        """Claim a workflow as a new host and keep the fence."""
        host = f"host {self.number()}"
        await self.store.join(host, now=now)
        self.fence = await self.store.claim(host, workflow_id)
        return self.fence

    def number(self) -> int:
        """Answer a number nobody had; the world after a crash goes on where this one stands."""
        self._numbers += 1
        return self._numbers

    def dump(self) -> Dump:
        """Read every row of every table; nobody else is let in, so through the store's own way."""
        execute = self.connection.execute
        tables = execute("select name from sqlite_schema where type = 'table'").fetchall()
        rows = {
            str(name): sorted(execute(f'select * from "{name}"'), key=repr) for (name,) in tables
        }
        # Every life of a store has marks of its own, which no verb reads or writes.
        rows["upkeep"] = [row for row in rows["upkeep"] if row[0] not in MARKS]
        return rows

    async def crash(self) -> World:
        """Answer a world over what a process that is killed now would leave on the disk.

        The operating system keeps what was written: database and log are copied as they lie
        there, while the connection that wrote them is still open.
        """
        heir = World(self._folder / f"heir_{len(self._heirs)}", self._make)
        heir._folder.mkdir()
        for path in self._folder.glob(f"{FILE}*"):
            if not path.name.endswith(("-shm", ".lock")):
                shutil.copyfile(path, heir._folder / path.name)
        heir.fence, heir.kept, heir._numbers = self.fence, dict(self.kept), self._numbers
        self._heirs.append(await heir.open())
        return heir

    def interrupt_after(self, statements: int) -> Interruption:
        """Let the store fail when it has run so many more statements."""
        interruption = Interruption(self._backend, statements)
        self.store = self._make(interruption)
        return interruption

    def go_on(self) -> None:
        """Let the store be itself again."""
        self.store = self._make(self._backend)


# -- What a case says ---------------------------------------------------------------------------

Arrange = Callable[[World], Awaitable[Any]]
Call = Callable[[World], Awaitable[Any]]
Effect = Callable[[World, Any], Awaitable[None]]


async def nothing(world: World) -> None:
    """Arrange nothing: the store is empty."""


class Again(StrEnum):
    """What a second identical call does; but for FREE, no row changes."""

    SAME = "gives the same answer"
    NOTHING = "gives another answer"
    STALE = "is stale"
    REFUSED = "is refused"
    MISSING = "finds nothing"
    FREE = "happens once more"


RAISED = {Again.STALE: Stale, Again.REFUSED: RequestRefused, Again.MISSING: NotFound}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A state or a call that the verb refuses: `broken` is arranged on top of the case."""

    says: str
    raises: type[Exception]
    broken: Arrange = nothing
    call: Call | None = None
    match: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A verb that writes; `effect_again` looks at what a FREE second call did.

    A verb that takes whatever it is given says in `never_refuses` why.
    """

    verb: str
    arrange: Arrange
    call: Call
    effect: Effect
    again: Again
    refusals: tuple[Refusal, ...] = ()
    effect_again: Effect | None = None
    never_refuses: str = ""
    says: str = ""
    store: type[Store] = Store

    @property
    def name(self) -> str:
        """The verb, and which of its cases this is."""
        return f"{self.verb}_{self.says}" if self.says else self.verb


@dataclass(frozen=True, slots=True)
class ReadCase:
    """A verb that reads; `edge` looks at a limit, an empty answer or the end of a page."""

    verb: str
    arrange: Arrange
    call: Call
    effect: Effect
    refusals: tuple[Refusal, ...] = ()
    edge: Arrange | None = None
    says: str = ""
    store: type[Store] = Store

    @property
    def name(self) -> str:
        """The verb, and which of its cases this is."""
        return f"{self.verb}_{self.says}" if self.says else self.verb


class Question(StrEnum):
    """The four questions; of a read only the first two are asked."""

    EFFECT = "effect"
    REFUSAL = "refusal"
    CRASH = "crash"
    AGAIN = "again"


QUESTIONS = frozenset(Question)
QUESTIONS_OF_A_READ = frozenset({Question.EFFECT, Question.REFUSAL})


@dataclass(frozen=True, slots=True)
class Trial:
    """One question put to one case, ready to be asked in an empty folder."""

    case: Case | ReadCase
    question: Question
    says: str
    ask: Callable[[World], Awaitable[None]]

    async def sit(self, folder: Path) -> None:
        """Ask the question in a world of SQLite."""
        await self.sit_in(World(folder / "world", self.case.store))

    async def sit_in(self, world: World) -> None:
        """Ask the question in a world that is empty."""
        await world.open()
        try:
            await self.ask(world)
        finally:
            await world.close()

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return f"{self.case.name}-{self.says}".replace(" ", "_")


def exam(*cases: Case | ReadCase) -> list[Any]:
    """Make the parameters of a test: every question to every case."""
    trials = [trial for case in cases for trial in trials_of(case)]
    return [pytest.param(trial, id=trial.name) for trial in trials]


def trials_of(case: Case | ReadCase) -> list[Trial]:
    """List the questions a case is asked."""

    def trial(question: Question, says: str, ask: Callable[..., Any], *more: Any) -> Trial:
        return Trial(case, question, says, partial(ask, case, *more))

    found = [
        trial(Question.REFUSAL, f"refuses {refusal.says}", ask_refusal, refusal)
        for refusal in case.refusals
    ]
    if isinstance(case, ReadCase):
        if case.edge is not None:
            found.append(trial(Question.REFUSAL, "at its edge", ask_edge))
        return [trial(Question.EFFECT, "effect", ask_read), *found]
    if is_fenced(case):
        found.append(trial(Question.REFUSAL, "refuses an old epoch", ask_epoch))
    return [
        trial(Question.EFFECT, "effect", ask_effect),
        *found,
        trial(Question.CRASH, "crash before", ask_crash_before),
        trial(Question.CRASH, "crash inside", ask_crash_inside),
        trial(Question.CRASH, "crash after", ask_crash_after),
        trial(Question.AGAIN, f"a second call {case.again}", ask_again),
    ]


def is_fenced(case: Case) -> bool:
    """Tell whether the verb asks for the right to write (H2)."""
    verb = getattr(case.store, case.verb)
    return "fence" in inspect.signature(getattr(verb, "body", verb)).parameters


# -- The questions ------------------------------------------------------------------------------


async def ask_effect(case: Case, world: World) -> None:
    """Ask whether the verb does what it says."""
    await case.arrange(world)
    await case.effect(world, await case.call(world))


async def ask_refusal(case: Case | ReadCase, refusal: Refusal, world: World) -> None:
    """Ask whether the verb refuses, and leaves every row as it was."""
    await case.arrange(world)
    await refusal.broken(world)
    await refuse(refusal.call or case.call, refusal.raises, world, match=refusal.match)


async def ask_epoch(case: Case, world: World) -> None:
    """Ask whether the holder of an old epoch is refused (H2)."""
    await case.arrange(world)
    old = world.fence
    await world.claim(old.workflow_id, now=FAR_MS)
    world.fence = old
    await refuse(case.call, Fenced, world)


async def ask_crash_before(case: Case, world: World) -> None:
    """Ask whether the call works after a crash, and does then what it does without one."""
    await case.arrange(world)
    heir = await world.crash()
    same(world.dump(), heir.dump(), "what a crash left")
    answer = await case.call(heir)
    await case.call(world)
    same(world.dump(), heir.dump(), "the call after a crash")
    await case.effect(heir, answer)


async def ask_crash_inside(case: Case, world: World) -> None:
    """Ask, after each statement in turn, whether a verb that fails there leaves nothing."""
    await case.arrange(world)
    before = world.dump()
    for statements in range(1, STATEMENTS_MAX):
        interruption = world.interrupt_after(statements)
        try:
            answer = await case.call(world)
        except Interrupted:
            same(before, world.dump(), f"the call that failed after statement {statements}")
            continue
        assert not interruption.happened, f"statement {statements} failed and nobody was told"
        assert statements > 1, "the call ran no statement at all"
        world.go_on()
        await case.effect(world, answer)
        return
    raise AssertionError(f"the call runs more than {STATEMENTS_MAX} statements")


async def ask_crash_after(case: Case, world: World) -> None:
    """Ask whether what was done is still there after a crash."""
    await case.arrange(world)
    answer = await case.call(world)
    heir = await world.crash()
    same(world.dump(), heir.dump(), "what a crash left")
    await case.effect(heir, answer)


async def ask_again(case: Case, world: World) -> None:
    """Ask whether a second identical call does what the case declares."""
    await case.arrange(world)
    first = await case.call(world)
    done = world.dump()
    if case.again in RAISED:
        await refuse(case.call, RAISED[case.again], world)
        return
    second = await case.call(world)
    if case.again is Again.FREE:
        if case.effect_again is not None:
            await case.effect_again(world, second)
        return
    same(done, world.dump(), "the second call")
    is_same = case.again is Again.SAME
    assert (second == first) is is_same, f"answered {first!r}, then {second!r}"


async def ask_read(case: ReadCase, world: World) -> None:
    """Ask whether a read answers what is there, and changes nothing."""
    await case.arrange(world)
    before = world.dump()
    await case.effect(world, await case.call(world))
    same(before, world.dump(), "the read")


async def ask_edge(case: ReadCase, world: World) -> None:
    """Ask what a read does at its limit."""
    assert case.edge is not None
    await case.arrange(world)
    await case.edge(world)


async def refuse(call: Call, raises: type[Exception], world: World, *, match: str = "") -> None:
    """See that a call raises, and that no row has changed."""
    before = world.dump()
    with pytest.raises(raises, match=match or None):
        await call(world)
    same(before, world.dump(), "the refused call")


def same(expected: Dump, found: Dump, what: str) -> None:
    """See that two dumps are the same, or say which rows are not."""
    lines = [
        f"  {sign} {table} {row}"
        for table in sorted(expected.keys() | found.keys())
        for sign, ours, theirs in (
            ("-", expected.get(table, []), found.get(table, [])),
            ("+", found.get(table, []), expected.get(table, [])),
        )
        for row in ours
        if row not in theirs
    ]
    assert not lines, "\n".join([f"{what} changed rows:", *lines])
