"""The scripts in the folder of the project: shown first, deployed as shown, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from duly.api.door import Within
from duly.api.folder import SCRIPTS_MAX, ProjectFolder
from duly.api.registry import Scope
from duly.config import Limits
from duly.errors import ConfigError, Invalid
from duly.faces.web.app import make_app
from duly.faces.web.guard import Place
from duly.rules.source import EXAMPLE
from tests.web.stand import FORM, OWN, Reply, ask, form, serving

HTML = {"accept": "text/html"}


def make(folder: Path, **texts: str) -> ProjectFolder:
    """Make a project with scripts."""
    scripts = folder / "workflows"
    scripts.mkdir()
    for name, text in texts.items():
        (scripts / f"{name}.py").write_text(text)
    return ProjectFolder(folder, scripts)


async def test_a_script_is_deployed_as_it_was_shown_or_not_at_all(tmp_path: Path) -> None:
    """M9, G14: the first page lists it, its page says what it will do, a form deploys it."""
    folder = make(tmp_path, invoices=EXAMPLE["text"], broken="this is no script")
    assert folder.scripts is not None
    async with serving(tmp_path) as web:
        app = make_app(Within(web.host), Place(folder=folder))

        async def look(path: str, scope: Scope = Scope.DECIDE, **fields: str) -> Reply:
            signed = {**HTML, "authorization": f"Bearer {web.tokens[scope]}"}
            if not fields:
                return await ask(app, path, headers=signed)
            sent: Any = {**signed, **OWN, **FORM}
            return await ask(app, path, "POST", headers=sent, body=form(**fields))

        assert 'href="/scripts/invoices.py"' in (await look("/")).text
        assert "/scripts/" not in (await look("/", Scope.AGENT)).text  # who cannot deploy
        assert (await look("/scripts/invoices.py", Scope.AGENT)).status == 403
        assert "It cannot be deployed as it is" in (await look("/scripts/broken.py")).text
        shown = (await look("/scripts/invoices.py")).text
        assert "What it will do" in shown
        seen = folder.read_script("invoices.py").hash
        assert f'value="{seen}"' in shown
        path = folder.scripts / "invoices.py"
        path.write_text(EXAMPLE["text"].replace("invoices", "payments"))
        reply = await look("/deploy-script", name="invoices.py", seen=seen)
        assert (reply.status, "this changed meanwhile" in reply.text) == (409, True)
        assert not await web.host.workflows()
        path.write_text(EXAMPLE["text"])
        reply = await look("/deploy-script", name="invoices.py", seen=seen)
        assert (reply.status, dict(reply.headers)["location"]) == (303, "/w/invoices")
        (made,) = await web.host.versions("invoices")
        assert made.author == "token:decide token"
        reply = await look("/deploy-script", name="invoices.py", seen=seen)  # a double click
        assert (reply.status, "No new version was made" in reply.text) == (200, True)
        assert len(await web.host.versions("invoices")) == 1
        text = (await look("/")).text
        assert ("/scripts/" in text, 'href="/scripts"' in text) == (False, True)
        text = (await look("/scripts")).text  # where a second text is pasted, too
        for told in ('href="/scripts/invoices.py"', 'action="/preview"'):
            assert told in text


def test_only_plain_files_of_the_folder_are_listed_and_read(tmp_path: Path) -> None:
    """K13, K14: a name leads to no other file, to no pipe, and to none that others could write."""
    folder = make(tmp_path, plain="a = 1", shared="a = 2", long="#" * Limits().source_bytes)
    scripts = folder.scripts
    assert scripts is not None
    (tmp_path / "secret.py").write_text("key")
    (scripts / "link.py").symlink_to(tmp_path / "secret.py")
    os.mkfifo(scripts / "pipe.py")
    (scripts / "notes.txt").write_text("text")
    (scripts / "inner.py").mkdir()
    (scripts / "shared.py").chmod(0o666)
    assert folder.list_scripts() == ["long.py", "plain.py", "shared.py"]
    assert folder.read_script("plain.py").text == "a = 1"
    assert len(folder.read_script("long.py").text) == Limits().source_bytes
    (scripts / "long.py").write_text("#" * (Limits().source_bytes + 1))
    with pytest.raises(ConfigError, match="shared"):
        folder.read_script("shared.py")
    names = ("link.py", "pipe.py", "inner.py", "notes.txt", "long.py", "gone.py", "", "..")
    for name in (*names, "../secret.py", str(tmp_path / "secret.py"), "a\0.py"):
        with pytest.raises(Invalid):
            folder.read_script(name)
    with pytest.raises(Invalid):
        ProjectFolder(tmp_path).read_script("secret.py")
    for number in range(SCRIPTS_MAX + 1):
        (scripts / f"{number:03}.py").touch()
    assert len(folder.list_scripts()) == SCRIPTS_MAX
    assert ProjectFolder(tmp_path, tmp_path / "none").list_scripts() == []
