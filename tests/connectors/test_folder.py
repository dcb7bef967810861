"""One folder and nothing outside it: no path leaves it, and a file stays its owner's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import duly
from duly.connectors import Files
from duly.connectors.folder import OWN, PATH_CHARS_MAX, split_path
from duly.errors import ConfigError
from tests.connectors.notes import all_names, names_in, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / OWN).mkdir(parents=True)
    return tmp_path / "root"


# -- No path leaves the folder --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *["", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b", "a\nb"],
        *[f"{OWN}/k1", f"a/{OWN.upper()}/x", "x" * (PATH_CHARS_MAX + 1)],
    ],
)
async def test_a_path_that_could_leave_the_folder_is_refused(root: Path, path: str) -> None:
    """F1: whatever tool it is given to."""
    files = Files(root)
    for trying in (files.read(path), files.search(path), write(files, path=path)):
        with pytest.raises(duly.Refused):
            await trying
    assert names_in(root) == [OWN]


def test_the_longest_path_is_taken() -> None:
    assert split_path("x" * PATH_CHARS_MAX) == ("x" * PATH_CHARS_MAX,)


async def test_no_symbolic_link_is_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "door").symlink_to(outside)
    (root / "file.txt").symlink_to(outside / "secret.txt")
    files = Files(root)
    for trying in (
        files.read("door/secret.txt"),
        files.read("file.txt"),
        files.search("door/*"),
        write(files, path="door/new.txt"),
        write(files, path="file.txt"),
    ):
        with pytest.raises(duly.Refused, match="symbolic link"):
            await trying
    assert names_in(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


async def test_what_is_no_file_is_not_read_and_not_replaced(root: Path) -> None:
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    for path in ("folder", "pipe"):
        for trying in (Files(root).read(path), write(Files(root), path=path)):
            with pytest.raises(duly.Refused, match="it is a folder"):
                await trying
    with pytest.raises(duly.Refused, match="no folder"):
        await write(Files(root), path="pipe/x.txt")


def test_a_folder_that_is_not_there_is_refused_when_the_connector_is_made(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"notes: there is no folder .*missing"):
        Files(root / "missing", name="notes")


# -- What a person's file keeps --------------------------------------------------------------------


async def test_a_replaced_file_keeps_its_permissions(root: Path) -> None:
    (root / "note.txt").write_text("old")
    (root / "note.txt").chmod(0o600)
    before = (root / "note.txt").stat()
    await write(Files(root), path="note.txt", text="new")
    after = (root / "note.txt").stat()
    assert (after.st_mode & 0o777, after.st_ino != before.st_ino) == (0o600, True)
    assert (root / "note.txt").read_text() == "new"


async def test_a_replaced_file_stays_its_owner_s(root: Path) -> None:
    """F1: a user who could edit the file before can do so after; but nothing new runs as him."""
    (root / "note.txt").write_text("old")
    group = (root / "note.txt").stat().st_gid
    if os.geteuid() == 0:
        os.chown(root / "note.txt", 12345, 12345)
        group = 12345
    (root / "note.txt").chmod(0o4640)
    owner = (root / "note.txt").stat().st_uid
    await write(Files(root), path="note.txt", text="new")
    after = (root / "note.txt").stat()
    assert (after.st_uid, after.st_gid, after.st_mode & 0o7777) == (owner, group, 0o640)


async def test_a_file_that_is_only_to_be_read_is_left_alone(root: Path) -> None:
    """L4: moving another over it would need no permission of its own."""
    (root / "note.txt").write_text("old")
    (root / "note.txt").chmod(0o444)
    with pytest.raises(duly.PermissionDenied, match=r"note\.txt: this account may not do that"):
        await write(Files(root), path="note.txt", text="new")
    assert (root / "note.txt").read_text() == "old"
    assert names_in(root / OWN) == []


@pytest.mark.parametrize(
    "name", ["a\u00a0b.txt", "10.00\u202fAM.txt", "全\u3000角.txt", "a\u00adb.txt"]
)
async def test_a_file_that_is_found_can_be_read_whatever_blanks_its_name_has(
    root: Path, name: str
) -> None:
    (root / name).write_text("here")
    assert await all_names(Files(root)) == [name]
    found = await Files(root).read(name)
    assert found is not None
    assert found["text"] == "here"
