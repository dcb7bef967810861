"""A worker that a test left clean serves the next one, and no other worker does."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from duly.env import Loop
from duly.sandbox import pool
from duly.sandbox.pool import Pool, Worker
from duly.sandbox.python_process import PythonWorker
from tests import spare
from tests.breaks import BREAK_VARIABLE
from tests.spare import SHELF, Shelf
from tests.warm import INSIDE

KINDS: list[Callable[[Loop], Worker]] = [Worker, PythonWorker]


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end with no spare worker; have the shelf where a mutant's run has none."""
    for place, name in ((Worker, "__init__"), (Worker, "ready"), (Pool, "close")):
        monkeypatch.setattr(place, name, getattr(place, name))
    if Pool.close.__module__ != spare.__name__:
        monkeypatch.delenv(BREAK_VARIABLE, raising=False)
        monkeypatch.delenv(INSIDE, raising=False)
        SHELF.install()
    SHELF.empty()
    yield
    SHELF.empty()


async def borrow(kind: Callable[[Loop], Worker], *, is_clean: bool = True) -> int:
    """Let a pool start a worker, take it back and close; return which process it was."""
    made = Pool(Loop(), worker=kind)  # type: ignore[arg-type]
    worker = await made.take("a")
    worker.is_clean = is_clean
    pid = worker.pid
    await made.give_back(worker)
    await made.close()
    return pid


@pytest.mark.parametrize("kind", KINDS)
async def test_a_clean_worker_serves_the_next_pool(kind: Callable[[Loop], Worker]) -> None:
    first = await borrow(kind)
    assert [await borrow(kind) for _ in range(3)] == [first] * 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_that_stood_in_a_turn_is_ended(kind: Callable[[Loop], Worker]) -> None:
    first = await borrow(kind, is_clean=False)
    assert await borrow(kind) != first


async def test_a_worker_that_spoke_unasked_is_not_kept() -> None:
    made = Pool(Loop())
    worker = await made.take("a")
    await made.give_back(worker)
    worker._channel._buffer += b"x"
    await made.close()
    assert await borrow(Worker) != worker.pid


async def test_a_worker_that_died_on_the_shelf_is_not_given_out() -> None:
    first = await borrow(Worker)
    os.kill(first, signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert await borrow(Worker) != first


async def test_a_kind_is_its_class_and_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    first = await borrow(Worker)
    assert await borrow(PythonWorker) != first
    monkeypatch.setattr(pool, "PROGRAM", f"{pool.PROGRAM}  # another")
    assert await borrow(Worker) != first


async def test_a_test_that_wants_its_own_gets_and_leaves_none() -> None:
    first = await borrow(Worker)
    SHELF.is_open = False
    own = await borrow(Worker)
    assert own != first
    SHELF.is_open = True
    assert await borrow(Worker) == first


async def test_no_worker_is_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare, "USES_MAX", 2)
    assert len({await borrow(Worker) for _ in range(5)}) == 2


def test_a_run_under_a_break_has_no_shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the pool is broken on purpose, nothing stands between it and its workers."""
    before = Pool.close
    monkeypatch.setenv(BREAK_VARIABLE, "C8: says")
    Shelf().install()
    assert Pool.close is before
