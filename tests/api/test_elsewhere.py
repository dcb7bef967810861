"""Connectors of other packages: found by their entry points, and judged like all others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.api.build import CONNECTORS, build_host, find_class
from duly.api.connecting import list_kinds
from duly.api.elsewhere import foreign_kinds
from duly.api.project import Project, find_project
from duly.errors import ConfigError
from duly.faces.cli import duly

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
    with pytest.raises(ConfigError, match=r"is no duly\.Connector"):
        build_host(project(tmp_path, "brew"))


def test_a_package_takes_no_name_of_another(site: Path) -> None:
    """K14: neither one that is built in, nor one of another package."""
    assert "files" not in foreign_kinds(CONNECTORS)
    install(site, "other-tea", "tea = other_tea:Tea")
    assert list(foreign_kinds(CONNECTORS)) == ["brew"]


def test_every_kind_is_listed_with_where_it_comes_from(site: Path) -> None:
    """K14: and nothing is imported for it."""
    kinds = dict(list_kinds())
    assert (kinds["slack"], kinds["tea"]) == ("built in", "acme-tea 1.0")
    shown = CliRunner().invoke(duly, ["connect", "--list"]).output
    assert "acme-tea 1.0" in shown
    assert "acme_tea" not in sys.modules
