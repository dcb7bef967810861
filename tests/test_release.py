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
    _, number, is_developed = release.version_of(tmp_path)
    if not is_developed:  # this tree is a release
        release.begin(tmp_path, following(number))
    return tmp_path


def following(number: str) -> str:
    """Spell the version in development that follows a release."""
    major, minor, patch = number.split(".")
    return f"{major}.{minor}.{int(patch) + 1}.dev0"


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_this_tree_agrees_with_itself() -> None:
    assert release.disagreements() == []


def test_a_fault_can_be_reported_without_an_address_of_ours() -> None:
    """U6: the site that hosts the repository has a form for it; a profile may have no address."""
    text = (house.ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "*Report a vulnerability*" in text
    assert "profile" not in text


def test_a_release_is_made_by_one_edit_and_agrees(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if release.ALPHA in (tree / "pyproject.toml").read_text(encoding="utf-8"):
        change(tree / "pyproject.toml", release.ALPHA, release.EARLY)  # as before the first one
    assert release.main(["--as", NEXT], tree, lambda: DAY) == 0
    assert capsys.readouterr().out == f"{NEXT}: all agrees.\n"
    changes = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    schema = release.schema_of(tree)
    assert f"\n## {NEXT} – 2026-12-01\n\nThe store has schema {schema}.\n" in changes
    assert f"## {release.UNRELEASED}\n" not in changes
    assert release.version_of(tree) == (NEXT, NEXT, False)
    assert release.ALPHA in (tree / "pyproject.toml").read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match="is a release already"):
        release.make(tree, NEXT, DAY)
    change(tree / "CHANGELOG.md", f"schema {schema}.", "schema 1.")
    assert release.main([], tree) == 1
    assert f"The store has schema {schema}." in capsys.readouterr().out


def test_what_was_written_under_unreleased_stands_under_the_release(tree: Path) -> None:
    """U6: the sentences on top of the first release are kept, in their place."""
    changes = tree / "CHANGELOG.md"
    before = changes.read_text(encoding="utf-8").partition("## Unreleased\n")[2]
    release.make(tree, NEXT, DAY)
    after = changes.read_text(encoding="utf-8").partition(f"schema {release.schema_of(tree)}.\n")[2]
    assert after == before


def test_after_a_release_the_next_version_is_begun_by_one_edit(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError, match="is in development already"):
        release.begin(tree, following(NEXT))
    release.make(tree, NEXT, DAY)
    released = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release.main(["--next", following(NEXT)], tree) == 0
    assert capsys.readouterr().out == f"{following(NEXT)}: all agrees.\n"
    begun = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    assert begun == released.replace(f"## {NEXT}", f"## {release.UNRELEASED}\n\n## {NEXT}", 1)
    later = following(following(NEXT).partition(".dev")[0]).partition(".dev")[0]
    assert release.main(["--as", later], tree, lambda: DAY) == 0


@pytest.mark.parametrize(
    ("whole", "said"), [("7.0.0.dev0", "is not older"), ("7.0.1", "no X.Y.Z.devN")]
)
def test_a_next_version_that_does_not_follow_is_not_begun(
    tree: Path, whole: str, said: str
) -> None:
    release.make(tree, NEXT, DAY)
    with pytest.raises(AssertionError, match=said):
        release.begin(tree, whole)
    assert release.version_of(tree)[0] == NEXT


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
