"""A release says one version, one schema and one set of packages everywhere."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from tests import house, release

DAY = date(2026, 12, 1)
FILES = (*release.PLACES, "CHANGELOG.md", "pyproject.toml", "uv.lock", "src/duly/store/migrate.py")
FOLDERS = ("src/duly/store/sql", "tests/store")
NEXT = "7.0.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy what is compared, as a tree in development."""
    for place in FILES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(house.ROOT / place, tmp_path / place)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for path in (house.ROOT / folder).glob("*.sql"):
            shutil.copy(path, tmp_path / folder)
    version, _, is_developed = release.version_of(tmp_path)
    if not is_developed:  # what follows a release
        for place in release.PLACES:
            change(tmp_path / place, version, "0.1.1.dev0")
        change(tmp_path / "CHANGELOG.md", "\n## ", f"\n## {release.UNRELEASED}\n\n## ")
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_this_tree_agrees_with_itself() -> None:
    assert release.disagreements() == []


def test_a_release_is_made_by_one_edit_and_agrees(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(tree / "pyproject.toml", "2 - Pre-Alpha", "3 - Alpha")
    assert release.main(["--as", NEXT], tree, lambda: DAY) == 0
    assert capsys.readouterr().out == f"{NEXT}: all agrees.\n"
    changes = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    schema = release.schema_of(tree)
    assert f"\n## {NEXT} – 2026-12-01\n\nThe store has schema {schema}.\n" in changes
    assert f"## {release.UNRELEASED}\n" not in changes
    assert release.version_of(tree) == (NEXT, NEXT, False)
    with pytest.raises(AssertionError, match="is a release already"):
        release.make(tree, NEXT, DAY)
    change(tree / "CHANGELOG.md", f"schema {schema}.", "schema 1.")
    assert release.main([], tree) == 1
    assert f"The store has schema {schema}." in capsys.readouterr().out


def test_an_older_version_is_not_made(tree: Path) -> None:
    with pytest.raises(AssertionError, match="is newer"):
        release.make(tree, "0.0.9", DAY)


@pytest.mark.parametrize(
    ("place", "old", "new", "said"),
    [
        ("README.md", "This is version ", "This is version 9", "README.md does not say"),
        ("CHANGELOG.md", "## Unreleased", "## Later", "does not begin with Unreleased"),
        ("pyproject.toml", '"click>=8.3"', '"clack>=8.3"', "differs from pyproject.toml in core"),
        ("pyproject.toml", '"mypy>=1.18"', '"mypo>=1.18"', "differs from pyproject.toml in dev"),
        ("pyproject.toml", 'dynamic = ["version"]', 'version = "1"', "a version of its own"),
        ("src/duly/store/migrate.py", "SCHEMA_VERSION = ", "SCHEMA_VERSION = 1", "is missing, and"),
    ],
)
def test_what_does_not_agree_is_named(
    tree: Path, place: str, old: str, new: str, said: str
) -> None:
    assert release.disagreements(tree) == []
    change(tree / place, old, new)
    assert any(said in each for each in release.disagreements(tree))
