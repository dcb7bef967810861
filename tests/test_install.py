"""The wheel is whole, needs nothing that is not declared, and brings licences that fit ours."""

from __future__ import annotations

import re
import zipfile
from importlib import metadata
from pathlib import Path

import duly
from bench.install import PACKAGES_MAX, locked
from tests import house
from tests.install import build_wheel, link_packages, make_environment, put_in, use

# What may be used with a program under the MIT licence without any further condition on it.
FREE = re.compile(r"\b(MIT|BSD|Apache|PSF|ISC|Unlicense|MIT-0)\b")
# Packages whose metadata name no licence, and what their own text says.
READ_BY_HAND = {"apsw": "any-OSI", "quickjs-ng": "MIT"}
# docs/decisions/254-licences.md: an extra, used as a library of its own that a user can replace.
EXTRAS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}


def licence(name: str) -> str:
    """Read which licence a package says it has: in one field, in another, or as a class."""
    told = metadata.metadata(name)
    classes = [each for each in told.get_all("Classifier") or () if each.startswith("License ::")]
    fields = [*(told.get_all("License-Expression") or ()), *(told.get_all("License") or ())]
    return " ".join((*fields, *classes))


def test_the_wheel_works_with_nothing_but_the_packages_of_the_core(tmp_path: Path) -> None:
    """U6: no package of the tests is needed, and every file that is read is in the wheel."""
    wheel = build_wheel(tmp_path)
    python = make_environment(tmp_path / "empty")
    put_in(python, "--no-deps", "--no-index", str(wheel))
    assert link_packages(python, locked() - {"duly"}) < PACKAGES_MAX
    use(tmp_path, python.parent / "duly")
    names = zipfile.ZipFile(wheel).namelist()
    assert f"duly-{duly.__version__}.dist-info/licenses/LICENSE" in names
    sources = {
        str(path.relative_to(house.ROOT / "src")) for path in house.ROOT.glob("src/**/*.sql")
    }
    assert sources <= set(names)


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
    assert {name: licence(name) for name in EXTRAS} == EXTRAS
    assert FREE.search(licence("mcp"))


def test_the_version_stands_in_one_place() -> None:
    assert metadata.version("duly") == duly.__version__
    text = (house.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"^version =", text, re.MULTILINE)
