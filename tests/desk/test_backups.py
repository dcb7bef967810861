"""Scheduled copies of a store: made, checked, and only then do older ones go (H5)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from duly.backup_settings import KEEP_MAX, BackupSettings
from duly.desk import backups
from duly.errors import ConfigError, RequestRefused, StoreDamaged
from duly.store import shelf
from duly.store.check import Problems
from duly.testing import Stage
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import restored
from tests.engine.stand import Play, flow, opened

DAILY = BackupSettings(every="1d", keep=2)
DAY_S = 86_400
DAY_MS = DAY_S * 1000


async def started(stage: Stage) -> tuple[Play, Path]:
    play = await opened(stage)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play, folder_of(stage) / "backups"


async def keep(play: Play, folder: Path, settings: BackupSettings = DAILY) -> int:
    return await play.host._make_due(settings, folder)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def test_a_copy_is_made_each_day_and_so_many_stay(duly_world: Stage) -> None:
    """H5: after a month of days the two newest are there, and one of them can be restored."""
    play, folder = await started(duly_world)
    keeping = asyncio.ensure_future(play.host.keep_backups(DAILY, folder))
    for _ in range(4):
        await play.stage.advance(DAY_S)
    keeping.cancel()
    assert len(names(folder)) == 2
    made = [each for each in await play.host.actions() if each.verb == "backup"]
    assert len(made) >= 4
    assert {each.by for each in made} == {"duly"}
    await restored(play, folder / names(folder)[-1])
    assert (await play.host.workflow("flow")).reason.code == "restored"


async def test_a_copy_is_due_by_the_newest_file_and_not_by_a_memory(duly_world: Stage) -> None:
    """H5: a host that was restarted does not copy again; one dated ahead is not waited for."""
    play, folder = await started(duly_world)
    assert await keep(play, folder) == DAY_MS
    assert 0 < await keep(play, folder) <= DAY_MS
    assert len(names(folder)) == 1
    (folder / names(folder)[0]).rename(folder / shelf.name_copy(play.now + 9 * DAY_MS))
    await keep(play, folder)
    assert len(names(folder)) == 2


async def test_the_copy_just_made_stays_beside_copies_dated_ahead(duly_world: Stage) -> None:
    """H5: what a clock that was ahead has named goes before every copy that is dated right."""
    play, folder = await started(duly_world)
    await keep(play, folder)
    (right,) = names(folder)
    for days in (30, 60):
        (folder / shelf.name_copy(play.now + days * DAY_MS)).write_bytes(b"ahead")
    await play.stage.advance(DAY_S)
    made = shelf.name_copy(play.now)
    await keep(play, folder, BackupSettings(every="1d", keep=2))
    assert names(folder) == [right, made]


async def test_older_copies_go_only_when_the_new_one_is_whole(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """H5: a copy that fails its check is taken back; it is told once, until one succeeds."""
    play, folder = await started(duly_world)
    one = BackupSettings(every="1d", keep=1)
    await keep(play, folder, one)
    first = names(folder)
    await play.stage.advance(DAY_S)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(shelf, "check_copy", lambda path, key: Problems(("page 3 is torn",)))
        assert await keep(play, folder, one) == backups.AGAIN_MS
        await keep(play, folder, one)
        assert names(folder) == first
        (entry,) = await play.host.attention()
        assert (entry.reason.code, "page 3 is torn" in entry.reason.facts["error"]) == (
            "no_backup",
            True,
        )
        assert sum("No backup could be made" in each for each in caplog.messages) == 1
    await keep(play, folder, one)
    assert names(folder) != first
    assert len(names(folder)) == 1
    assert await play.host.attention() == ()


async def test_a_full_disk_leaves_what_there_was(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3, H5: no draft stays, the older copy does, and the host works on."""
    play, folder = await started(duly_world)
    await keep(play, folder)
    before = names(folder)
    await play.stage.advance(DAY_S)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("duly.store.backup._finish", full)
        await keep(play, folder)
    assert names(folder) == before
    await play.publish("b")
    await play.drain()
    assert (await play.statuses())["b"] == "consumed"


async def test_what_a_host_did_not_write_is_left_alone(duly_world: Stage) -> None:
    """H5: other files, links and folders stay; a draft of a killed host goes."""
    play, folder = await started(duly_world)
    folder.mkdir()
    outside = folder.parent / "precious.db"
    outside.write_text("precious")
    (folder / "mine.db").write_text("mine")
    (folder / "duly-20000101T000000Z.db").symlink_to(outside)
    (folder / "duly-20000102T000000Z.db").mkdir()
    (folder / "duly-20001301T000000Z.db").write_text("no such month")
    (folder / "duly-20000103T000000Z.db").write_text("old")
    (folder / "duly-20000104T000000Z.db.unfinished").write_text("half")
    await keep(play, folder, BackupSettings(every="1d", keep=1))
    left = names(folder)
    assert outside.read_text() == "precious"
    assert "duly-20000103T000000Z.db" not in left
    assert not any(each.endswith(".unfinished") for each in left)
    assert len(left) == 5


async def test_a_folder_that_is_a_link_is_refused(duly_world: Stage, tmp_path: Path) -> None:
    """H5, K14: nothing is written or removed through it; the person is told."""
    play, folder = await started(duly_world)
    other = tmp_path / "other"
    other.mkdir()
    (other / "duly-20000103T000000Z.db").write_text("old")
    folder.symlink_to(other)
    await keep(play, folder)
    assert names(other) == ["duly-20000103T000000Z.db"]
    (entry,) = await play.host.attention()
    assert "is a link" in entry.reason.facts["error"]
    with pytest.raises(RequestRefused):
        shelf.drop_old(folder, 1, shelf.name_copy(play.now))


def test_a_file_that_is_no_copy_is_not_whole(tmp_path: Path) -> None:
    """H5: a check reads the file itself."""
    (tmp_path / "x.db").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreDamaged):
        shelf.check_whole(tmp_path / "x.db", None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": "59s"},
        {"every": "daily"},
        {"every": "0d"},
        {"keep": 0},
        {"keep": KEEP_MAX + 1},
        {"folder": ""},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    """H5, N: at least a minute apart, at least one and at most a thousand copies, somewhere."""
    with pytest.raises(ConfigError):
        BackupSettings(**wrong)
    assert BackupSettings(every="60s", keep=KEEP_MAX).every_ms == 60_000
