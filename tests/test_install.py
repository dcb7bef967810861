"""The wheel is whole, needs nothing that is not declared, and brings licences that fit ours."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import duly
from bench.install import locked
from tests import house
from tests.install import EXTRAS, IN_CI, ask, build, build_wheel, needed, pack_all, use

# For the shells, which look below a prefix.
COMPLETION = {
    "data/data/share/bash-completion/completions/duly",
    "data/data/share/zsh/site-functions/_duly",
    "data/data/share/fish/vendor_completions.d/duly.fish",
}
# What may be used with a program under the MIT licence without any further condition on it.
FREE = re.compile(r"\b(MIT|BSD|Apache|PSF|ISC|Unlicense|MIT-0)\b")
# Packages whose metadata name no licence, and what their own text says.
READ_BY_HAND = {"apsw": "any-OSI", "quickjs-ng": "MIT"}
# docs/decisions/254-licences.md: an extra, used as a library of its own that a user can replace.
JUDGED = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}


def licence(name: str) -> str:
    """Read which licence a package says it has: in one field, in another, or as a class."""
    told = metadata.metadata(name)
    classes = [each for each in told.get_all("Classifier") or () if each.startswith("License ::")]
    fields = [*(told.get_all("License-Expression") or ()), *(told.get_all("License") or ())]
    return " ".join((*fields, *classes))


def is_installed(name: str) -> bool:
    """Tell whether a package is here; one of another system or version of Python is not."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def build_without_git(folder: Path) -> Path:
    """Build the wheel as a packager does: from the archive of the source, without our history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))  # no git, and no other program
        with tarfile.open(build("sdist", folder)) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
            archive.extractall(folder / "unpacked")
        (root,) = (folder / "unpacked").iterdir()
        return build_wheel(folder, root=root)


def test_every_way_to_install_brings_what_is_declared_and_no_more(tmp_path: Path) -> None:
    """U6: by pip, uv and pipx, with and without extras, from the built wheel and without an index.

    No package of the tests is needed, and every file that is read is in the wheel.
    """
    source = tmp_path / "packages"
    source.mkdir()
    packed = pack_all(needed(*EXTRAS), source)
    assert packed == sum(map(is_installed, needed(*EXTRAS)))
    wheel = build_without_git(tmp_path)
    sources = (path for path in (house.ROOT / "src").rglob("*") if path.suffix != ".pyc")
    files = {str(each.relative_to(house.ROOT / "src")) for each in sources if each.is_file()}
    names = {*zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.startswith("duly-")} == files
    more = (name.removeprefix(f"duly-{duly.__version__}.") for name in names - files)
    assert {"dist-info/licenses/LICENSE", *COMPLETION} <= {*more}
    for number, (way, extras) in enumerate(IN_CI):
        folder = tmp_path / str(number)
        folder.mkdir()
        program = way(folder, ask(wheel, extras), source)
        is_first = number == 0  # where nothing but the core is
        assert use(folder, program, is_whole=is_first) == f"duly {duly.__version__}"
        (site,) = program.resolve().parents[1].glob("lib/python*/site-packages")
        found = {
            re.sub("[-_.]+", "-", each.name).lower()
            for each in metadata.distributions(path=[str(site)])
        }
        known = {each for each in needed(*extras) if is_installed(each)}
        assert found == known | {"duly"}, way.__name__


def test_every_package_of_the_core_has_a_licence_that_fits() -> None:
    """A package that changes its licence, or a new one without any, fails here."""
    found = {}
    for name in locked():
        try:
            found[name] = licence(name)
        except metadata.PackageNotFoundError:
            continue  # of another system or version of Python
    assert len(found) > 30
    unfit = {name: text for name, text in found.items() if not FREE.search(text)}
    assert {name: READ_BY_HAND.get(name, text) for name, text in unfit.items()} == READ_BY_HAND


def test_the_extras_have_the_licences_that_were_judged() -> None:
    assert {name: licence(name) for name in JUDGED} == JUDGED
    assert FREE.search(licence("mcp"))


def test_the_version_stands_in_one_place() -> None:
    assert metadata.version("duly") == duly.__version__
    text = (house.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"^version =", text, re.MULTILINE)


def test_make_installs_duly_again_when_its_version_changes(tmp_path: Path) -> None:
    """An editable installation says the version it was made with; a release changes the source."""
    source = "src/duly/__init__.py"
    for number, place in enumerate(
        ("pyproject.toml", "uv.lock", "Makefile", source, ".venv/.ready", ".venv/.installed")
    ):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        if place.startswith("."):
            (tmp_path / place).touch()
        else:
            shutil.copy(house.ROOT / place, tmp_path / place)
        os.utime(tmp_path / place, (number, number))

    def ask_make() -> str:
        command = ["make", "--dry-run", "--directory", str(tmp_path), "setup"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "pip install" not in ask_make()
    os.utime(tmp_path / source, (10, 10))
    assert "--editable ." in ask_make()
    assert "--requirement" not in ask_make()
    os.utime(tmp_path / "uv.lock", (11, 11))
    assert "--requirement" in ask_make()
