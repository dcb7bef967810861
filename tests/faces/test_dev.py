"""`duly dev`: a file is deployed when it was saved, whole, and a broken one changes nothing.

The real process is run by `test_getting_started.py`, as the page says it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duly.api.build import build_host
from duly.api.project import Project, find_project
from duly.faces.cli.dev import Watch, look_at
from duly.host import Host
from tests.faces.real import make_project


def find(folder: Path) -> Project:
    return find_project(str(folder), {}, folder)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Host, Watch, Path]]:
    project = find(make_project(folder))
    async with build_host(project, with_extensions=False) as host:
        yield host, Watch(project, by="ada"), folder / "workflows" / "welcome.py"


async def versions(host: Host) -> list[str]:
    return [each.version for each in await host.versions("welcome")]


async def test_a_file_is_deployed_once_when_it_rests(tmp_path: Path) -> None:
    """W8: half a save is never deployed, and what is active already makes no version."""
    async with opened(tmp_path) as (host, watch, path):
        whole = path.read_text()
        path.write_text(whole[:100])
        await watch.look(host, look_at([path]))
        path.write_text(whole)
        await watch.look(host, look_at([path]))
        assert await host.workflows() == ()
        for _ in range(3):
            await watch.look(host, look_at([path]))
        assert await versions(host) == ["1.0"]
        (workflow,) = await host.workflows()
        assert workflow.name == "welcome"
        (version,) = await host.versions("welcome")
        assert version.author == "ada"
        another = Watch(watch.project, by="ada")
        for _ in range(3):
            await another.look(host, look_at([path]))
        assert await versions(host) == ["1.0"]


async def test_a_broken_save_leaves_the_old_version_active(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W5: what is wrong is shown with its place, and that the old version goes on is said."""
    async with opened(tmp_path) as (host, watch, path):
        whole = path.read_text()
        for text in (whole, whole + "x = (\n", whole.replace("Welcome,", "Hello,")):
            path.write_text(text)
            for _ in range(2):
                await watch.look(host, look_at([path]))
        assert await versions(host) == ["2.0", "1.0"]
        assert "workflows/welcome.py:44:5: syntax: This is not Python" in caplog.text
        assert "welcome.py was refused; welcome goes on as it was." in caplog.text
        twin = path.with_name("twin.py")
        twin.write_text(whole)
        for _ in range(2):
            await watch.look(host, look_at([path, twin]))
        assert "welcome.py and twin.py both declare welcome" in caplog.text
        path.unlink()
        await watch.look(host, look_at([path]))
        assert "welcome.py is gone; welcome goes on as it was." in caplog.text


async def test_a_save_with_a_warning_leaves_the_old_version_active_unless_somebody_is_lenient(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W5: `dev` is as strict as `check`; what was let in once stays when it starts again."""
    async with opened(tmp_path) as (host, watch, path):
        whole = path.read_text()
        for text in (whole, whole.replace("inbox.read", "inbox.raed")):
            path.write_text(text)
            for _ in range(2):
                await watch.look(host, look_at([path]))
        assert await versions(host) == ["1.0"]
        assert 'Did you mean "inbox.read"?' in caplog.text
        assert "welcome.py was refused; welcome goes on as it was." in caplog.text
        for is_strict in (False, True):
            another = Watch(watch.project, by="ada", is_strict=is_strict)
            for _ in range(2):
                await another.look(host, look_at([path]))
            assert await versions(host) == ["2.0", "1.0"]
        assert caplog.text.count("welcome.py was refused") == 1


async def test_a_save_with_another_name_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W9: under it everything would be done again, beside the workflow that is active."""
    async with opened(tmp_path) as (host, watch, path):
        whole = path.read_text()
        renamed = whole.replace('workflow("welcome"', 'workflow("greeting"')
        assert renamed != whole
        for text in (whole, renamed):
            path.write_text(text)
            for _ in range(2):
                await watch.look(host, look_at([path]))
        assert [each.name for each in await host.workflows()] == ["welcome"]
        assert "renamed-workflow: This file declared “welcome”, which is active" in caplog.text
        assert "say `duly deploy --replay workflows/welcome.py`." in caplog.text
        await host.remove("welcome", by="ada")
        another = Watch(watch.project, by="ada")
        for _ in range(2):
            await another.look(host, look_at([path]))
        assert [each.name for each in await host.workflows()] == ["greeting"]


async def test_a_file_that_was_never_right_says_that_nothing_of_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W5: a refused first save, and one nobody can read, are said and nothing is stored."""
    async with opened(tmp_path) as (host, watch, path):
        for text in (b"flow = 1\n", b"\xff\xfe"):
            path.write_bytes(text)
            for _ in range(2):
                await watch.look(host, look_at([path]))
        assert await host.workflows() == ()
        assert "nothing of what it says now runs" in caplog.text
        assert "cannot be read" in caplog.text


async def test_without_a_grant_the_capabilities_are_left_to_a_person(tmp_path: Path) -> None:
    """A2: `--no-grant` deploys, and the workflow waits at its first call."""
    async with opened(tmp_path) as (host, watch, path):
        watch.is_granted = False
        for _ in range(2):
            await watch.look(host, look_at([path]))
        await host.drain()
        (workflow,) = await host.workflows()
        assert workflow.standing == "needs attention"


def test_code_that_is_read_at_the_start_is_named_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """B9: an extension's code is not read again; a person who changes it is told to start again."""
    folder = make_project(tmp_path)
    extension = folder / "extensions" / "post" / "main.py"
    extension.parent.mkdir(parents=True)
    extension.write_text("x = 1\n")
    settings = (folder / "duly.toml").read_text()
    (folder / "duly.toml").write_text(f'extensions = "extensions"\n{settings}')
    watch = Watch(find(folder), by="ada")
    watch._code = watch._look_at_code()
    with caplog.at_level(logging.WARNING, "duly.dev"):
        watch._tell_code(watch._look_at_code())
        assert caplog.text == ""
        extension.write_text("x = 22\n")
        watch._tell_code(watch._look_at_code())
    assert "main.py changed, which is read at the start only" in caplog.text


def test_a_folder_that_goes_away_while_it_is_looked_at_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3: `git checkout` beside a running host; what is not there is seen the next time."""
    folder = make_project(tmp_path)
    settings = (folder / "duly.toml").read_text()
    (folder / "duly.toml").write_text(f'extensions = "extensions"\n{settings}')

    def gone(self: Path, pattern: str) -> list[Path]:
        raise FileNotFoundError(2, "No such file or directory", str(self))

    monkeypatch.setattr(Path, "rglob", gone)
    assert [*Watch(find(folder), by="ada")._look_at_code()] == [folder / "duly.toml"]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """H3: a reader that opens a pipe waits for the other end, and the host would wait with him."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "file.py").touch()
    assert [*look_at(tmp_path.iterdir())] == [tmp_path / "file.py"]
