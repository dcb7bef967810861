"""Walks over random arrivals: clocks set forward and back, names used again, pages, lost files."""

from __future__ import annotations

import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from duly.connectors import Files, Mailbox
from duly.connectors import arrival as arrivals
from duly.connectors import files as module

pytestmark = pytest.mark.anyio

SECOND_NS = 1_000_000_000
STEPS = 120
JUMPS_S = (-(10**8), -86_400, -3600, -300, -1, 1, 3600, 86_400, 10**8)
SMALL = {"GIVEN_MAX": 6, "STRETCH_FILES_MIN": 3, "STRETCHES_MAX": 8, "NAMED_MAX": 2}


@dataclass
class Disk:
    """A folder whose clock can be set, and whose files are seen only some scans later."""

    dice: Random
    now_ns: int = 10**9 * SECOND_NS
    inode: int = 0
    files: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)

    def step(self) -> None:
        """Let one thing happen."""
        act = self.dice.choice((self.arrive, self.arrive, self.arrive, self.remove, self.jump))
        act()

    def arrive(self) -> None:
        """Put one to five files there; a name may be in use, and a moment is often the same."""
        for _ in range(self.dice.randint(1, 5)):
            self.now_ns += self.dice.choice((0, 0, 1, SECOND_NS))
            # An inode is used again at once, as file systems do.
            self.inode += self.dice.choice((0, 1))
            name = f"{self.dice.randint(0, 40):02}"
            # The size is what tells one version from another here; the cursor does not see it.
            size = 1 + max((each.st_size for each in self.files.values()), default=0)
            old = self.files.get(name)
            if old is not None and (old.st_ctime_ns, old.st_ino) == (self.now_ns, self.inode):
                self.now_ns += 1  # one moment has one version of a file (`pass_tick`)
            self.files[name] = SimpleNamespace(
                st_ctime_ns=self.now_ns,
                st_mtime_ns=0,
                st_dev=1,
                st_ino=self.inode,
                st_mode=stat.S_IFREG,
                st_nlink=1,
                st_size=size,
            )
            if self.dice.random() < 0.2:
                self.hidden.add(name)  # it came while the folder was being listed

    def remove(self) -> None:
        """Take a file away."""
        if self.files:
            del self.files[self.dice.choice(sorted(self.files))]

    def jump(self) -> None:
        """Set the clock."""
        self.now_ns += self.dice.choice(JUMPS_S) * SECOND_NS

    def list(self, here: int, what: str) -> list[tuple[str, Any]]:
        """List what a scan sees."""
        seen = [each for each in self.files.items() if each[0] not in self.hidden]
        self.hidden.clear()
        return seen


@pytest.mark.parametrize("seed", range(20))
async def test_no_walk_loses_an_arrival(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: pages, equal times, clocks set forward and back, names used again, late files."""
    disk = Disk(Random(seed))
    monkeypatch.setattr(module, "list_files", disk.list)
    monkeypatch.setattr(module, "PAGE_MAX", disk.dice.randint(1, 7))
    monkeypatch.setattr(module, "pass_tick", lambda: None, raising=False)
    for name, value in SMALL.items():
        monkeypatch.setattr(arrivals, name, value, raising=False)
    files, after = Files(tmp_path), None
    given: Counter[tuple[str, int]] = Counter()

    async def look(after: str | None) -> tuple[str, bool]:
        page = await files.search("*", after)
        for each in page.items:
            given[each["path"], each["size"]] += 1
        return str(page.names["last_cursor"]), bool(page.names["has_more"])

    for _ in range(STEPS):
        disk.step()
        if disk.dice.random() < 0.5:
            after, _ = await look(after)
    for _ in range(3):  # Until nothing is left, which must come to an end.
        has_more, looks = True, 0
        while has_more:
            after, has_more = await look(after)
            looks += 1
            assert looks < 200
    assert {(name, each.st_size) for name, each in disk.files.items()} <= given.keys()
    # And what was given stays given while nothing happens.
    before = given.total()
    await look(after)
    assert given.total() == before


async def test_no_mail_is_lost_in_a_mailbox_that_is_looked_into_while_it_changes(
    tmp_path: Path,
) -> None:
    """K11: on a real disk, whose clock goes in steps, with names used again at once."""
    for name in ("cur", "new", "tmp"):
        (tmp_path / name).mkdir()
    dice, box, after = Random(7), Mailbox(tmp_path), None
    put: set[str] = set()
    found: set[str] = set()
    for number in range(40):
        text = f"Message-ID: <{number:03}>\nFrom: a\nSubject: {number:03}\n\n"
        name = f"{dice.randint(0, 5)}.a"
        act = dice.randint(0, 2)
        new = tmp_path / "new" / name
        if act == 0 and new.exists():  # a person reads it, and it is moved
            new.replace(tmp_path / "cur" / f"{name}:2,S")
        elif not new.exists():
            (tmp_path / "tmp" / name).write_text(text)
            (tmp_path / "tmp" / name).rename(new)
            put.add(f"{number:03}")
        page = await box.search("", after)
        after = page.names["last_cursor"]
        found.update(each["subject"] for each in page.items)
    assert len(put) > 10
    assert found == put
