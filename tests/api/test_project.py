"""Where a project lies, what its file becomes, and every way it is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from duly.api.build import CHANNELS, CONNECTORS, build_host
from duly.api.project import Project, find_project
from duly.bus.channel import TerminalChannel, WebhookChannel
from duly.config import BusSettings, Config
from duly.connectors.base import Connector
from duly.errors import ConfigError
from duly.host import Host

MODULE = """
import duly
from pathlib import Path


class Shed(duly.Connector):
    def __init__(self, path: Path, shelves: int = 3, url: str = "") -> None:
        self.path, self.shelves, self.url = path, shelves, url

    @duly.read
    async def look(self) -> dict:
        return {}


class Named(Shed):
    def __init__(self, *, name: str) -> None:
        self.name = name


class Broken(duly.Connector):
    def __init__(self) -> None:
        raise ValueError("no tea")


class Refused(duly.Connector):
    def __init__(self) -> None:
        raise duly.Invalid("The pot has a hole.")


class Mender:
    async def repair(self, case):
        return None


class Pigeon:
    def __init__(self, name, loft="home"):
        self.name, self.loft = name, loft

    async def send(self, text, *, to=None): ...


mender = Mender()
nothing = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Write a module of the project's own; answer its name, which no other test has."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    yield name
    sys.modules.pop(name, None)


def write(folder: Path, text: str) -> Path:
    file = folder / "duly.toml"
    file.write_text(dedent(text), encoding="utf-8")
    return file


def found(folder: Path, text: str) -> Project:
    write(folder, text)
    return find_project(str(folder), {}, Path("/"))


def refusal(folder: Path, text: str) -> str:
    project = found(folder, text)
    with pytest.raises(ConfigError) as caught:
        build_host(project)
    told = str(caught.value)
    where = f"{folder / 'duly.toml'}: "
    assert told.startswith(where)
    return told.removeprefix(where)


# -- Finding ------------------------------------------------------------------------------------


def test_a_project_is_found_by_its_name_the_variable_or_walking_up(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    file = write(tmp_path / "a", 'url = "sqlite:///a.db"')
    other = tmp_path / "other"
    other.mkdir()
    (other / "my.toml").write_text('url = "sqlite:///o.db"')
    variable = {"DULY_PROJECT": str(other / "my.toml")}

    walked = find_project(None, {}, deep)
    assert (walked.folder, walked.file) == (tmp_path / "a", file)
    assert find_project("..", {}, deep) == find_project("../duly.toml", variable, deep)
    by_variable = find_project(None, variable, deep)
    assert (by_variable.folder, by_variable.url) == (other, f"sqlite:///{other / 'o.db'}")


def test_without_a_file_the_working_folder_is_the_project(tmp_path: Path) -> None:
    project = find_project(None, {"DULY_POLICY__RUNS_MAX": "7"}, tmp_path)
    assert (project.folder, project.file) == (tmp_path, None)
    assert project.config.policy.runs_max == 7
    assert project.url == f"sqlite:///{tmp_path / 'duly.db'}"
    assert project.socket == tmp_path / "duly.db.socket"
    assert project.workflows == tmp_path / "workflows"


@pytest.mark.parametrize("is_variable", [False, True])
def test_a_project_that_is_not_there_is_refused_by_who_named_it(
    tmp_path: Path, is_variable: bool
) -> None:
    said = "DULY_PROJECT" if is_variable else "--project"

    def find(name: str) -> Project:
        environ = {"DULY_PROJECT": name} if is_variable else {}
        return find_project(None if is_variable else name, environ, tmp_path)

    with pytest.raises(ConfigError, match=f"^{said} names {tmp_path}/x, which is not there"):
        find("x")
    with pytest.raises(ConfigError, match=f"names {tmp_path}, which has no duly.toml"):
        find(".")


def test_whatever_is_relative_is_relative_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    project = found(tmp_path, 'url = "sqlite:///data/x.db"\nworkflows = "flows"')
    assert project.url == f"sqlite:///{tmp_path / 'data/x.db'}"
    assert project.workflows == tmp_path / "flows"
    absolute = found(tmp_path, 'url = "sqlite:////srv/x.db"')
    assert (absolute.url, absolute.socket) == ("sqlite:////srv/x.db", Path("/srv/x.db.socket"))


def test_two_names_of_one_database_meet_at_one_socket(tmp_path: Path) -> None:
    """H1: the lock is beside the file itself, and so is the socket."""
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")
    assert found(tmp_path, 'url = "sqlite:///link.db"').socket == tmp_path / "real.db.socket"


def test_a_mistake_in_the_file_is_told_with_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, "[conectors.mailbox]\nuse = 'mailbox'")
    with pytest.raises(ConfigError, match=f"^{file}: conectors is not a setting. .* connectors.$"):
        find_project(None, {}, tmp_path)


# -- Building -----------------------------------------------------------------------------------


async def test_a_file_becomes_a_host(tmp_path: Path, own: str) -> None:
    (tmp_path / "more").mkdir()
    project = found(
        tmp_path,
        f"""
        url = "sqlite:///x.db"
        extensions = "more"
        repairer = "{own}:Mender"

        [connectors.shed]
        use = "{own}:Shed"
        path = "garden/shed"
        url = "sqlite:///rows.db"

        [connectors.cellar]
        use = "{own}:Named"

        [channels.desk]
        use = "terminal"

        [channels.chat]
        use = "webhook"
        url = "https://chat.example.com/7"

        [channels.bird]
        use = "{own}:Pigeon"
        loft = "roof"

        [bus]
        batch = 7
        """,
    )
    host = build_host(project)
    connectors = host._outside.connectors
    assert {"shed", "cellar"} <= set(connectors)
    assert host._channels.names == ("desk", "chat", "bird")
    assert isinstance(host._channels.find(), TerminalChannel)
    assert isinstance(host._channels.find("chat"), WebhookChannel)
    assert vars(host._channels.find("bird"))["loft"] == "roof"
    assert type(host._repairer).__name__ == "Mender"
    assert host._folder == tmp_path / "more"
    assert host._bus_settings == BusSettings(batch=7)
    async with host:
        names = {each.name for each in await host.tools()}
    assert {"shed.look", "cellar.look"} <= names


def test_a_path_is_read_from_the_folder_and_a_url_too(tmp_path: Path, own: str) -> None:
    text = f'[connectors.shed]\nuse = "{own}:Shed"\npath = "shed"\nurl = "sqlite:///rows.db"'
    host = build_host(found(tmp_path, text))
    shed = connector(host, "shed")
    assert vars(shed)["path"] == tmp_path / "shed"
    assert vars(shed)["url"] == f"sqlite:///{tmp_path / 'rows.db'}"
    assert vars(shed)["shelves"] == 3


def connector(host: Host, name: str) -> Connector:
    return host._outside._connectors[name]


def test_without_extensions_there_are_no_channels_either(tmp_path: Path) -> None:
    """Law 2 of a session: nothing but the verb runs, so nobody is told anything either."""
    project = found(tmp_path, 'extensions = "more"\n[channels.desk]\nuse = "terminal"')
    host = build_host(project, with_extensions=False)
    assert (host._folder, host._channels.names) == (None, ())


def test_an_object_is_taken_as_it_is_and_a_class_is_called(tmp_path: Path, own: str) -> None:
    host = build_host(found(tmp_path, f'repairer = "{own}:mender"'))
    assert host._repairer is sys.modules[own].mender
    assert sys.path[-1] == str(tmp_path), "behind all that is installed (K14)"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[connectors.shed]",
            (
                "[connectors.shed]: use is missing. Name what to use:"
                f' {" or ".join(CONNECTORS)}, or a class of your own as "module:Class"'
            ),
        ),
        (
            '[connectors.shed]\nuse = "mailbocks"',
            (
                '[connectors.shed]: "mailbocks" is not built in. Did you mean "mailbox"?'
                ' Name a class of your own as "module:Class"'
            ),
        ),
        (
            '[connectors.shed]\nuse = "files"\nname = "x"',
            "[connectors.shed]: name is given already: it is the name of the table. Leave it out.",
        ),
        (
            '[connectors.shed]\nuse = "no_such_module:Shed"',
            (
                "[connectors.shed]: The module no_such_module cannot be imported"
                " (ModuleNotFoundError: No module named 'no_such_module'). Correct the module"
                " or its name; Duly looks among the installed packages, then in FOLDER"
            ),
        ),
        ('[connectors.shed]\nuse = "OWN:"', "[connectors.shed]: OWN: must be a module and a name"),
        (
            '[connectors.shed]\nuse = "OWN:Shedd"',
            "[connectors.shed]: The module OWN has no class Shedd. Correct the name. Did you mean",
        ),
        (
            '[connectors.shed]\nuse = "OWN:Shed"',
            "[connectors.shed]: path is missing for Shed. Add it.",
        ),
        (
            '[connectors.shed]\nuse = "OWN:Shed"\npath = "x"\nshelf = 3',
            '[connectors.shed]: shelf: no such argument of Shed. Did you mean "shelves"?',
        ),
        (
            '[connectors.shed]\nuse = "OWN:nothing"',
            "[connectors.shed]: int is not a duly.Connector. Name a class that is derived from it.",
        ),
        (
            '[connectors.shed]\nuse = "OWN:Mender"',
            (
                "[connectors.shed]: Mender is not a duly.Connector. "
                "Name a class that is derived from it."
            ),
        ),
        (
            '[connectors.shed]\nuse = "OWN:Broken"',
            "[connectors.shed]: Broken could not be made: ValueError: no tea",
        ),
        (
            '[connectors.shed]\nuse = "OWN:Refused"',
            "[connectors.shed]: Refused could not be made: The pot has a hole.",
        ),
        (
            '[connectors.Shed]\nuse = "OWN:Named"',
            "[connectors.Shed]: Named has the name 'Shed'. Use lower-case letters, digits and",
        ),
        (
            '[channels.desk]\nuse = "telephone"',
            (
                '[channels.desk]: "telephone" is not built in. Known: heartbeat, mail, telegram,'
                " terminal, webhook."
                ' Name a class of your own as "module:Class"'
            ),
        ),
        (
            '[channels.desk]\nuse = "webhook"',
            "[channels.desk]: url is missing for WebhookChannel. Add it.",
        ),
        ('repairer = "OWN"', "OWN must be a module and a name in it"),
        (
            'repairer = "OWN:nothing"',
            "repairer: int cannot be asked for a repair. Give an object that has `async def repair",
        ),
        ('url = "duly.db"', '"duly.db" names no SQLite file. Write sqlite:///relative.db or'),
    ],
)
def test_a_mistake_is_told_with_the_table_and_what_to_write(
    tmp_path: Path, own: str, text: str, sentence: str
) -> None:
    told = refusal(tmp_path, text.replace("OWN", own))
    assert told.startswith(sentence.replace("OWN", own).replace("FOLDER", str(tmp_path)))


def test_a_module_that_fails_is_told_with_its_reason(tmp_path: Path, own: str) -> None:
    (tmp_path / f"{own}_bad.py").write_text("1 / 0")
    told = refusal(tmp_path, f'[connectors.shed]\nuse = "{own}_bad:Shed"')
    assert "cannot be imported (ZeroDivisionError: division by zero)" in told


ENDS_WHEN_MADE = """
import duly
class Shed(duly.Connector):
    def __init__(self): raise SystemExit(0)
"""


@pytest.mark.parametrize("code", ["raise SystemExit(0)", ENDS_WHEN_MADE])
def test_a_module_that_ends_the_program_is_told_too(tmp_path: Path, own: str, code: str) -> None:
    """H4: every command ended without a word, and with the status of a success."""
    (tmp_path / f"{own}_ends.py").write_text(code)
    assert "SystemExit: 0" in refusal(tmp_path, f'[connectors.shed]\nuse = "{own}_ends:Shed"')


def test_what_is_built_in_is_there(tmp_path: Path) -> None:
    for where in (*CONNECTORS.values(), *CHANNELS.values()):
        module, _, name = where.partition(":")
        assert (Path(find_module(module))).is_file(), where
        assert name


def find_module(name: str) -> str:
    from importlib.util import find_spec

    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


async def test_the_built_in_connectors_are_made_from_their_tables(tmp_path: Path) -> None:
    for folder in ("inbox", "out", "rows"):
        (tmp_path / folder).mkdir()
    text = """
        [connectors.inbox]
        use = "mailbox"
        path = "inbox"
        [connectors.out]
        use = "files"
        path = "out"
        [connectors.rows]
        use = "table"
        path = "rows"
        """
    async with build_host(found(tmp_path, text)) as host:
        names = {each.name for each in await host.tools()}
    assert {"inbox.search", "out.write", "rows.insert"} <= names


def test_the_environment_of_the_process_is_never_asked_behind_our_back(tmp_path: Path) -> None:
    os.environ["DULY_PROJECT"] = "/nowhere"
    try:
        assert find_project(None, {}, tmp_path) == Project(tmp_path, None, Config())
    finally:
        del os.environ["DULY_PROJECT"]


def test_a_folder_that_is_not_utf8_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """U6: the name is no fault of Duly, and SQLite takes no such path."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"/\\xff/duly.db is not UTF-8") as refused:
        find_project(None, {}, folder)
    assert str(refused.value).isprintable()
