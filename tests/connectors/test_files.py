"""Files below one folder: what is found, what is refused, and that a write is made once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Files
from duly.connectors import files as module
from duly.connectors.files import CLEANED, RECEIPT_DAYS, TEXT_BYTES_MAX
from duly.connectors.folder import OWN, write_file
from duly.testing import Stage, examine, look_at_disk
from tests.connectors.notes import all_names, call, names_in, write
from tests.connectors.sheets import SENT_AT

pytestmark = pytest.mark.anyio

DAY_S = 86_400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / OWN).mkdir(parents=True)
    return tmp_path / "root"


# -- Finding and reading --------------------------------------------------------------------------


async def test_files_are_found_in_pages_and_none_twice(root: Path) -> None:
    for number in range(250):
        (root / f"{number:03}.csv").write_text("x")
        os.utime(root / f"{number:03}.csv", (1, 1))  # all of one time, and an old one
    files = Files(root)
    page = await files.search("*.csv")
    assert len(page.items) == 100
    assert page.items[0] == {
        "path": "000.csv",
        "size": 1,
        "modified_at": "1970-01-01T00:00:01.000Z",
    }
    assert sorted(await all_names(files, "*.csv")) == [f"{number:03}.csv" for number in range(250)]


async def test_a_file_that_comes_with_an_old_date_is_found_all_the_same(root: Path) -> None:
    files = Files(root)
    (root / "new.txt").write_text("x")
    after = (await files.search()).names["last_cursor"]
    (root / "old.txt").write_text("x")
    os.utime(root / "old.txt", (1, 1))
    page = await files.search(after=after)
    assert [each["path"] for each in page.items] == ["old.txt"]
    (root / "new.txt").write_text("changed")
    page = await files.search(after=page.names["last_cursor"])
    assert [each["path"] for each in page.items] == ["new.txt"]


async def test_only_the_files_of_the_asked_folder_and_pattern_are_found(root: Path) -> None:
    (root / "in" / "deeper").mkdir(parents=True)
    for name in ("a.txt", "in/b.txt", "in/c.csv", "in/.hidden.txt", "in/deeper/d.txt"):
        (root / name).write_text("x")
    (root / "in" / "link.txt").symlink_to(root / "a.txt")
    os.mkfifo(root / "in" / "pipe.txt")
    files = Files(root)
    assert await all_names(files, "in/*.txt") == ["in/b.txt"]
    assert await all_names(files, "in/.*") == ["in/.hidden.txt"]
    with pytest.raises(duly.NotSent, match=r"out: the folder is not there\. Make it"):
        await files.search("out/*")


async def test_a_name_that_is_no_text_is_left_out(root: Path) -> None:
    (root / os.fsdecode(b"\xff.txt")).write_text("x")
    assert await all_names(Files(root)) == []


async def test_a_text_is_read_as_it_is_and_a_missing_one_is_none(root: Path) -> None:
    (root / "a.txt").write_bytes("é\r\n".encode())
    found = await Files(root).read("a.txt")
    assert found is not None
    assert (found["path"], found["text"], found["size"]) == ("a.txt", "é\r\n", 4)
    assert await Files(root).read("b.txt") is None
    assert await Files(root).read("no/such/folder.txt") is None


async def test_the_largest_text_is_read_and_one_byte_more_is_a_problem(root: Path) -> None:
    """F6: a file that cannot be read would stop its workflow, for no script can catch it."""
    (root / "most.txt").write_bytes(b"x" * TEXT_BYTES_MAX)
    (root / "more.txt").write_bytes(b"x" * (TEXT_BYTES_MAX + 1))
    found = await Files(root).read("most.txt")
    assert found is not None
    assert (found["size"], found["problem"]) == (TEXT_BYTES_MAX, None)
    more = await Files(root).read("more.txt")
    assert more is not None
    assert (more["path"], more["text"], more["size"]) == ("more.txt", None, TEXT_BYTES_MAX + 1)
    assert more["problem"] == "It has 1048577 bytes; at most 1048576 are read."


@pytest.mark.parametrize(
    ("data", "said"), [(b"\xff\xfe", "no UTF-8 text"), (b"a\0b", "a zero byte")]
)
async def test_what_is_no_text_comes_with_its_problem(root: Path, data: bytes, said: str) -> None:
    (root / "a.bin").write_bytes(data)
    found = await Files(root).read("a.bin")
    assert found is not None
    assert found.keys() == {"path", "text", "size", "modified_at", "problem"}
    assert (found["text"], found["size"]) == (None, len(data))
    assert said in str(found["problem"])


# -- Writing --------------------------------------------------------------------------------------


async def test_a_file_is_written_whole_with_its_folders(root: Path) -> None:
    assert await write(Files(root), path="a/b/c.txt", text="é") == {"path": "a/b/c.txt", "bytes": 2}
    assert (root / "a/b/c.txt").read_bytes() == "é".encode()


async def test_the_largest_text_is_written_and_one_byte_more_is_refused(root: Path) -> None:
    assert (await write(Files(root), text="x" * TEXT_BYTES_MAX))["bytes"] == TEXT_BYTES_MAX
    with pytest.raises(duly.Refused, match="at most 1048576 are written"):
        await write(Files(root), text="x" * (TEXT_BYTES_MAX + 1), key="k2")


async def test_the_same_call_sent_again_leaves_a_person_s_edit_alone(root: Path) -> None:
    """L7: the receipt says that it is done, whatever became of the file."""
    files = Files(root)
    first = await write(files)
    (root / "a/note.txt").write_text("edited")
    assert await write(files) == first
    assert (root / "a/note.txt").read_text() == "edited"
    (root / "a/note.txt").unlink()
    assert await files.write_happened(call()) == duly.Applied(first)
    (root / "a").rmdir()
    assert await files.write_happened(call()) == duly.Applied(first)


@pytest.mark.parametrize(
    ("left", "verdict"),
    [
        ([], duly.NotApplied()),
        (["k1.out"], duly.NotApplied()),
        (["k1", "k1.out"], duly.NotApplied()),
    ],
)
async def test_what_was_not_moved_did_not_happen_and_can_be_sent(
    root: Path, left: list[str], verdict: object
) -> None:
    """L5: a text that lies ready is no file, and is never put in its place later."""
    files = Files(root)
    for name in left:
        (root / OWN / name).write_text("of an earlier try, cut sh")
    assert await files.write_happened(call()) == verdict
    assert not (root / "a").exists()
    await write(files)
    assert (root / "a/note.txt").read_text() == "hi"
    assert await files.write_happened(call()) == duly.Applied({"path": "a/note.txt", "bytes": 2})


async def test_a_key_that_wrote_something_else_is_no_answer(root: Path) -> None:
    """L4, L5: the receipt is of another call, so nobody knows about this one."""
    files = Files(root)
    await write(files, text="one")
    with pytest.raises(duly.UnknownOutcome, match="this key has written something else"):
        await write(files, text="two")
    found = await files.write_happened(call(text="two"))
    assert found == duly.Unsure("this key has written something else")
    assert (root / "a/note.txt").read_text() == "one"


async def test_without_the_folder_of_receipts_nobody_can_tell(root: Path) -> None:
    """L5: an unmounted disk is not a write that never happened."""
    files = Files(root)
    (root / OWN).rmdir()
    assert isinstance(await files.write_happened(call()), duly.Unsure)


async def test_a_host_that_starts_before_its_disk_is_mounted_cannot_tell(tmp_path: Path) -> None:
    """L5: where nothing is at all, no folder of receipts is made that would deny the call."""
    files = Files(tmp_path)
    assert names_in(tmp_path) == []
    assert isinstance(await files.write_happened(call()), duly.Unsure)
    (tmp_path / "something").touch()
    assert await Files(tmp_path).write_happened(call()) == duly.NotApplied()


async def test_a_key_that_is_no_file_name_goes_by_its_digest(root: Path) -> None:
    files = Files(root)
    await write(files, key="../../k 1")
    assert await files.write_happened(call(key="../../k 1")) != duly.NotApplied()
    assert await files.write_happened(call(key="../../k 2")) == duly.NotApplied()


async def test_old_receipts_are_cleaned_away_and_what_they_knew_is_unsure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: a receipt that may have been cleaned away is not a write that never happened."""
    monkeypatch.setattr(module, "CLEAN_EVERY", 1)
    monkeypatch.setattr(Files, "_clean_now_and_then", lambda self, own: module._clean(own))
    files = Files(root)
    for key in ("old", "edge"):
        await write(files, key=key, path=f"{key}.txt")
    (root / OWN / "waits").write_text("a receipt")
    (root / OWN / "waits.out").write_text("its text")
    await write(files, key="new", path="new.txt")
    now_s = (root / OWN / "new").stat().st_mtime
    for name, days in (("old", 1.0), ("edge", -0.1), ("waits", -0.1), ("waits.out", 1.0)):
        at_s = now_s - (RECEIPT_DAYS + days) * DAY_S
        os.utime(root / OWN / name, (at_s, at_s))
    await write(files, key="newest", path="newest.txt")
    left = names_in(root / OWN)
    # What waits keeps its text: a receipt alone would say that it was moved.
    assert left == sorted([CLEANED, "edge", "waits", "waits.out", "new", "newest"])
    cleaned_at = int((root / OWN / CLEANED).read_text()) / 1e9
    asked = [call(key="old", path="old.txt"), call(key="edge", path="edge.txt")]
    sent = [duly.Call(**{**_fields(each), "sent_at": _moment(cleaned_at)}) for each in asked]
    assert isinstance(await files.write_happened(sent[0]), duly.Unsure)
    assert isinstance(await files.write_happened(sent[1]), duly.Applied)
    later = duly.Call(**{**_fields(asked[0]), "sent_at": _moment(cleaned_at + 2 * DAY_S)})
    assert await files.write_happened(later) == duly.NotApplied()


def _fields(made: duly.Call) -> dict[str, Any]:
    return {name: getattr(made, name) for name in duly.Call.__slots__}


def _moment(at_s: float) -> Any:
    return SENT_AT + timedelta(seconds=at_s - SENT_AT.timestamp())


# -- Errors, as they are born ---------------------------------------------------------------------


def fail_at(monkeypatch: pytest.MonkeyPatch, name: str, number: int, times: int = 99) -> None:
    """Let a function of the operating system fail from its first call on."""
    real: Callable[..., Any] = getattr(os, name)
    left = [times]

    def failing(*args: Any, **words: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(number, os.strerror(number))
        return real(*args, **words)

    monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize(
    ("function", "number", "kind", "said"),
    [
        ("write", errno.ENOSPC, duly.NotSent, r"a/note\.txt: the disk is full\. Make room"),
        ("write", errno.EIO, duly.NotSent, r"a/note\.txt: Input/output error"),
        ("open", errno.EMFILE, duly.NotSent, "too many files open"),
        ("mkdir", errno.EACCES, duly.PermissionDenied, "may not do that. Change the permissions"),
        ("mkdir", errno.EROFS, duly.PermissionDenied, "can only be read"),
        ("replace", errno.EACCES, duly.PermissionDenied, "may not do that"),
        ("replace", errno.EXDEV, duly.Refused, "another disk. Make a connector for that folder"),
        ("replace", errno.EIO, duly.UnknownOutcome, "it may be written"),
    ],
)
async def test_an_error_of_the_disk_says_whether_it_happened(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    number: int,
    kind: type[Exception],
    said: str,
) -> None:
    """L4: definite where nothing changed, unknown from the move on."""
    files = Files(root)
    with monkeypatch.context() as patch:
        fail_at(patch, function, number)
        with pytest.raises(kind, match=said):
            await write(files)
    assert await files.write_happened(call()) == duly.NotApplied()
    assert await write(files) == {"path": "a/note.txt", "bytes": 2}


async def test_an_error_after_the_move_is_unknown_and_then_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5: the file is there, so it is not said that it is not."""
    files = Files(root)
    real = os.replace

    def replace_and_lose_the_disk(*args: Any, **words: Any) -> None:
        real(*args, **words)
        fail_at(monkeypatch, "fsync", errno.EIO, times=1)

    monkeypatch.setattr(os, "replace", replace_and_lose_the_disk)
    with pytest.raises(duly.UnknownOutcome, match=r"a/note\.txt: Input/output error"):
        await write(files)
    assert isinstance(await files.write_happened(call()), duly.Applied)


async def test_each_thing_is_on_the_disk_before_the_next_is_begun(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: after a power cut no receipt is there without its text, unless the text was moved."""
    files = Files(root)
    (root / "a").mkdir()
    names = {os.stat(path).st_ino: name for path, name in ((root / OWN, OWN), (root / "a", "a"))}  # noqa: PTH116
    steps: list[str] = []
    sync, replace = os.fsync, os.replace

    def watch_sync(file: int) -> None:
        steps.append(f"sync {names.get(os.fstat(file).st_ino, 'file')}")
        sync(file)

    def watch_replace(*args: Any, **words: Any) -> None:
        steps.append("move")
        replace(*args, **words)

    def watch_write(own: int, name: str, *rest: Any) -> None:
        steps.append(f"write {name}")
        write_file(own, name, *rest)

    monkeypatch.setattr(os, "fsync", watch_sync)
    monkeypatch.setattr(os, "replace", watch_replace)
    monkeypatch.setattr(module, "write_file", watch_write)
    await write(files)
    text, receipt = ["write k1.out", "sync file"], ["write k1", "sync file"]
    synced = f"sync {OWN}"
    begin = steps.index(text[0])
    assert steps[begin : begin + 9] == [
        *[*text, synced, *receipt, synced],
        *["move", "sync a", synced],
    ]


async def test_a_folder_that_a_killed_process_made_is_brought_to_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: he may have been killed before he came to it, and what is in it hangs on it."""
    (root / "a/b").mkdir(parents=True)
    synced: set[int] = set()
    real = os.fsync

    def sync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    await write(Files(root), path="a/b/note.txt")
    assert {each.stat().st_ino for each in (root, root / "a", root / "a/b")} <= synced


async def test_what_happened_is_brought_to_the_disk_before_it_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: a process killed after the move may have left it where a power cut takes it away."""
    files = Files(root)
    await write(files)
    synced: list[int] = []
    real = os.fsync

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    await files.write_happened(call())
    assert synced == [(root / OWN).stat().st_ino, (root / "a").stat().st_ino]


# -- The exam -------------------------------------------------------------------------------------


def on_a_mounted_disk(folder: Path) -> Files:
    (folder / "lost+found").mkdir(exist_ok=True)
    return Files(folder)


def test_a_write_killed_at_any_moment_is_found_again_and_made_once(tmp_path: Path) -> None:
    """L5, L7: real processes, killed at every change of the disk, failed at every line."""
    report = examine(
        on_a_mounted_disk,
        "write",
        {"path": "a/one.txt", "text": "one"},
        other_args={"path": "a/two.txt", "text": "two"},
        effects=lambda folder: len(list(folder.glob("a/*.txt"))),
        folder=tmp_path,
        modules=["duly.connectors.folder"],
        look=look_at_disk,
    )
    assert report.unsure == 0
    assert report.applied > 2
    assert report.not_applied > 20


WRITER = """
from duly import workflow

flow = workflow("writer", topics={"said": {"ingress": True}})


@flow.consumer("said")
class note:
    async def prepare(self, ctx, state):
        said = await ctx.peek("said", limit=1)
        if not said:
            return {"reservations": []}
        return {
            "reservations": [{"topic": "said", "ids": [said[0]["message_id"]]}],
            "data": said[0]["title"],
            "ui": {"title": "Note it"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.files.write(path="note.txt", text=prepared["data"])
"""


async def test_a_host_that_crashes_after_a_write_does_not_write_again(
    duly_world: Stage, root: Path
) -> None:
    """L3, L5: the next host asks, and is told by the receipt."""
    host = await duly_world.host(connectors=[Files(root)])
    await host.deploy(duly.Source("python", WRITER), by="me", grant=True)
    await host.publish("writer", "said", title="hello", by="me")
    duly_world.crash_at(record="before")
    await duly_world.crash(host, host.drain())
    written = (root / "note.txt").stat().st_ino
    host = await duly_world.host(connectors=[Files(root)])
    async with host.running():
        await duly_world.advance("10m")
    (mutation,) = await host.mutations("writer")
    assert (mutation.status, mutation.attempt) == ("applied", 1)
    assert (root / "note.txt").stat().st_ino == written
