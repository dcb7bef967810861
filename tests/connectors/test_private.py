"""No connector with a folder serves the project's own files, whichever way leads there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.build import build_host
from duly.api.project import find_project
from duly.connectors import Files, Mailbox, Table
from duly.errors import ConfigError, Refused
from duly.host import Host
from tests.connectors import rows
from tests.connectors.notes import write

pytestmark = pytest.mark.anyio

SETTINGS = """
workflows = "flows"
extensions = "more"

[connectors.all]
use = "files"
path = "."

[connectors.crm]
use = "crm.outside:Crm"

[page]
certificate = "page.pem"
certificate_key = "sub/page.key"
"""
CONNECTOR = "import duly\n\nclass Crm(duly.Connector):\n    name = 'crm'\n"
# Every one of them, as a path below the folder of the project.
OWN = [
    *("duly.toml", "DULY.TOML", "duly.db", "Duly.DB", "duly.db-wal", "duly.db-shm", "duly.db.key"),
    *("duly.db.lock", "duly.db.socket", "duly.db.v1.backup", "helper.py", "Helper.PY"),
    *("flows/a.py", "flows/deep/b.js", "more/ours.yaml", "crm/outside.py", "FLOWS/new.py"),
    *("linked.txt", "linked-flow.txt", "linked-key.txt", "sub/linked.txt", "sub/page.key"),
]


def contents(folder: Path) -> dict[Path, bytes]:
    found = (each for each in folder.rglob("*") if ".duly" not in each.parts)
    return {each: each.read_bytes() for each in found if each.is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("flows/deep", "more", "crm", "sub"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "duly.toml").write_text(SETTINGS)
    (tmp_path / "crm" / "outside.py").write_text(CONNECTOR)
    for name in ("flows/a.py", "flows/deep/b.js", "more/ours.yaml", "helper.py", "notes.txt"):
        (tmp_path / name).write_text("secret")
    for name in ("duly.db", "duly.db-wal", "duly.db.key", "duly.db.v1.backup"):
        (tmp_path / name).write_text("secret")
    os.link(tmp_path / "duly.toml", tmp_path / "linked.txt")
    os.link(tmp_path / "flows" / "a.py", tmp_path / "linked-flow.txt")
    os.link(tmp_path / "duly.db.key", tmp_path / "linked-key.txt")
    os.link(tmp_path / "helper.py", tmp_path / "sub" / "linked.txt")
    (tmp_path / "flows-link").symlink_to(tmp_path / "flows")
    return tmp_path


def files_of(folder: Path) -> Files:
    """The connector as a host of the project has it."""
    host = build_host(find_project(str(folder), {}, folder), with_extensions=False)
    found: Any = host._outside._connectors["all"]
    assert isinstance(found, Files)
    return found


@pytest.mark.parametrize("path", OWN)
async def test_what_is_the_project_s_own_is_neither_read_nor_written(
    project: Path, path: str
) -> None:
    """K13: whatever it is called, and also where it is not there yet."""
    files = files_of(project)
    before = contents(project)
    with pytest.raises(Refused, match="belongs to this project"):
        await files.read(path)
    with pytest.raises(Refused, match="belongs to this project"):
        await write(files, path=path, text="new")
    assert contents(project) == before


async def test_what_is_the_project_s_own_is_not_listed(project: Path) -> None:
    """K13: and what is not, is served as ever."""
    files = files_of(project)
    assert [each["path"] for each in (await files.search()).items] == ["notes.txt"]
    assert [each["path"] for each in (await files.search("sub/*")).items] == []
    for pattern in ("flows/*", "flows/deep/*", "crm/*"):
        with pytest.raises(Refused, match="belongs to this project"):
            await files.search(pattern)
    with pytest.raises(Refused, match="symbolic link"):
        await files.search("flows-link/*")
    found = await files.read("notes.txt")
    assert found is not None
    assert found["text"] == "secret"
    await write(files, path="sub/a.py", text="x")
    assert (project / "sub" / "a.py").read_text() == "x"


async def test_sources_beside_all_the_rest_are_private_in_every_language(project: Path) -> None:
    """K13: `workflows = "."` makes sources of what could be deployed from there."""
    (project / "duly.toml").write_text(SETTINGS.replace('"flows"', '"."'))
    (project / "flow.js").write_text("secret")
    files = files_of(project)
    assert "flow.js" not in [each["path"] for each in (await files.search()).items]
    for path in ("flow.js", "Flow.JS", "new.js", "new.py"):
        with pytest.raises(Refused, match="belongs to this project"):
            await files.read(path)


async def test_what_lies_beside_a_store_is_private_also_behind_a_link_to_it(tmp_path: Path) -> None:
    """K13: the key and the log lie where the link ends."""
    for name in ("real", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked" / "duly.db").symlink_to(tmp_path / "real" / "store.db")
    for name in ("store.db", "store.db-wal", "store.db.key", "notes.txt"):
        (tmp_path / "real" / name).write_text("secret")
    files = Files(tmp_path / "real")
    Host(f"sqlite:///{tmp_path}/linked/duly.db", connectors=[files])
    assert [each["path"] for each in (await files.search()).items] == ["notes.txt"]
    with pytest.raises(Refused, match="belongs to this project"):
        await files.read("store.db.key")


def test_a_folder_called_as_a_built_in_connector_is_no_module(project: Path) -> None:
    """K13: the folder `mailbox` of `use = "mailbox"` holds mails."""
    (project / "files").mkdir()
    (project / "duly.toml").write_text(SETTINGS.replace('path = "."', 'path = "files"'))
    assert files_of(project)._folder.path == (project / "files").resolve()


def test_a_folder_that_is_private_as_a_whole_is_no_folder_for_a_connector(project: Path) -> None:
    """K13: neither the sources nor a folder below them, also through a link."""
    for place in ("flows", "flows/deep", "flows-link"):
        text = SETTINGS.replace('path = "."', f'path = "{place}"')
        (project / "duly.toml").write_text(text)
        with pytest.raises(ConfigError, match="belongs to this project"):
            files_of(project)


async def test_no_table_is_a_store_or_a_copy_of_one(tmp_path: Path) -> None:
    """K13: a database says whose it is; a copy may lie anywhere."""
    own, copy = tmp_path / "duly.db", tmp_path / "copies" / "monday.db"
    copy.parent.mkdir()
    async with duly.Host(f"sqlite:///{own}") as host:
        await host.backup(copy)
    os.link(own, tmp_path / "linked.db")
    files = Files(tmp_path)
    tables = [Table(url=f"sqlite:///{path}") for path in (own, copy, tmp_path / "linked.db")]
    for name, each in zip("abc", tables, strict=True):
        each.name = name
    duly.Host(f"sqlite:///{own}", connectors=[files, *tables])
    for each in tables:
        with pytest.raises(Refused, match="belongs to this project"):
            await each.rows("run")
        with pytest.raises(Refused, match="belongs to this project"):
            await rows.insert(each)
    with pytest.raises(Refused, match="belongs to this project"):
        await write(files, path="copies/monday.db", text="x")


async def test_a_mailbox_and_a_folder_of_tables_serve_nothing_of_the_project(
    tmp_path: Path,
) -> None:
    """K13: every connector with a folder, whatever its own files are called."""
    (tmp_path / "duly.eml").write_text("From: a@b\n\nsecret")
    (tmp_path / "duly.csv").write_text("a\nsecret\n")
    mails, tables = Mailbox(tmp_path), Table(tmp_path)
    assert len((await mails.search()).items) == 1
    for name in ("duly.eml", "duly.csv"):
        duly.Host(f"sqlite:///{tmp_path / name}", connectors=[mails, tables])
        assert len((await mails.search()).items) == (name != "duly.eml")
    with pytest.raises(Refused, match="belongs to this project"):
        await tables.rows("duly")
    made = rows.call(table="duly")
    with pytest.raises(Refused, match="belongs to this project"):
        await tables.insert(made, **made.args)  # type: ignore[arg-type]
