"""What those who watch a store are told, and when (U6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.env import Loop
from duly.store.base import Durability
from tests.store import notebook
from tests.store.notebook import write
from tests.store.test_sqlite import open_notebook, run

BARRIER, RIDER, READ = Durability.BARRIER, Durability.RIDER, Durability.READ


def test_each_write_is_told_to_those_who_watch_and_no_read_is(tmp_path: Path) -> None:
    """U6: a page that is open looks again after a write; one that failed has written nothing."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(tmp_path / "duly.db", env)
        told: list[str] = []
        backend.watchers |= {lambda: told.append("one"), lambda: told.append("two")}
        for durability in (RIDER, BARRIER, READ):
            body: Callable[[Any], object] = (
                notebook.read if durability is READ else write(durability)
            )
            await backend.transact(body, durability)
        with pytest.raises(notebook.ChangedItsMind):
            await backend.transact(notebook.write_and_fail("no", 10), RIDER)
        assert sorted(told) == ["one"] * 2 + ["two"] * 2
        backend.watchers.clear()
        await backend.transact(write("unseen"), RIDER)
        assert len(told) == 4
        await backend.close()

    run(story)


def test_a_write_whose_caller_was_cancelled_is_told_after_its_commit(tmp_path: Path) -> None:
    """U6: a caller that is cancelled after its job was taken has written; a watcher reads then."""

    async def story(env: Loop) -> None:
        backend = await open_notebook(tmp_path / "duly.db", env)
        here, go_on, is_over = threading.Event(), threading.Event(), threading.Event()
        told: list[bool] = []

        def slowly(tx: Any) -> None:
            write("late")(tx)
            here.set()
            go_on.wait(5)
            is_over.set()

        backend.watchers.add(lambda: told.append(is_over.is_set()))
        caller = asyncio.ensure_future(backend.transact(slowly, BARRIER))
        assert await asyncio.to_thread(here.wait, 5)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert told == []
        go_on.set()
        await backend.sync()
        assert told == [True]
        await backend.close()

    run(story)
