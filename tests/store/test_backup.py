"""Copies of a store in use: of one moment, whole or not there; and what a check finds (H5)."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apsw
import pytest

from duly.env import Loop
from duly.errors import RequestRefused, StoreLost, StoreUnavailable
from duly.store import backup, disk
from duly.store.backup import PAGES_PER_STEP, back_up, find_problems
from duly.store.base import Durability, Transaction
from duly.store.check import INVARIANTS, Problems
from duly.store.sqlite import SqliteBackend, open_sqlite
from tests.store.attic import attic
from tests.store.exam import FastDisk, World
from tests.store.scene import IN_FLIGHT, PREPARED, WORKFLOW, at, deployed, opened
from tests.store.virtual import VirtualEnv

SECOND_RUN = (
    "insert into run (id, workflow_id, version, handler, kind, chain, phase, status, counter, "
    "created_at, updated_at) "
    "values ('x', :w, '1.0', 'file', 'consumer', 'x', 'preparing', 'active', 0, 0, 0)"
)
LINES, LINE_BYTES = 40, 20_000
Story = Callable[[Loop, SqliteBackend], Coroutine[Any, Any, None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "duly.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "copy.db"


@pytest.fixture(autouse=True)
def _usual_umask(copy: Path) -> Iterator[None]:
    copy.parent.mkdir()
    before = os.umask(0o022)
    yield
    os.umask(before)


def line(number: int) -> Callable[[Transaction], None]:
    """Write a line over several pages, and how many there are, in one transaction."""

    def write(tx: Transaction) -> None:
        body = f"{number}:" + "x" * LINE_BYTES
        tx.run("put_extension_state", extension="lines", key=str(number), value=body, now=number)
        tx.run("put_upkeep", name="total", at=number)

    return write


def rewrite(number: int) -> Callable[[Transaction], None]:
    """Write a line anew: pages a copy may have passed already."""
    body = f"again {number}:" + "y" * LINE_BYTES

    def write(tx: Transaction) -> None:
        tx.run("put_extension_state", extension="lines", key=str(number), value=body, now=number)

    return write


def values(path: Path) -> list[object]:
    connection = apsw.Connection(str(path))
    rows = connection.execute("select key, value from extension_state order by key").fetchall()
    connection.close()
    return [*rows]


def play(path: Path, story: Story, *, lines: int = LINES) -> None:
    """Open a store of many pages, and tell a story about it."""

    async def main() -> None:
        env = Loop()
        backend = await open_sqlite(path, env)
        try:
            for number in range(1, lines + 1):
                await backend.transact(line(number), Durability.RIDER)
            await backend.sync()
            await story(env, backend)
        finally:
            await backend.close()
            env.close()

    asyncio.run(main())


def read(path: Path) -> tuple[int, int]:
    """Answer how many lines a file has, and how many it says it has."""
    connection = apsw.Connection(str(path))
    ((lines,),) = connection.execute("select count(*) from extension_state").fetchall()
    ((total,),) = connection.execute("select at from upkeep where name = 'total'").fetchall()
    assert connection.pragma("integrity_check") == "ok"
    connection.close()
    assert isinstance(lines, int)
    assert isinstance(total, int)
    return lines, total


def marks(path: Path) -> list[int]:
    connection = apsw.Connection(str(path))
    found = [at for (at,) in connection.execute("select at from upkeep where name = 'copied'")]
    connection.close()
    return found


# -- A copy ---------------------------------------------------------------------------------------


def test_a_copy_is_whole_marked_and_for_its_owner_alone(path: Path, copy: Path) -> None:
    """H5, A5: it has no log, says that it is a copy and of when; the store does not."""
    sizes: list[int] = []

    async def story(env: Loop, backend: SqliteBackend) -> None:
        before = env.now_ms()
        made = await back_up(backend, copy, env)
        assert before <= made.at <= env.now_ms()
        sizes.append(made.size_bytes)
        assert marks(copy) == [made.at]

    play(path, story)
    assert sizes == [copy.stat().st_size]
    assert read(copy) == (LINES, LINES)
    assert copy.read_bytes()[disk.FORMAT_BYTES] == disk.FORMAT_WITHOUT_LOG
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [each.name for each in copy.parent.iterdir()] == ["copy.db"]
    assert marks(path) == []


def test_a_copy_shows_one_moment_while_others_write(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: pages behind it change and are brought up to date, pages before it grow."""
    monkeypatch.setattr(backup, "PAGES_PER_STEP", 1)
    numbers = iter(range(LINES + 1, 2 * LINES + 1))

    async def story(env: Loop, backend: SqliteBackend) -> None:
        real = backend.between

        async def between(work: Callable[[], Any]) -> Any:
            answer = await real(work)
            if (number := next(numbers, None)) is not None:
                await backend.transact(line(number), Durability.RIDER)
                await backend.transact(rewrite(number % LINES + 1), Durability.BARRIER)
            return answer

        monkeypatch.setattr(backend, "between", between)
        await back_up(backend, copy, env)

    play(path, story)
    assert next(numbers, None) is None
    assert read(copy) == (2 * LINES, 2 * LINES)
    assert values(copy) == values(path)


def test_others_get_in_between_two_steps(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: the writer is held for a few pages at a time, and in no transaction."""
    held: list[int] = []

    async def story(env: Loop, backend: SqliteBackend) -> None:
        real = backend.between

        async def between(work: Callable[[], Any]) -> Any:
            def watched() -> Any:
                assert not backend.connection.in_transaction
                return work()

            answer = await real(watched)
            held.append(await backend.transact(lambda tx: 1, Durability.READ))
            return answer

        monkeypatch.setattr(backend, "between", between)
        await back_up(backend, copy, env)
        assert len(held) >= backend.connection.pragma("page_count") // PAGES_PER_STEP

    play(path, story)
    assert len(held) >= 4


def test_two_copies_at_once_take_turns(path: Path, copy: Path) -> None:
    """H5: both are whole."""
    other = copy.with_name("other.db")

    async def story(env: Loop, backend: SqliteBackend) -> None:
        await asyncio.gather(*(back_up(backend, each, env) for each in (copy, other)))

    play(path, story)
    assert read(copy) == read(other) == (LINES, LINES)


def test_of_two_copies_to_one_file_one_is_refused(path: Path, copy: Path) -> None:
    """H5: they do not write into each other, nor do two checks."""

    async def story(env: Loop, backend: SqliteBackend) -> None:
        answers = await asyncio.gather(
            *(back_up(backend, copy, env) for _ in range(3)), return_exceptions=True
        )
        refused = [each for each in answers if isinstance(each, RequestRefused)]
        assert len(refused) == 2, answers
        checks = await asyncio.gather(*(find_problems(backend, env) for _ in range(3)))
        assert checks == [Problems()] * 3

    play(path, story)
    assert read(copy) == (LINES, LINES)


# -- Refusals and failures ------------------------------------------------------------------------


def _taken_by_a_link(copy: Path) -> None:
    copy.symlink_to(copy.with_name("nowhere"))


def _taken(copy: Path) -> None:
    copy.write_bytes(b"precious")


@pytest.mark.parametrize("take", [_taken, _taken_by_a_link])
def test_nothing_is_overwritten(path: Path, copy: Path, take: Callable[[Path], None]) -> None:
    """H5: neither a file nor a link that leads nowhere."""
    take(copy)

    async def story(env: Loop, backend: SqliteBackend) -> None:
        with pytest.raises(RequestRefused, match=r"copy\.db exists already"):
            await back_up(backend, copy, env)

    play(path, story, lines=1)
    assert [each.name for each in copy.parent.iterdir()] == ["copy.db"]
    assert copy.is_symlink() or copy.read_bytes() == b"precious"


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: the name is taken at the very end, by the first one."""
    real = disk.sync_path

    def sync_path(synced: Path) -> None:
        _taken(copy)
        real(synced)

    monkeypatch.setattr(backup, "sync_path", sync_path)

    async def story(env: Loop, backend: SqliteBackend) -> None:
        with pytest.raises(RequestRefused, match="exists already"):
            await back_up(backend, copy, env)

    play(path, story, lines=1)
    assert copy.read_bytes() == b"precious"


def test_a_name_taken_for_a_moment_is_refused(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: the program that took it may have gone again; the copy is not there all the same."""

    async def story(env: Loop, backend: SqliteBackend) -> None:
        monkeypatch.setattr(os, "link", Mock(side_effect=FileExistsError))
        with pytest.raises(RequestRefused, match="exists already"):
            await back_up(backend, copy, env)

    play(path, story, lines=1)


def test_a_missing_folder_is_named(path: Path, copy: Path) -> None:
    """H5: it is not made in silence."""

    async def story(env: Loop, backend: SqliteBackend) -> None:
        with pytest.raises(RequestRefused, match="there is no folder"):
            await back_up(backend, copy.parent / "elsewhere" / "copy.db", env)

    play(path, story, lines=1)


def _full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk of the copy be full after a few pages."""
    real = backup._begin

    def begin(draft: Path) -> apsw.Connection:
        connection = real(draft)
        connection.pragma("max_page_count", 70)
        return connection

    monkeypatch.setattr(backup, "_begin", begin)


def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_path(path: Path) -> None:
        raise OSError(errno.EIO, "the disk answered with an error")

    monkeypatch.setattr(backup, "sync_path", sync_path)


def _unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folder fail to keep the name."""
    real = disk.sync_path

    def sync_path(path: Path) -> None:
        if path.is_dir():
            raise OSError(errno.EIO, "the disk answered with an error")
        real(path)

    monkeypatch.setattr(backup, "sync_path", sync_path)


@pytest.mark.parametrize(
    ("fail", "words"),
    [(_full, "the disk is full"), (_unsynced, "with an error"), (_unnamed, "with an error")],
)
def test_a_copy_that_fails_leaves_nothing_and_the_host_goes_on(
    path: Path,
    copy: Path,
    fail: Callable[[pytest.MonkeyPatch], None],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H5, H3: no half file, a clear message, and the next one succeeds."""

    async def story(env: Loop, backend: SqliteBackend) -> None:
        with monkeypatch.context() as broken:
            fail(broken)
            with pytest.raises(StoreUnavailable, match=words):
                await back_up(backend, copy, env)
        assert list(copy.parent.iterdir()) == []
        await backend.transact(line(LINES + 1), Durability.BARRIER)
        await back_up(backend, copy, env)

    play(path, story)
    assert read(copy) == (LINES + 1, LINES + 1)


def test_a_disk_without_links_takes_a_copy_all_the_same(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: by renaming it."""

    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", link)

    async def story(env: Loop, backend: SqliteBackend) -> None:
        await back_up(backend, copy, env)

    play(path, story)
    assert read(copy) == (LINES, LINES)


def test_what_a_dead_host_left_of_a_copy_is_replaced(path: Path, copy: Path) -> None:
    """H5: a draft is nobody's."""
    copy.with_name("copy.db.unfinished").write_bytes(b"half")

    async def story(env: Loop, backend: SqliteBackend) -> None:
        await back_up(backend, copy, env)

    play(path, story)
    assert read(copy) == (LINES, LINES)


def test_a_store_that_stops_under_a_copy_ends_it(
    path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5, H3: the caller is told, and nothing is left."""

    async def story(env: Loop, backend: SqliteBackend) -> None:
        real = backend.between
        calls = 0

        async def between(work: Callable[[], Any]) -> Any:
            nonlocal calls
            calls += 1
            if calls == 3:
                await backend.close()
            return await real(work)

        monkeypatch.setattr(backend, "between", between)
        with pytest.raises(StoreLost):
            await back_up(backend, copy, env)

    play(path, story)
    assert list(copy.parent.iterdir()) == []


# -- A check --------------------------------------------------------------------------------------


def backend_of(world: World) -> SqliteBackend:
    backend = world.store.backend
    assert isinstance(backend, SqliteBackend)
    return backend


async def problems_of(world: World) -> tuple[str, ...]:
    return (await find_problems(backend_of(world), VirtualEnv())).texts


async def test_a_sound_store_has_no_problems_and_keeps_no_copy(tmp_path: Path) -> None:
    """H5: also one in the middle of its work."""
    async with opened(tmp_path) as world:
        await attic(world)
        scene = world.kept["scene"]
        await scene.publish("mail", "mail:9")
        await scene.start()
        assert await problems_of(world) == ()
        names = {each.name for each in backend_of(world).path.parent.iterdir()}
    assert "duly.db.checked" not in names


@pytest.mark.parametrize(
    ("statement", "harm"),
    [
        ("find_strays", "update run set open = 0, status = 'crashed' where open = 1"),
        ("find_unanswered", "update run set open = 0, status = 'crashed' where open = 1"),
        ("find_causeless", "insert into cause (workflow_id, root, seq) values (:w, 98, 99)"),
        ("find_contentless", "delete from payload where content = 2"),
        ("find_contentless", "update event set content_beside = 77 where seq = 2"),
        ("find_unpinned", "update reservation set content = 77"),
        ("find_open_runs", f"drop index run_one_open; {SECOND_RUN}"),
        ("find_torn", f"insert into blob values (:w, '{64 * 'a'}', 3, 'kept', 1, 1, 1)"),
    ],
)
async def test_what_must_hold_and_does_not_is_named(
    statement: str, harm: str, tmp_path: Path
) -> None:
    """H5: one open run, every reserved event and open mutation answered for, every cause there."""
    async with opened(tmp_path) as world:
        await at(world.store, IN_FLIGHT)
        assert await problems_of(world) == ()
        for each in harm.split("; "):
            world.connection.execute(each, {"w": WORKFLOW} if ":w" in each else None)
        begins = INVARIANTS[statement].partition("{}")[0]
        assert [each for each in await problems_of(world) if each.startswith(begins)]


async def test_every_invariant_is_looked_at_and_broken(tmp_path: Path) -> None:
    """H5: none of them can be asleep."""
    mark = test_what_must_hold_and_does_not_is_named.pytestmark[0]  # type: ignore[attr-defined]
    assert {row[0] for row in mark.args[1]} == set(INVARIANTS)


async def test_a_broken_reference_is_named(tmp_path: Path) -> None:
    """H5: what SQLite itself checks only when it writes."""
    async with opened(tmp_path) as world:
        await at(world.store, PREPARED)
        world.connection.pragma("foreign_keys", False)
        world.connection.execute("delete from topic where name = 'mail'")
        assert [each for each in await problems_of(world) if each.startswith("event ")]


@pytest.mark.parametrize("name", ["event", "action_by_workflow"])
async def test_a_damaged_page_is_found(name: str, tmp_path: Path) -> None:
    """H5: the check reads every page, of tables and of indexes."""
    world = await World(tmp_path / "world").open()
    await deployed(world.store)
    path = backend_of(world).path
    where = "select rootpage from sqlite_schema where name = ?"
    ((root,),) = world.connection.execute(where, (name,))
    await world.close()
    _spoil(path, root)
    backend = await open_sqlite(FastDisk(path), Loop())
    try:
        problems = await find_problems(backend, Loop())
    finally:
        await backend.close()
    assert problems.texts


async def test_an_index_that_disagrees_with_its_table_is_found(tmp_path: Path) -> None:
    """H5: nothing else would notice before a row is looked for and not found."""
    async with opened(tmp_path) as world:
        await deployed(world.store)
        world.connection.pragma("writable_schema", True)
        world.connection.execute(
            "update sqlite_schema set sql = replace(sql, '(workflow_id, id)', '(workflow_id, at)') "
            "where name = 'action_by_workflow'"
        )
        (problem, *_) = await problems_of(world)
        assert "action_by_workflow" in problem


def _spoil(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
