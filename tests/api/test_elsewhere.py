"""Connectors of other packages: found by their entry points, and judged like all others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.api.build import CONNECTORS, build_host, find_class
from duly.api.connecting import list_kinds
from duly.api.elsewhere import ForeignKind, foreign_kinds
from duly.api.project import Project, find_project
from duly.errors import ConfigError
from duly.faces.cli import duly
from duly.testing.exam_record import (
    FILE,
    POINTS_MAX,
    ExamRecord,
    hash_code,
    read_exam,
    record_exam,
)

TEA = """
import duly


class Tea(duly.Connector):
    name = "tea"

    @duly.read
    async def kinds(self) -> list:
        return ["green"]


def brew():
    raise SystemExit("called")
"""


def install(folder: Path, package: str, entries: str) -> None:
    """Lay a package into a folder as an installer does."""
    place = folder / f"{package}-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(f"[duly.connectors]\n{entries}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, one of which brings tea."""
    folder = tmp_path / "site"
    install(folder, "acme-tea", "tea = acme_tea:Tea\nbrew = acme_tea:brew\nfiles = acme_tea:Tea")
    (folder / "acme_tea.py").write_text(TEA)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "acme_tea", raising=False)
    return folder


def project(folder: Path, use: str) -> Project:
    (folder / "duly.toml").write_text(f'[connectors.pot]\nuse = "{use}"\n')
    return find_project(str(folder / "duly.toml"), {}, folder)


def test_a_package_brings_a_connector(site: Path, tmp_path: Path) -> None:
    """K14: by its name, under the name that the settings give."""
    host = build_host(project(tmp_path, "tea"))
    assert "pot" in host.connectors.connectors
    assert find_class(project(tmp_path, "tea"), "tea").name == "tea"


def test_what_is_no_connector_is_refused_before_it_is_called(site: Path, tmp_path: Path) -> None:
    """K14: also of a package."""
    with pytest.raises(ConfigError, match=r"is not a duly\.Connector"):
        build_host(project(tmp_path, "brew"))


def test_a_package_takes_no_name_of_another(site: Path) -> None:
    """K14: neither one that is built in, nor one of another package."""
    assert "files" not in foreign_kinds(CONNECTORS)
    install(site, "other-tea", "tea = other_tea:Tea")
    assert list(foreign_kinds(CONNECTORS)) == ["brew"]


def test_every_kind_is_listed_with_where_it_comes_from(site: Path) -> None:
    """K14: and nothing is imported for it."""
    kinds = dict(list_kinds())
    assert kinds["slack"] is None
    assert kinds["tea"] == ForeignKind("tea", "acme_tea:Tea", "acme-tea 1.0")
    shown = CliRunner().invoke(duly, ["connect", "--list"]).output
    assert "acme-tea 1.0" in shown
    assert "acme_tea" not in sys.modules


SERVED = """
import duly


class Tea(duly.Connector):
    name = "tea"

    @duly.mutation
    async def brew(self, call: duly.Call) -> None: ...
"""
FLOW = """
from duly import workflow

flow = workflow("pots", topics=["thirst"])


@flow.consumer("thirst")
class brew:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("thirst", limit=1)
        ids = [each["message_id"] for each in pending]
        return {
            "reservations": [{"topic": "thirst", "ids": ids}],
            "data": {},
            "ui": {"title": "Brew " + ", ".join(ids)},
        }

    async def mutate(self, ctx, prepared):
        await ctx.pot.brew()
"""


def test_the_exam_and_the_hash_are_shown_before_a_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K14: of the code that is installed, by the list and by a deploy that lacks a grant."""
    site = tmp_path / "site"
    install(site, "acme-pot", "pot = acme_pot:Tea")
    package = site / "acme_pot"
    package.mkdir()
    (package / "__init__.py").write_text(SERVED)
    monkeypatch.syspath_prepend(site)
    run = CliRunner().invoke
    said = f"acme-pot 1.0, code {hash_code(package)[:12]}; "
    assert f"{said}no exam is known" in run(duly, ["connect", "--list"]).output
    record_exam(package, {"brew": 38})
    passed = f"{said}it says it passed its exam: brew at 38 points"
    assert passed in run(duly, ["connect", "--list"]).output
    assert "acme_pot" not in sys.modules

    home = tmp_path / "home"
    (home / "workflows").mkdir(parents=True)
    (home / "duly.toml").write_text('workflows = "workflows"\n[connectors.pot]\nuse = "pot"\n')
    (home / "workflows" / "pots.py").write_text(FLOW)
    deployed = run(duly, ["--project", str(home), "deploy"])
    words = " ".join(deployed.output.split())
    assert f"pot is of another package: {passed}. It waits at its first call" in words
    granted = run(duly, ["--project", str(home), "grant", "pots", "pot.brew"])
    assert granted.exit_code == 0
    assert f"pot is of another package: {passed}." in " ".join(granted.stderr.split())
    monkeypatch.setattr("duly.faces.cli.foreign.is_terminal", lambda: True)
    monkeypatch.setattr("duly.faces.cli.base.is_terminal", lambda: True)
    declined = run(duly, ["--project", str(home), "grant", "pots", "pot.*"], input="n\n")
    assert (declined.exit_code, "Grant pot.*?" in declined.stderr) == (1, True)

    (package / "__init__.py").write_text(SERVED + "\n")
    assert "its exam is of other code" in run(duly, ["connect", "--list"]).output
    monkeypatch.delitem(sys.modules, "acme_pot", raising=False)


@pytest.mark.parametrize("text", ["", "[]", '{"points": 3}', '{"points": {}}', "x" * 70_000])
def test_a_record_that_cannot_be_read_proves_nothing(tmp_path: Path, text: str) -> None:
    """K14: nor does one of other code."""
    (tmp_path / "a.py").write_text("")
    (tmp_path / FILE).write_text(text)
    assert read_exam(tmp_path).points == {}


def test_too_much_code_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K14: at the limit it has one."""
    for number in range(3):
        (tmp_path / f"{number}.py").write_text("x")
    for limit, value in (("FILES_MAX", 3), ("CODE_BYTES_MAX", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(f"duly.testing.exam_record.{limit}", value)
            assert hash_code(tmp_path)
            patch.setattr(f"duly.testing.exam_record.{limit}", value - 1)
            assert hash_code(tmp_path) == ""


def test_the_hash_covers_all_that_is_imported(tmp_path: Path) -> None:
    """K14: also what a link leads to, and what is called like a compiled or a recorded file."""
    package, linked = tmp_path / "__pycache__" / "acme", tmp_path / "linked"
    (package / "__pycache__").mkdir(parents=True)
    linked.mkdir()
    (package / "inner").symlink_to(linked)
    seen = [hash_code(package)]
    for place in (package, linked, package / "__pycache__"):
        for name in ("module.py", "exam.json" if place != package else "data.json"):
            (place / name).write_text(name)
            seen.append(hash_code(package))
    (package / os.fsdecode(b"\xff.txt")).write_text("")
    seen.append(hash_code(package))
    assert len({*seen}) == len(seen)
    assert "" not in seen
    (package / "__pycache__" / "module.cpython-311.pyc").write_text("compiled")
    assert hash_code(package) == seen[-1]
    (package / "again").symlink_to(package)
    (package / "and-again").symlink_to(package)
    assert hash_code(package) == ""


def test_a_record_that_is_no_record_is_none(tmp_path: Path) -> None:
    """K14, G9: it neither ends what reads it nor shows anything but tools and counts."""
    package = tmp_path / "acme"
    package.mkdir()
    place, code = package / "exam.json", hash_code(package)
    place.write_text("[" * 60_000)
    assert read_exam(package) == ExamRecord(code, {})
    counts = {"a": POINTS_MAX, "b": POINTS_MAX + 1, "c": True, "d": -1, "\ud800": 1, "\x1b[2J": 1}
    place.write_text(json.dumps({"code": code, "points": {**counts, "e" * 101: 1}}))
    assert read_exam(package) == ExamRecord(code, {"a": POINTS_MAX})


def test_the_code_that_is_shown_is_the_code_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K14: where packages share a name, the one below it; what has no file has no hash."""
    for each in ("one", "two"):
        (tmp_path / each / "shared_acme" / each).mkdir(parents=True)
        (tmp_path / each / "shared_acme" / each / "__init__.py").write_text(each)
        monkeypatch.syspath_prepend(tmp_path / each)
    for each in ("one", "two"):
        told = ForeignKind("tea", f"shared_acme.{each}.tea:Tea", "acme 1").told()
        assert told.code == hash_code(tmp_path / each / "shared_acme" / each)
    for target in ("os:x", "sys:x", ":x", "shared_acme:x", "shared_acme.three:x"):
        assert ForeignKind("tea", target, "acme 1").told().code is None, target
    assert "shared_acme" not in sys.modules
