"""Adding a connection to a project by a host, and what a host asks before it begins again."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from duly.api.build import build_host, make_setup
from duly.api.project import Project, find_project
from duly.api.setup import CHUNK_BYTES, TOLD_BYTES_MAX, _first_of, _last_of
from duly.errors import ConfigError, DulyError, Invalid, RequestRefused
from duly.host import Host
from duly.rules.addable import ADDABLE, read_settings
from duly.rules.addable_kind import Takes
from duly.rules.addable_operation import field_of

TEXT = """\
# mine
[connectors.inbox]
use = "files"   # where notes come
path = "inbox"

[policy]
timezone = "Europe/Berlin"
"""
SPEC = """\
openapi: 3.1.0
servers: [{url: "http://127.0.0.1:1/"}]
components: {securitySchemes: {k: {type: apiKey, in: header, name: X-Other}}}
paths:
  /orders:
    get: {operationId: listOrders, responses: {}}
  /photo:
    post: {requestBody: {content: {image/png: {}}}}
"""
EXAMPLES = {
    Takes.TEXT: "ada",
    Takes.ADDRESS: "https://shop.example/api/***",
    Takes.HOST: "imap.example.com",
    Takes.HOSTS: "shop.example",
    Takes.FOLDER: "data",
    Takes.DOCUMENT: SPEC,
}
SPECIAL = {
    ("airtable", "base"): "appXXXXXXXXXXXXXX",
    ("sheets", "spreadsheet"): "1AbC2dEfG3hIj",
    ("gmail", "address"): "Ada <ada@example.com>",
    ("mail", "address"): "ada@example.com",
    ("calendar", "timezone"): "Europe/Berlin",
    ("ics", "timezone"): "Europe/Berlin",
    ("llm", "model"): "",
    ("http", "sign_in"): "header",
    ("http", "sign_in_name"): "X-Api-Key",
    **{("http", field_of(n, "operation")): f"add_{n}" for n in (1, 2, 3)},
    **{("http", field_of(n, "path")): "/tasks?all=true" for n in (1, 2, 3)},
    **{("http", field_of(n, "arguments")): "title, due string?" for n in (1, 2, 3)},
    **{("http", field_of(n, "found_by")): "/tasks?ada={key}" for n in (1, 2, 3)},
    **{("http", field_of(n, "key")): "query" for n in (1, 2, 3)},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "inbox").mkdir(parents=True)
    (made / "workflows").mkdir()
    (made / "workflows" / "a.py").write_text("")
    (made / "duly.toml").write_text(TEXT)
    return made


def read(folder: Path) -> Project:
    return find_project(str(folder), {}, folder)


@pytest.fixture
async def host(folder: Path) -> AsyncIterator[Host]:
    async with build_host(read(folder)) as made:
        yield made


def tables(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "duly.toml").read_text())["connectors"]
    return found


def files_in(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


async def refused(host: Host, code: str, **given: Any) -> DulyError:
    with pytest.raises(DulyError) as caught:
        await host.add_connection(**{"use": "files", "name": "notes", **given}, by="ada")
    assert caught.value.code == code, str(caught.value)
    return caught.value


async def test_a_connection_is_added_below_what_a_person_wrote(folder: Path, host: Host) -> None:
    """A6: who added it is written down; not a byte of the person's changes."""
    made = await host.add_connection("table", "orders", {"path": "a/b", "key": "nr"}, by="ada")
    assert (made.name, made.use, made.folder, made.signs_in) == ("orders", "table", "a/b", False)
    text = (folder / "duly.toml").read_text()
    assert text.startswith(TEXT)
    assert tables(folder)["orders"] == {"use": "table", "path": "a/b", "key": "nr"}
    assert (folder / "a" / "b").is_dir()
    (action, *_) = await host.actions()
    assert (action.by, action.verb, action.target) == ("ada", "add_connection", "orders")


async def test_secrets_go_into_the_store_and_nowhere_else(folder: Path, host: Host) -> None:
    """A5: sealed; the file, the actions and the errors have nothing of it."""
    await host.add_connection("telegram", "bot", {}, {"token": "12345:hidden"}, by="ada")
    assert [(each.connector, each.name) for each in await host.secrets()] == [("bot", "token")]
    assert [each for each in files_in(folder) if b"hidden" in each.read_bytes()] == []
    assert "hidden" not in str(await host.actions())
    assert (await host.settings()).added == ("bot",)
    await host.close()
    async with build_host(read(folder)) as again:
        shown = await again.connection("bot")
        assert [each.set_at is not None for each in shown.secrets] == [True]


async def test_the_same_form_sent_again_adds_nothing(folder: Path, host: Host) -> None:
    """A second click, at the same time or later, is the first one."""
    given: dict[str, Any] = {"use": "files", "name": "notes", "settings": {"path": "notes"}}
    one, other = await asyncio.gather(
        host.add_connection(**given, once="form"), host.add_connection(**given, once="form")
    )
    assert one == other
    assert [each.verb for each in await host.actions()] == ["add_connection"]
    await refused(host, "connection_there", settings={"path": "other"}, once="another form")
    await refused(host, "connection_there", settings={"path": "other"})
    # The same form with other words is not said to be done: the first words hold.
    await refused(host, "connection_there", settings={"path": "other"}, once="form")
    assert not (folder / "other").exists()


async def test_the_same_form_with_another_secret_is_not_said_to_be_done(host: Host) -> None:
    """A5: a person who corrects a secret learns that the first one holds."""
    given: dict[str, Any] = {"use": "telegram", "name": "bot", "settings": {}, "once": "form"}
    one = await host.add_connection(**given, secrets={"token": "12345:wrong"})
    assert await host.add_connection(**given, secrets={"token": "12345:wrong"}) == one
    await refused(host, "connection_there", **given, secrets={"token": "12345:right"})


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
async def test_a_disk_that_takes_nothing_is_said_and_leaves_nothing_behind(
    error: int, folder: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G10: it is no fault of Duly."""

    def broken(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        told = await refused(host, "unwritable", use="documents")
        assert os.strerror(error) in str(told)
        patch.setattr(Path, "mkdir", broken)
        await refused(host, "unwritable", settings={"path": "notes"})
    assert (folder / "duly.toml").read_text() == TEXT
    assert not (folder / ".duly.toml.new").exists()
    assert (await host.add_connection("files", "notes", {"path": "notes"})).name == "notes"


async def test_a_name_that_is_taken_is_refused_also_one_that_was_written_meanwhile(
    folder: Path, host: Host
) -> None:
    await refused(host, "connection_there", name="inbox", settings={"path": "x"})
    with (folder / "duly.toml").open("a") as file:
        file.write('\n[connectors.notes]\nuse = "documents"\n')
    await refused(host, "connection_there", settings={"path": "x"})
    assert tables(folder)["notes"] == {"use": "documents"}


async def test_settings_that_change_between_the_trial_and_the_write_are_not_written(
    folder: Path,
) -> None:
    """Nothing is written beside what was tried."""
    setup = make_setup(read(folder))
    added = setup.try_out("files", "notes", {"path": "notes"})
    (folder / "duly.toml").write_text(TEXT.replace("Berlin", "Paris"))
    with pytest.raises(ConfigError) as caught:
        setup.write(added)
    assert caught.value.code == "settings_changed"
    assert "notes" not in tables(folder)


async def test_what_cannot_be_written_down_as_an_act_is_taken_back(
    folder: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: no connection is added without an actor."""

    async def broken(**_: object) -> None:
        raise OSError("disk full")

    store = host._desk().parts.store
    monkeypatch.setattr(type(store), "note_act", property(lambda _: broken))
    with pytest.raises(OSError, match="disk full"):
        await host.add_connection("files", "notes", {"path": "notes"}, by="ada")
    assert tomllib.loads((folder / "duly.toml").read_text()) == tomllib.loads(TEXT)


@pytest.mark.parametrize("path", ["inbox/link", "link", "link/in", "duly.toml", "linked.txt"])
async def test_a_folder_behind_a_link_or_a_file_is_refused(
    folder: Path, host: Host, path: str, tmp_path: Path
) -> None:
    """K13: no link leads out of the project, and none within it either."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for each in (folder / "link", folder / "inbox" / "link"):
        each.symlink_to(outside)
    (folder / "linked.txt").symlink_to(folder / "duly.toml")
    error = await refused(host, "wrong_value", settings={"path": path})
    assert isinstance(error, Invalid)
    assert error.path == "settings.path"
    assert not [*outside.iterdir()]
    assert "notes" not in tables(folder)


@pytest.mark.parametrize("path", ["workflows", "workflows/in", "data", "ext", "ext/one", "own"])
async def test_a_folder_with_something_of_the_project_is_refused(folder: Path, path: str) -> None:
    """K13: sources, the store and its key, extensions and the project's own code."""
    (folder / "data").mkdir()
    (folder / "ext").mkdir()
    (folder / "own").mkdir()
    (folder / "own" / "__init__.py").write_text(
        "import duly\n\n\nclass Own(duly.Connector):\n    name = 'own'\n"
    )
    more = 'url = "sqlite:///data/duly.db"\nextensions = "ext"\n'
    own = '\n[connectors.mine]\nuse = "own:Own"\n'
    (folder / "duly.toml").write_text(more + TEXT + own)
    setup = make_setup(read(folder))
    with pytest.raises(Invalid) as caught:
        setup.try_out("files", "notes", {"path": path})
    assert caught.value.path == "settings.path"


async def test_a_connector_that_cannot_be_built_leaves_nothing_behind(
    folder: Path, host: Host
) -> None:
    """Law 2: it is built from what would be written, before it is written."""
    error = await refused(
        host,
        "not_added",
        use="mail",
        settings={"address": "no address"},
        secrets={"password": "abcd"},
    )
    assert "address" in str(error)
    await refused(host, "beyond_page", use="sql", settings={"url": "sqlite:///x.db"})
    await refused(host, "beyond_page", settings={"path": "x", "allow": "10.0.0.1"})
    assert (folder / "duly.toml").read_text() == TEXT
    assert {each.parent.name for each in files_in(folder)} == {"project", "workflows"}
    assert not (folder / "x").exists()


async def test_a_name_under_which_another_connection_left_a_secret_is_refused(
    folder: Path, host: Host
) -> None:
    """K4: a new connection inherits nothing."""
    await host.add_connection("telegram", "bot", {}, {"token": "12345:abcdef"})
    await host.close()
    async with build_host(read(folder)):
        pass  # the address of the service is known from here on
    (folder / "duly.toml").write_text(TEXT)
    async with build_host(read(folder)) as again:
        await refused(again, "name_used_before", use="slack", name="bot", secrets={"token": "abcd"})
        await again.drop_secret("bot", "token")
        await refused(again, "name_used_before", use="slack", name="bot", secrets={"token": "abcd"})
        made = await again.add_connection("slack", "chat", {}, {"token": "abcd"})
        assert made.name == "chat"


async def test_a_host_without_a_project_refuses(tmp_path: Path) -> None:
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        await refused(host, "no_project_here", settings={"path": "x"})
        with pytest.raises(RequestRefused) as caught:
            await host.restart()
        assert caught.value.code == "not_restarted_here"
        assert await host.kinds() == ()
        assert not (await host.settings()).has_project


@pytest.mark.parametrize("use", ADDABLE)
async def test_every_kind_is_built_from_its_form_and_asks_for_the_secrets_of_its_row(
    use: str, folder: Path
) -> None:
    """A5: no secret of a kind is forgotten in its form, and none is asked for in vain."""
    setup = make_setup(read(folder))
    (kind,) = (each for each in setup.list_kinds() if each.use == use)
    assert all(each.label for each in kind.fields)
    given = {
        each.name: SPECIAL.get((use, each.name))
        or (each.choices[0] if each.choices else EXAMPLES[each.takes])
        for each in kind.fields
        if SPECIAL.get((use, each.name)) != ""
    }
    settings = read_settings(use, given)
    if use == "llm":
        with (folder / "duly.toml").open("a") as file:
            file.write('\n[models.default]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    setup.write(setup.try_out(use, "new", settings))
    host = build_host(read(folder))
    asked = set(host.connectors.secrets_of("new"))
    sign_in = {"token", "sign_in"} if kind.signs_in else set()
    assert asked - sign_in == {each.name for each in kind.secrets} - sign_in


# -- What has changed -----------------------------------------------------------------------------


async def test_a_host_says_which_connections_its_settings_have_now(
    folder: Path, host: Host
) -> None:
    """U7: comments change nothing; a setting that is wrong is said."""
    assert not (await host.settings()).is_changed
    with (folder / "duly.toml").open("a") as file:
        file.write("# more words\n")
    assert not (await host.settings()).is_changed
    await host.add_connection("files", "notes", {"path": "notes"})
    now = await host.settings()
    assert (now.is_changed, now.added, now.changed, now.gone) == (True, ("notes",), (), ())
    assert (now.has_project, now.can_restart, now.is_alone, now.fault) == (True, False, True, None)
    (folder / "duly.toml").write_text('[connectors.inbox]\nuse = "files"\npath = "other"\n')
    now = await host.settings()
    assert (now.added, now.changed, now.gone) == ((), ("inbox",), ())
    (folder / "duly.toml").write_text("[connectors\n")
    now = await host.settings()
    assert now.is_changed
    assert "duly.toml" in str(now.fault)


class Restarted:
    count = 0

    def __call__(self) -> None:
        self.count += 1


BROKEN = {
    "not toml": "[connectors\n",
    "unknown key": "nonsense = 1\n",
    "a connector that cannot be built": '[connectors.x]\nuse = "files"\npath = "nowhere"\n',
    "a class that does not load": '[connectors.x]\nuse = "broken:X"\n',
    "another store": 'url = "sqlite:///other.db"\n',
    "a page without its certificate": (
        '[page]\naddress = "127.0.0.1"\ncertificate = "c.pem"\ncertificate_key = "k.pem"\n'
    ),
    "a page with a certificate that is none": (
        '[page]\ncertificate = "broken.py"\ncertificate_key = "broken.py"\n'
    ),
    "extensions in a folder that is not there": 'extensions = "nowhere"\n',
}


@pytest.mark.parametrize("why", BROKEN)
async def test_a_host_does_not_stop_for_settings_with_which_none_could_begin(
    why: str, folder: Path
) -> None:
    """R7: the person keeps the host that they have, and learns what is wrong."""
    (folder / "broken.py").write_text("raise ValueError('no')\n")
    restarted = Restarted()
    async with build_host(read(folder), restart=restarted) as host:
        (folder / "duly.toml").write_text(BROKEN[why])
        with pytest.raises(RequestRefused) as caught:
            await host.restart(by="ada")
        assert caught.value.code == "settings_broken", str(caught.value)
        assert restarted.count == 0
        assert await host.actions() == ()
        (folder / "duly.toml").write_text(TEXT)
        await host.restart(by="ada")
        assert restarted.count == 1
        (action,) = await host.actions()
        assert (action.by, action.verb) == ("ada", "restart")
    assert not (folder / "other.db").exists()


async def test_a_program_that_ends_while_it_is_tried_out_ends_no_host(folder: Path) -> None:
    (folder / "ends.py").write_text("import os\nos._exit(7)\n")
    async with build_host(read(folder), restart=Restarted()) as host:
        (folder / "duly.toml").write_text('[connectors.x]\nuse = "ends:X"\n')
        with pytest.raises(RequestRefused) as caught:
            await host.restart()
        assert caught.value.code == "not_rehearsed"


OWN = "import duly\n\n\nclass X(duly.Connector):\n    name = 'x'\n"


@pytest.mark.parametrize(
    "more",
    [
        "print('loaded')\n",
        "import atexit\natexit.register(print, 'ended')\n",
        "import os\nos.system('echo loaded')\n",
    ],
)
async def test_what_a_module_prints_is_no_part_of_what_comes_of_its_trial(
    more: str, folder: Path
) -> None:
    """R7: it printed at every start, and no host stumbled over it."""
    (folder / "loud.py").write_text(more + OWN)
    restarted = Restarted()
    async with build_host(read(folder), restart=restarted) as host:
        (folder / "duly.toml").write_text('[connectors.x]\nuse = "loud:X"\n')
        await host.restart(by="ada")
    assert restarted.count == 1


async def test_a_program_that_ends_without_a_word_is_said_to_have_not_been_tried_out(
    folder: Path,
) -> None:
    (folder / "ends.py").write_text("import os\nos._exit(0)\n")
    async with build_host(read(folder), restart=Restarted()) as host:
        (folder / "duly.toml").write_text('[connectors.x]\nuse = "ends:X"\n')
        with pytest.raises(RequestRefused) as caught:
            await host.restart()
        assert caught.value.code == "not_rehearsed"


@pytest.mark.parametrize("read_one", [_first_of, _last_of])
async def test_what_a_trial_says_is_read_to_its_end_and_not_kept_in_memory(
    read_one: Callable[[asyncio.StreamReader], Awaitable[bytes]],
) -> None:
    """A module that prints without end costs this host no memory."""
    stream = asyncio.StreamReader()
    for _ in range(40):
        stream.feed_data(b"x" * 100_000)
    stream.feed_data(b"last words")
    stream.feed_eof()
    kept = await read_one(stream)
    assert stream.at_eof()
    assert len(kept) <= TOLD_BYTES_MAX + CHUNK_BYTES
    assert (len(kept) > TOLD_BYTES_MAX) is (read_one is _first_of)
    assert kept.endswith(b"last words") is (read_one is _last_of)


async def test_a_host_does_not_stop_for_a_page_where_another_program_listens(folder: Path) -> None:
    """G1: a person who has the page alone would lose it; its own place is no other program's."""
    restarted = Restarted()
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.create_server(("127.0.0.1", 0)) as own,
    ):
        taken, held = other.getsockname()[1], own.getsockname()[1]
        (folder / "duly.toml").write_text(f"[page]\nport = {held}\n")
        async with build_host(read(folder), restart=restarted) as host:
            for text in (f"port = {taken}", f'hooks_address = "127.0.0.1:{taken}"'):
                (folder / "duly.toml").write_text(f"[page]\n{text}\n")
                with pytest.raises(RequestRefused) as caught:
                    await host.restart()
                assert caught.value.code == "settings_broken", str(caught.value)
                assert str(taken) in str(caught.value)
            assert restarted.count == 0
            for text in (f"port = {held}", "port = 0"):
                (folder / "duly.toml").write_text(f'[page]\naddress = "127.0.0.2"\n{text}\n')
                await host.restart()
    assert restarted.count == 2
