"""A stranger's project runs nothing as you, until you say that you trust it (K14)."""

from __future__ import annotations

import py_compile
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.api import trust
from duly.api.build import build_host
from duly.api.project import find_project
from duly.api.trust import check_file, judge_imports
from duly.errors import ConfigError
from duly.faces.cli import duly
from duly.rules.trust import User


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir(mode=0o755)
    (folder / "duly.toml").write_text('url = "sqlite:///duly.db"\n', encoding="utf-8")
    (folder / "duly.toml").chmod(0o644)
    return folder


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return {"XDG_CONFIG_HOME": str(tmp_path / "settings")}


@pytest.fixture
def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at this user's files as a user who is neither their owner nor root."""
    monkeypatch.setattr(trust, "this_user", lambda: User(4_000_000, None))
    monkeypatch.setattr("duly.rules.trust.ROOT", -1)


def test_a_stranger_s_settings_above_are_refused_by_every_command(
    project: Path, environ: dict[str, str], as_another_user: None
) -> None:
    """K14: with the file, the reason and the folder to trust."""
    below = project / "deep" / "down"
    below.mkdir(parents=True)
    with pytest.raises(ConfigError) as refused:
        find_project(None, environ, below)
    assert str(refused.value) == (
        f"{project / 'duly.toml'} belongs to another user, so its code could run with your "
        "rights. If you know who wrote it, trust the project; else name a project of your own."
    )
    assert refused.value.facts == {"why": "stranger", "folder": str(project)}


def test_a_trusted_stranger_s_project_is_used(
    project: Path,
    environ: dict[str, str],
    as_another_user: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K14: a person's word counts for this folder; the list itself is this user's own."""
    monkeypatch.setattr(trust, "trusted", lambda environ: frozenset({project.resolve()}))
    assert find_project(None, environ, project).folder == project
    monkeypatch.setattr(trust, "trusted", lambda environ: frozenset({project.parent.resolve()}))
    with pytest.raises(ConfigError, match="belongs to another user"):
        find_project(None, environ, project)


@pytest.mark.parametrize(
    ("which", "mode", "says"),
    [
        ("duly.toml", 0o666, "can be written by every user"),
        (".", 0o777, "can be written by every user"),
    ],
)
def test_what_others_may_write_is_refused(
    project: Path, environ: dict[str, str], which: str, mode: int, says: str
) -> None:
    """K14: the file or its folder."""
    (project / which).chmod(mode)
    with pytest.raises(ConfigError, match=says):
        find_project(None, environ, project)
    trust.trust(project, environ)
    assert find_project(None, environ, project).folder == project
    trust.forget(project, environ)
    with pytest.raises(ConfigError, match=says):
        find_project(str(project), environ, project)


def test_a_link_is_judged_by_what_it_leads_to(
    project: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    """K14: a file of one's own that leads into a folder of all."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (project / "duly.toml").rename(shared / "real.toml")
    (project / "duly.toml").symlink_to(shared / "real.toml")
    with pytest.raises(ConfigError, match="can be written by every user"):
        find_project(None, environ, project)


def test_a_module_that_others_may_write_is_not_imported(
    project: Path, environ: dict[str, str]
) -> None:
    """K14: judged before it runs, with what lies beside it."""
    ran = project / "ran"
    module = project / "their_shop.py"
    module.write_text(f"open({str(ran)!r}, 'w')\nclass Shop: pass\n", encoding="utf-8")
    module.chmod(0o666)
    with (project / "duly.toml").open("a", encoding="utf-8") as file:
        file.write('[connectors.shop]\nuse = "their_shop:Shop"\n')
    found = find_project(None, environ, project)
    with pytest.raises(ConfigError, match=r"their_shop\.py can be written by every user"):
        build_host(found)
    assert not ran.exists()
    assert "their_shop" not in sys.modules


@pytest.mark.parametrize("is_parent_named", [False, True])
@pytest.mark.parametrize("way", ["helper", "compiled", "cached"])
def test_what_a_module_imports_is_judged_too(
    project: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    is_parent_named: bool,
) -> None:
    """K14: a folder without a source of its own, a compiled module, a compiled copy.

    Also where PYTHONPATH names the folder in which the project lies.
    """
    module = f"module_{way}_{is_parent_named}"
    ran = project / "ran"
    evil = project.parent / "evil.py"
    evil.write_text(f"open({str(ran)!r}, 'w').close()\nVALUE = 1\n", encoding="utf-8")
    wanted = f"{module}:VALUE"
    source = project / f"{module}.py"
    if way == "helper":
        (project / "helping").mkdir(mode=0o755)
        evil.rename(project / "helping" / "evil.py").chmod(0o666)
        source.write_text("import helping.evil\nVALUE = 1\n", encoding="utf-8")
    elif way == "compiled":
        py_compile.compile(str(evil), str(project / f"{module}.pyc"))
        (project / f"{module}.pyc").chmod(0o666)
    else:
        source.write_text("VALUE = 1\n", encoding="utf-8")
        cached = cache_from_source(str(source))
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(evil), cached, invalidation_mode=unchecked)
        Path(cached).chmod(0o666)
    if source.exists():
        source.chmod(0o644)
    (project / "duly.toml").write_text(f'repairer = "{wanted}"\n', encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, *[str(project.parent)] * is_parent_named])
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    with pytest.raises(ConfigError, match="can be written by every user"):
        build_host(find_project(None, environ, project))
    assert not ran.exists()


def test_one_hook_judges_all_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K14: a process that meets a thousand projects asks no thousand hooks at every import."""
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    judge_imports(tmp_path / "first")
    before = len(sys.path_hooks)
    for number in range(5):
        judge_imports(tmp_path / f"{number}")
    assert len(sys.path_hooks) == before


def test_an_extension_that_others_may_write_is_not_loaded(
    project: Path, environ: dict[str, str]
) -> None:
    """K14: its manifest counts too, for it names the code."""
    folder = project / "extensions" / "one"
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text("id: one\n", encoding="utf-8")
    (folder / "manifest.yaml").chmod(0o666)
    text = 'url = "sqlite:///duly.db"\nextensions = "extensions"\n'
    (project / "duly.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"manifest\.yaml can be written by every user"):
        build_host(find_project(None, environ, project))


@pytest.mark.parametrize("use", ["os:system", "os:getcwd", "builtins:print", "subprocess:Popen"])
@pytest.mark.parametrize("table", ["connectors", "channels"])
def test_what_is_no_class_of_that_kind_is_refused_before_it_is_called(
    project: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    use: str,
    table: str,
) -> None:
    """K14: no setting calls a function."""
    called: list[object] = []
    module, _, name = use.partition(":")
    if not isinstance(getattr(sys.modules[module], name), type):
        monkeypatch.setattr(sys.modules[module], name, lambda *a, **k: called.append(a))
    with (project / "duly.toml").open("a", encoding="utf-8") as file:
        file.write(f'[{table}.x]\nuse = "{use}"\n')
    with pytest.raises(ConfigError, match=r"is not a (duly\.Connector|channel)"):
        build_host(find_project(None, environ, project))
    assert called == []


def test_a_repairer_must_be_able_to_repair(project: Path, environ: dict[str, str]) -> None:
    """K14: as connectors and channels."""
    (project / "duly.toml").write_text('repairer = "subprocess:Popen"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="Popen cannot be asked"):
        build_host(find_project(None, environ, project))


def test_a_list_that_others_could_have_written_is_void(
    project: Path, environ: dict[str, str]
) -> None:
    """K14: else a stranger would trust himself."""
    (project / "duly.toml").chmod(0o666)
    trust.trust(project, environ)
    trust.list_path(environ).chmod(0o666)
    with pytest.raises(ConfigError, match="the list of trusted projects is not used"):
        find_project(None, environ, project)


def test_a_list_that_is_too_long_is_refused(project: Path, environ: dict[str, str]) -> None:
    """K14: one byte past its limit."""
    place = trust.list_path(environ)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"/" + b"x" * trust.LIST_BYTES_MAX)
    place.chmod(0o600)
    with pytest.raises(ConfigError, match="Shorten it"):
        trust.trusted(environ)


def test_the_command_trusts_lists_and_forgets(project: Path, environ: dict[str, str]) -> None:
    """K14: from the command line."""
    run = CliRunner()
    home = str(project.resolve())
    said = run.invoke(duly, ["trust", str(project)])
    assert (said.exit_code, said.output) == (0, f"{home} is trusted from now on.\n")
    assert run.invoke(duly, ["trust", "--list"]).output == f"{home}\n"
    said = run.invoke(duly, ["trust", "--forget", str(project)])
    assert (said.exit_code, said.output) == (0, f"{home} is trusted no longer.\n")
    assert run.invoke(duly, ["trust", "--list"]).output == ""


def test_one_s_own_project_needs_no_word(project: Path, environ: dict[str, str]) -> None:
    """K14: the usual case asks nothing and writes nothing."""
    check_file(project / "duly.toml", project, environ)
    assert not trust.list_path(environ).exists()


@pytest.mark.parametrize("name", ["duly.db", "duly.db-wal", "duly.db.key"])
def test_a_store_that_another_user_could_have_written_is_not_used(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    """K14: also where no settings say so; in /tmp the first user's store would be everybody's."""
    folder = tmp_path / "open"
    folder.mkdir()
    assert find_project(None, environ, folder).file is None
    (folder / name).touch(mode=0o600)
    assert find_project(None, environ, folder).file is None
    folder.chmod(0o777)
    with pytest.raises(ConfigError) as refused:
        find_project(None, environ, folder)
    assert (refused.value.code, refused.value.subject) == ("distrusted", str(folder))
    trust.trust(folder, environ)
    assert find_project(None, environ, folder).file is None


@pytest.mark.parametrize("name", ["duly.db", "duly.db-wal", "duly.db.key"])
def test_a_stranger_s_store_is_not_used(
    tmp_path: Path, environ: dict[str, str], as_another_user: None, name: str
) -> None:
    """K14: a store holds scripts, which would run as this user."""
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / name).touch(mode=0o600)
    with pytest.raises(ConfigError, match=f"{name} belongs to another user"):
        find_project(None, environ, folder)


def test_a_store_outside_of_the_project_is_trusted_by_its_own_folder(
    project: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """K14: the folder to trust is the one in which the store lies."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    (place / "duly.db").touch()
    place.chmod(0o777)
    there = {**environ, "DULY_URL": f"sqlite:///{place}/duly.db"}
    with pytest.raises(ConfigError) as refused:
        find_project(str(project), there, project)
    assert refused.value.facts["folder"] == str(place)
    trust.trust(place, environ)
    assert find_project(str(project), there, project).database == place / "duly.db"


def test_a_log_that_its_host_takes_away_meanwhile_is_no_fault(
    project: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """K14, H1: one host may end while the next one looks at the store."""
    (project / "duly.db").touch(mode=0o600)
    log = project / "duly.db-wal"
    log.touch(mode=0o600)

    def judge(file: Path, folder: Path, environ: dict[str, str]) -> None:
        if file == log:
            log.unlink()
        check_file(file, folder, environ)

    monkeypatch.setattr("duly.api.project.check_file", judge)
    assert find_project(str(project), environ, project).database == project / "duly.db"
    assert not log.exists()
