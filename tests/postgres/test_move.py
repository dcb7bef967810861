"""A store moves from its file to a server: every row, or nothing; the file is a copy then (H1)."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from duly.env import Loop
from duly.errors import (
    DulyError,
    RequestRefused,
    StoreError,
    StoreInUse,
    StoreNewer,
    StoreUnavailable,
)
from duly.host import Host
from duly.rules.blob import PART_BYTES
from duly.rules.standing import Standing
from duly.store import Store, move
from duly.store.move import move_store
from duly.store.record import Action, VersionSpec
from duly.store.server import look_at_server
from duly.store.sqlite import Schema, open_sqlite
from duly.store.workflow import Deployment
from tests.faces.real import call
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.world import Place


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


async def filled(path: Path, outside: Outside) -> None:
    """Make a store with one change that was made and one event that waits."""
    async with Host(f"sqlite:///{path}", connectors=[outside]) as host:
        await deploy(host)
        await host.publish("notes", "note", title="done", message_id="note:1")
        await host.drain()
        await host.publish("notes", "note", title="waits — ü and 漢字", message_id="note:2")


async def standing(host: Host) -> Standing:
    return (await host.workflow("notes")).standing


def count_events(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute("select count(*) from event").fetchall()
        return int(count)


async def test_a_moved_store_goes_on_where_the_file_stopped(place: Place, tmp_path: Path) -> None:
    """H1, L15: nothing is made twice, what waited is made once, and every seal still fits."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    with database(place) as url:
        moved = await move_store(path, url, Loop())
        assert (moved.rows["event"], moved.rows["mutation"], moved.rows["workflow"]) == (2, 1, 1)
        async with opened(url, outside) as host, host.running():
            await until(lambda: len(outside.posts) == 2, "the event that waited")
            (first,) = [
                each for each in await host.mutations("notes") if each.args == {"text": "done"}
            ]
            (change,) = (await host.certificate(first.id)).changes
            assert change.seal.is_whole
            assert [each.title for each in await host.inputs("notes")][::-1] == [
                "done",
                "waits — ü and 漢字",
            ]
        assert outside.posts == ["done", "waits — ü and 漢字"]


async def test_the_file_that_stays_makes_no_change(place: Place, tmp_path: Path) -> None:
    """H5: a host that is started on it by mistake has everything paused, and says why."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    with database(place) as url:
        await move_store(path, url, Loop())
    async with Host(f"sqlite:///{path}", connectors=[outside]) as host:
        await host.drain()
        assert outside.posts == ["done"]
        assert await standing(host) is Standing.NEEDS_ATTENTION


async def test_a_store_in_use_or_a_server_in_use_is_refused(place: Place, tmp_path: Path) -> None:
    """H1: nothing of either is changed."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    with database(place) as url:
        async with Host(f"sqlite:///{path}", connectors=[outside]):
            with pytest.raises(StoreInUse):
                await move_store(path, url, Loop())
        async with opened(url, outside) as host:
            await deploy(host, "other")
        with pytest.raises(RequestRefused, match="already has workflows"):
            await move_store(path, url, Loop())
        assert count_events(url) == 0
    async with Host(f"sqlite:///{path}", connectors=[outside]) as host:
        assert await standing(host) is not Standing.NEEDS_ATTENTION


async def test_a_server_that_hosts_have_looked_at_takes_a_store(
    place: Place, tmp_path: Path
) -> None:
    """H1, H12: not while one is there; what it noted, and its key, are not in the way later."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    with database(place) as url:
        async with opened(url, outside):
            with pytest.raises(RequestRefused, match="already has hosts"):
                await move_store(path, url, Loop())
        with psycopg.connect(url) as connection:
            connection.execute("update store set key_name = 'of another key'")
        assert (await move_store(path, url, Loop())).rows["event"] == 2
        async with opened(url, outside) as host:
            assert await standing(host) is not Standing.NEEDS_ATTENTION


async def test_a_server_of_a_newer_schema_takes_no_store(place: Place, tmp_path: Path) -> None:
    """H11: a host of this version may work on it, but a file of it lacks the new columns."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    with database(place) as url:
        with psycopg.connect(url) as connection:
            connection.execute("update store set version = version + 1")
            connection.execute("insert into upkeep values ('oldest schema', 1)")
        with pytest.raises(StoreNewer):
            await move_store(path, url, Loop())
        with psycopg.connect(url) as connection:
            connection.execute("update store set version = version - 1")
    async with Host(f"sqlite:///{path}", connectors=[outside]) as host:
        assert await standing(host) is not Standing.NEEDS_ATTENTION


async def test_rows_that_wait_for_their_seal_are_not_moved(place: Place, tmp_path: Path) -> None:
    """L15, H1: on a server no host would seal them; one that has opened the file has done it."""
    outside, path = Outside(), tmp_path / "duly.db"
    text = (Path(__file__).parents[1] / "store" / "schema_2.sql").read_text(encoding="utf-8")
    await (await open_sqlite(path, Loop(), schema=Schema(text, {}, version=2))).close()
    with database(place) as url:
        for _ in range(2):  # the move itself brings the file up, and so may one before it
            with pytest.raises(RequestRefused, match="not sealed yet"):
                await move_store(path, url, Loop())
        async with Host(f"sqlite:///{path}", connectors=[outside]):
            pass
        await move_store(path, url, Loop())


async def test_two_files_at_once_move_one(place: Place, tmp_path: Path) -> None:
    """H1: the second waits for the first, and then finds what it brought."""
    outside, paths = Outside(), [tmp_path / "one.db", tmp_path / "two.db"]
    for path in paths:
        await filled(path, outside)
    with database(place) as url:
        moving = (move_store(path, url, Loop()) for path in paths)
        done = await asyncio.gather(*moving, return_exceptions=True)
        (refused,) = [each for each in done if isinstance(each, RequestRefused)]
        assert refused.facts["what"] == "workflows"
        assert count_events(url) == 2


async def test_a_row_that_the_server_changed_moves_nothing(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 1: all or nothing; a single character is enough, and the file can be used as before."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    plain = move._rows

    def spoilt(file: Any, table: str, read: str) -> Any:
        for row in plain(file, table, read):
            yield Sly(row) if table == "payload" else row

    class Sly(tuple[Any, ...]):
        """Is told as one thing and sent as another."""

        def __repr__(self) -> str:
            return "another row"

    monkeypatch.setattr(move, "_rows", spoilt)
    with database(place) as url:
        with pytest.raises(StoreError, match="payload"):
            await move_store(path, url, Loop())
        assert count_events(url) == 0
        monkeypatch.setattr(move, "_rows", plain)
        async with Host(f"sqlite:///{path}", connectors=[outside]) as host:
            assert await standing(host) is not Standing.NEEDS_ATTENTION
        assert (await move_store(path, url, Loop())).rows["event"] == 2


async def test_a_reference_to_nothing_is_found(place: Place, tmp_path: Path) -> None:
    """Law 1: the server checks every reference before it commits."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    plain = move._rows
    with database(place) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(move, "_rows", lambda f, t, r: [] if t == "workflow" else plain(f, t, r))
        with pytest.raises(DulyError):
            await move_store(path, url, Loop())
        assert count_events(url) == 0


def test_the_command_says_what_to_do_next(place: Place, tmp_path: Path) -> None:
    """U6: it names the key and where the URL goes; a second time it is refused."""
    folder = tmp_path / "project"
    assert call(tmp_path, "init", str(folder)).exit_code == 0
    assert "nothing to move" in call(folder, "move", "--to", "postgresql://nowhere/x").output
    assert call(folder, "deploy", str(folder / "workflows" / "welcome.py")).exit_code == 0
    assert "names no PostgreSQL" in call(folder, "move", "--to", "sqlite:///x.db").output
    with database(place) as url:
        said = call(folder, "move", "--to", url)
        assert said.exit_code == 0, said.output
        assert "each compared with the file" in said.output
        assert "DULY_KEY" in said.output
        assert "already has workflows" in call(folder, "move", "--to", url).output


def test_a_move_and_the_doctor_use_the_server_that_a_host_uses(place: Place) -> None:
    """H10: one that takes no writes is refused; of several addresses the first may be a standby."""
    with database(place) as url:
        name = conninfo_to_dict(url)["dbname"]
        place._admin.execute(f"alter database {name} set default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match="read-only"):
            look_at_server(url)
        with pytest.raises(psycopg.OperationalError, match="read-only"):
            move._connect(url)
        place._admin.execute(f"alter database {name} reset default_transaction_read_only")


async def test_blobs_move_with_their_store(place: Place, tmp_path: Path) -> None:
    """K15, H1: every part, byte by byte, and a host on the server opens them."""
    path, data = tmp_path / "duly.db", bytes(range(256)) * 1200
    digest = sha256(data).hexdigest()
    backend = await open_sqlite(path, Loop())
    store = Store(backend)
    version = VersionSpec("1.0", "python", "", "hash", "{}", "[]", "me")
    await store.deploy(
        Deployment("w1", "files", None, version, (), ()),
        successor_id="run_1",
        action=Action("action_1", "me", "deploy"),
        now=1,
    )
    await store.join("host", now=1)
    fence = await store.claim("host", "w1")
    await store.begin_blob(fence, digest, len(data), now=1, room_bytes=10**9, most=9)
    for number in range(2):
        part = data[number * PART_BYTES : (number + 1) * PART_BYTES]
        await store.keep_blob_part("w1", digest, number, part)
    await store.finish_blob("w1", digest, now=1)
    await store.leave("host")
    await backend.close()
    with database(place) as url:
        moved = await move_store(path, url, Loop())
        assert (moved.rows["blob"], moved.rows["blob_part"]) == (1, 2)
        with psycopg.connect(url) as connection:
            parts = connection.execute("select body from blob_part order by number").fetchall()
    assert b"".join(bytes(each) for (each,) in parts) == data


# What newer versions keep beside a workflow: each with all its columns, quotes, and letters.
BESIDE = {
    "proof": ("mail.send", "k", '{"ü":1}', "b", "failed", "not_found", "'no'", "[1]", "ada", 1, 2),
    "pairing": ("phone", "Jürgen", "77", None, "ada", 1, 2),
    "slip": ("s1", "phone", "77", "MUTATION", "h", "d", "closed", "m\t漢", 1, 2),
    "model_question": (
        *("q1", "", None, None, "default", "write", "d", "ü?", "answered", "'ja'", None),
        *(0, 20, 7, 1, 2),
    ),
    "model_day": ("", "default", 20_500, 1, 0, 20, 7),
    "proposal": ("h", "notes", None, "python", "a\n\\N\tb", "[]", "[]", "token:bot", "", 1),
}


async def test_what_is_kept_beside_workflows_moves_with_them(place: Place, tmp_path: Path) -> None:
    """H1, G11, M6: trials, accounts, what they were asked, and proposals, as they were."""
    outside, path = Outside(), tmp_path / "duly.db"
    await filled(path, outside)
    file = apsw.Connection(str(path))
    ((mutation,),) = file.execute("select id from mutation").fetchall()
    rows = {
        table: tuple(mutation if each == "MUTATION" else each for each in row)
        for table, row in BESIDE.items()
    }
    for table, row in rows.items():
        file.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
    file.close()
    with database(place) as url:
        moved = await move_store(path, url, Loop())
        with psycopg.connect(url) as connection:
            for table, row in rows.items():
                assert moved.rows[table] == 1
                assert connection.execute(f"select * from {table}".encode()).fetchall() == [row]
