"""Copies of a store that is in use: to keep, or to look into (H5).

Law 1: a copy shows one moment. It is made a few pages at a time on the one connection there is, so
       runs go on meanwhile; SQLite brings a page that changes behind it up to date in the copy.
Law 2: a copy is whole and on the disk under its name, or it is not there; nothing is overwritten.
Law 3: a copy that is kept says that it is one, and of when. The store it came from never does.
Law 4: secrets stay sealed in it, and the key is not copied (A5).

A check is made on a copy too, so that no caller waits while a whole database is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import apsw

from duly.env import Env
from duly.errors import RequestRefused, StoreDamaged, StoreError, StoreUnavailable
from duly.store import mark, queries
from duly.store.check import PROBLEMS_MAX, Problems, check
from duly.store.disk import create, sync_path
from duly.store.failure import explain
from duly.store.sqlite import SqliteBackend
from duly.store.transaction import NamedTransaction

PAGES_PER_STEP: Final = 64  # a quarter of a MiB: a writer waits less than a millisecond for it
DRAFT: Final = ".unfinished"
CHECKED: Final = ".checked"

# One copy of a store at a time: a second one waits for the first.
_COPYING: WeakKeyDictionary[SqliteBackend, asyncio.Lock] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that is on the disk: how large it is, and what moment it shows."""

    size_bytes: int
    at: int


async def back_up(backend: SqliteBackend, target: Path, env: Env) -> Copy:
    """Write a copy of the store as it is now under a name that is free."""
    await env.call_blocking(lambda: refuse_taken(target))
    draft = target.with_name(target.name + DRAFT)
    async with _copied(backend, draft, env) as (connection, at):
        size_bytes = await env.call_blocking(lambda: _finish(connection, draft, target, at))
    return Copy(size_bytes, at)


def take_back(target: Path) -> None:
    """Remove a copy that was made and must not stay; one that cannot be removed is left."""
    with contextlib.suppress(OSError):
        target.unlink(missing_ok=True)
        sync_path(target.parent)


async def find_problems(backend: SqliteBackend, env: Env) -> Problems:
    """Say what is wrong with the store: pages, references, what must always hold, seals."""
    draft = backend.path.with_name(backend.path.name + CHECKED)
    try:
        async with _copied(backend, draft, env) as (connection, _):
            return await env.call_blocking(lambda: _check(connection, backend.seal_key))
    except StoreDamaged as error:
        return Problems((str(error),))


def check_copy(path: Path, seal_key: bytes | None) -> Problems:
    """Say what is wrong with a copy on the disk; it is only read."""
    with contextlib.closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)) as connection:
        return _check(connection, seal_key)


@asynccontextmanager
async def _copied(
    backend: SqliteBackend, draft: Path, env: Env
) -> AsyncIterator[tuple[apsw.Connection, int]]:
    """Copy the store into a draft that is gone in the end, unless it got another name."""
    async with _COPYING.setdefault(backend, asyncio.Lock()):
        connection: apsw.Connection | None = None
        try:
            connection = await env.call_blocking(lambda: _begin(draft))
            at = await _copy(backend, connection, env)
            yield connection, at
        except (apsw.Error, OSError) as error:
            raise _explain(error, draft) from error
        finally:
            # Not in a thread: a caller that is cancelled while it waits would leave the draft.
            _clear(connection, draft)


async def _copy(backend: SqliteBackend, copy: apsw.Connection, env: Env) -> int:
    """Copy page after page; return a moment that is not later than the one the copy shows."""
    backup = await backend.between(lambda: copy.backup("main", backend.connection, "main"))
    try:
        while True:
            at = env.now_ms()
            if await backend.between(lambda: backup.step(PAGES_PER_STEP)):
                return at
    finally:
        with contextlib.suppress(StoreError):  # a store that has stopped has ended it already
            await backend.between(lambda: backup.close(True))


# What follows blocks, and runs in a thread.


def refuse_taken(target: Path) -> None:
    """Refuse a name that is taken, or in a folder that is not there."""
    if os.path.lexists(target):
        raise _taken(target)
    if not target.parent.is_dir():
        raise RequestRefused(
            code="no_folder", subject=str(target), facts={"folder": str(target.parent)}
        )


def _taken(target: Path) -> RequestRefused:
    return RequestRefused(code="file_exists", subject=str(target))


def _begin(draft: Path) -> apsw.Connection:
    draft.unlink(missing_ok=True)  # of a host that died while it copied
    create(draft)
    connection = apsw.Connection(str(draft))
    # A draft that is not finished is thrown away, so it needs no journal and no sync.
    connection.pragma("journal_mode", "off")
    connection.pragma("synchronous", "off")
    return connection


def _clear(connection: apsw.Connection | None, draft: Path) -> None:
    if connection is not None:
        connection.close(True)
    draft.unlink(missing_ok=True)


def _finish(connection: apsw.Connection, draft: Path, target: Path, at: int) -> int:
    """Mark the copy, make it durable, and give it its name; return its size."""
    # Said in the header, which the copy has just taken over: this one has no log.
    connection.pragma("journal_mode", "delete")
    mark.mark_copy(connection, queries.load("upkeep"), at)
    connection.close()
    return give_name(draft, target)


def give_name(draft: Path, target: Path) -> int:
    """Make a finished draft durable, and give it a name that is free; return its size."""
    sync_path(draft)
    size_bytes = draft.stat().st_size
    try:
        os.link(draft, target)  # unlike a rename it replaces no file
    except FileExistsError:
        raise _taken(target) from None  # whether or not it is still there
    except OSError:  # a disk that knows no links
        refuse_taken(target)
        draft.rename(target)
    try:
        sync_path(target.parent)
    except OSError:
        target.unlink()  # a name that may be gone after a power cut is no backup
        raise
    return size_bytes


def _check(connection: apsw.Connection, seal_key: bytes | None) -> Problems:
    found: list[str] = []
    rows = Problems()
    try:
        pages = _texts(connection, f"pragma integrity_check({PROBLEMS_MAX})")
        found += [text for text in pages if text != "ok"]
        # In a damaged file further checks say nothing beyond that it is damaged.
        if not found:
            found += _texts(connection, "pragma foreign_key_check")
            rows = _check_rows(connection, seal_key)
            found += rows.texts
    except apsw.Error as error:
        found.append(str(error))
    return Problems(tuple(found[:PROBLEMS_MAX]), rows.flawed, rows.imported)


def _check_rows(connection: apsw.Connection, seal_key: bytes | None) -> Problems:
    statements = queries.prepare(queries.load("queries", "upkeep"))
    transaction = NamedTransaction(connection, statements)
    transaction.closed_by = None  # the copy is this check's alone
    return check(transaction, seal_key)


def _texts(connection: apsw.Connection, statement: str) -> list[str]:
    rows: list[tuple[Any, ...]] = connection.execute(statement).fetchall()
    return [" ".join(str(each) for each in row) for row in rows]


def _explain(error: apsw.Error | OSError, draft: Path) -> Exception:
    if isinstance(error, apsw.Error):
        return explain(error, str(draft))
    return StoreUnavailable(
        code="unwritable", subject=str(draft), facts={"cause": str(error.strerror or error)}
    )
