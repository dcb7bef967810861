"""Power cuts through the backend that ships: at every operation on the disk, in three ways.

Every run of a workload is cut before every single write, sync, truncation and removal. What is
left is opened again: the file is sound, what it holds is a beginning of the commit order, and
nothing that a barrier confirmed is missing (L2, H3). Two controls show that the test can see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest

from duly.store.base import Durability
from duly.store.sqlite import Schema, SqliteBackend, open_sqlite
from tests.store import notebook
from tests.store.virtual import VirtualEnv
from verification.disk import Loss, MemoryDisk

CUTS_WANTED = 1_000
SEEDS = range(10)
SEEDS_OF_CONTROLS = range(2)
CHECKPOINT_PAGES = 12
ROUNDS = 12

Confirm = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is done to a store before its power fails, and how its history is read back.

    `play` confirms the name of a fact when a barrier has returned for it; `read` answers the names
    of all facts in the order in which they were committed.
    """

    schema: Schema
    play: Callable[[SqliteBackend, Random, Confirm], Awaitable[None]]
    read: Callable[[SqliteBackend], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Cut:
    """What the disk held when the power failed, and what had been confirmed by then."""

    operation: int
    loss: Loss
    files: dict[str, bytes]
    confirmed: int


@dataclass(slots=True)
class Findings:
    """What was wrong after how many cuts."""

    cuts: int = 0
    lost: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return self.lost + self.reordered + self.damaged


async def play_notebook(backend: SqliteBackend, random: Random, confirm: Confirm) -> None:
    """Write lines of all sizes, alone and together, some of them failing."""

    async def call(label: str) -> None:
        size_bytes = random.choice([10, 300, 3_000, 9_000])
        durability = Durability.BARRIER if random.random() < 0.3 else Durability.RIDER
        if random.random() < 0.15:
            with pytest.raises(notebook.ChangedItsMind):
                await backend.transact(notebook.write_and_fail(label, size_bytes), durability)
            return
        await backend.transact(notebook.write(label, size_bytes), durability)
        if durability is Durability.BARRIER:
            confirm(label)

    for round_number in range(ROUNDS):
        callers = random.randrange(1, 6)
        await asyncio.gather(*(call(f"{round_number}.{number}") for number in range(callers)))


async def read_notebook(backend: SqliteBackend) -> list[str]:
    return await backend.transact(notebook.read, Durability.READ)


NOTEBOOK = Workload(notebook.SCHEMA, play_notebook, read_notebook)


async def examine(
    workload: Workload,
    seed: int,
    *,
    synchronous: str | None = None,
    every: int = 1,
    first: int = 0,
    is_direct: bool = False,
) -> Findings:
    """Play a workload, cut the power before each operation, and look at what each cut left.

    Who need not look at all of them looks at every so many, beginning with the `first`. Where jobs
    wait in the queue their callers return in the order of the commits; where some run at once they
    need not.
    """
    confirmed: list[str] = []
    cuts: list[Cut] = []
    known: dict[bytes, bytes] = {}
    chance = Random(seed)
    numbers = count()

    def cut() -> None:
        for loss in Loss:
            number = next(numbers)
            if number % every != first:
                continue
            # Most of what a cut leaves is what the cut before it left: it is kept once.
            left = disk.cut_power(loss, chance)
            files = {name: known.setdefault(content, content) for name, content in left.items()}
            cuts.append(Cut(number // len(Loss), loss, files, len(confirmed)))

    disk = MemoryDisk(on_operation=cut, synchronous=synchronous)
    backend = await open_sqlite(
        disk,
        VirtualEnv(),
        schema=workload.schema,
        checkpoint_pages=CHECKPOINT_PAGES,
        is_direct=is_direct,
    )
    await workload.play(backend, Random(seed), confirmed.append)
    history = await workload.read(backend)
    await backend.close()
    findings = Findings()
    for left in cuts:
        await look(workload, left, history, confirmed[: left.confirmed], findings)
    return findings


async def look(
    workload: Workload, cut: Cut, history: list[str], confirmed: list[str], findings: Findings
) -> None:
    """Open what a cut has left and note what is wrong with it."""
    findings.cuts += 1
    place = f"operation {cut.operation}, lost {cut.loss}"
    disk = MemoryDisk(cut.files)
    try:
        backend = await open_sqlite(disk, VirtualEnv(), schema=workload.schema)
        await backend.integrity_check(full=True)
        found = await workload.read(backend)
    except Exception as error:
        findings.damaged.append(f"{place}: {error!r}")
        return
    finally:
        disk.drop()
    if found != history[: len(found)]:
        findings.reordered.append(f"{place}: {found}")
    missing = set(confirmed) - set(found)
    if missing:
        findings.lost.append(f"{place}: {sorted(missing)}")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_barrier_confirmed_survives_every_power_cut(seed: int) -> None:
    """L2, H3: nothing confirmed is lost, nothing is torn, and the file is sound."""
    findings = asyncio.run(examine(NOTEBOOK, seed))
    assert findings.problems == []
    assert findings.cuts >= CUTS_WANTED * len(Loss) / len(SEEDS)


def test_a_power_cut_during_the_opening_after_a_power_cut_loses_nothing() -> None:
    """L2, H3: recovery may itself be cut anywhere."""

    async def story() -> None:
        confirmed: list[str] = []
        disk = MemoryDisk()
        backend = await open_sqlite(disk, VirtualEnv(), schema=notebook.SCHEMA)
        await play_notebook(backend, Random(0), confirmed.append)
        history = await read_notebook(backend)
        second = MemoryDisk(disk.cut_power(Loss.TAIL, Random(0)))
        disk.drop()
        cuts: list[Cut] = []
        second.on_operation = lambda: cuts.extend(
            Cut(len(cuts), loss, second.cut_power(loss, Random(len(cuts))), len(confirmed))
            for loss in Loss
        )
        await open_sqlite(second, VirtualEnv(), schema=notebook.SCHEMA)
        second.drop()
        findings = Findings()
        for cut in cuts:
            await look(NOTEBOOK, cut, history, confirmed, findings)
        assert findings.cuts > 0
        assert findings.problems == []

    asyncio.run(story())


@pytest.mark.parametrize("seed", SEEDS_OF_CONTROLS)
def test_control_barriers_turned_into_riders_are_lost(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L2: without its sync a barrier is lost, and this test sees it."""
    monkeypatch.setattr("duly.store.writer.Writer._sync", lambda writer: None)
    findings = asyncio.run(examine(NOTEBOOK, seed))
    assert findings.lost
    assert not findings.reordered
    assert not findings.damaged


@pytest.mark.parametrize("seed", SEEDS_OF_CONTROLS)
def test_control_a_disk_that_orders_nothing_is_caught(seed: int) -> None:
    """L2, H3: with `synchronous=off` a checkpoint may destroy what was confirmed."""
    findings = asyncio.run(examine(NOTEBOOK, seed, synchronous="off"))
    assert findings.problems
