"""What must agree before a release, the one edit that makes it, and the one that follows it.

    python -m tests.release                     # what does not agree; writes nothing
    python -m tests.release --as 0.1.0          # the version, and the changelog's section of today
    python -m tests.release --next 0.1.1.dev0   # afterwards: the version in development

Law 1  A version in development (`0.1.0.dev0`) has its changes under *Unreleased*. A release has a
       section with its number, its date and its schema on top, and nothing is unreleased.
Law 2  What is written is the version where it stands, the heading of the changelog and, at the
       first release, how far Duly is, no more. Nothing is committed, tagged or uploaded: a person
       does that.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from tests.house import ROOT

VERSION: Final = re.compile(r'^__version__ = "((\d+\.\d+\.\d+)(\.dev\d+)?)"$', re.MULTILINE)
SCHEMA: Final = re.compile(r"^SCHEMA_VERSION = (\d+)$", re.MULTILINE)
HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
UNRELEASED: Final = "Unreleased"
EARLY, ALPHA = "Development Status :: 2 - Pre-Alpha", "Development Status :: 3 - Alpha"
SOURCE: Final = "src/duly/__init__.py"
# Where the version stands, and how. What was measured keeps the version it was measured with.
PLACES: Final = {SOURCE: '__version__ = "{}"', "README.md": "This is version {}, "}
NAME: Final = re.compile(r"^[A-Za-z0-9_.-]+")


def disagreements(root: Path = ROOT) -> list[str]:
    """Say what does not agree in a tree; nothing if all does."""
    return [said for check in (_version, _changelog, _lock, _schema) for said in check(root)]


def version_of(root: Path) -> tuple[str, str, bool]:
    """Return the version of a tree, its number, and whether it is in development."""
    found = VERSION.search(_read(root, SOURCE))
    assert found is not None, "the version is no X.Y.Z or X.Y.Z.devN"
    return found[1], found[2], found[3] is not None


def section(number: str, schema: int, day: date) -> str:
    """Spell the beginning of a release's section."""
    return f"## {number} – {day.isoformat()}\n\nThe store has schema {schema}."


def schema_of(root: Path) -> int:
    """Return the number of a tree's schema."""
    found = SCHEMA.search(_read(root, "src/duly/store/migrate.py"))
    assert found is not None
    return int(found[1])


def make(root: Path, number: str, day: date) -> None:
    """Make the version of a tree this one, and what was unreleased its changes."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", number), f"{number} is no X.Y.Z"
    whole, old, is_developed = version_of(root)
    assert is_developed, f"{whole} is a release already: begin the next version first"
    assert _parts(number) >= _parts(old), f"{whole} is newer"
    for place, form in PLACES.items():
        _change(root, place, form.format(whole), form.format(number))
    _change(root, "CHANGELOG.md", f"## {UNRELEASED}", section(number, schema_of(root), day))
    if EARLY in _read(root, "pyproject.toml"):
        _change(root, "pyproject.toml", EARLY, ALPHA)


def begin(root: Path, whole: str) -> None:
    """Make the version of a released tree this one, in development, with nothing changed yet."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)\.dev\d+", whole)
    assert found, f"{whole} is no X.Y.Z.devN"
    old, number, is_developed = version_of(root)
    assert not is_developed, f"{old} is in development already"
    assert _parts(found[1]) > _parts(number), f"{old} is not older"
    for place, form in PLACES.items():
        _change(root, place, form.format(old), form.format(whole))
    newest = HEADING.search(_read(root, "CHANGELOG.md"))
    assert newest is not None
    _change(root, "CHANGELOG.md", newest[0], f"## {UNRELEASED}\n\n{newest[0]}")


def _change(root: Path, place: str, before: str, after: str) -> None:
    text = _read(root, place)
    assert before in text, f"{place} does not have: {before}"
    (root / place).write_text(text.replace(before, after, 1), encoding="utf-8")


def _parts(number: str) -> list[int]:
    return [*map(int, number.split("."))]


def _version(root: Path) -> Iterator[str]:
    whole, _, is_developed = version_of(root)
    if PLACES["README.md"].format(whole) not in _read(root, "README.md"):
        yield f"README.md does not say: This is version {whole}"
    project = tomllib.loads(_read(root, "pyproject.toml"))["project"]
    if project.get("dynamic") != ["version"] or "version" in project:
        yield f"pyproject.toml has a version of its own beside {whole}"
    if EARLY in project["classifiers"] and not is_developed:
        yield "pyproject.toml still calls a release Pre-Alpha"


def _changelog(root: Path) -> Iterator[str]:
    text = _read(root, "CHANGELOG.md")
    headings = HEADING.findall(text)
    _, number, is_developed = version_of(root)
    if is_developed:
        if not headings or headings[0] != UNRELEASED:
            yield f"CHANGELOG.md does not begin with {UNRELEASED}"
        if any(each.startswith(f"{number} ") for each in headings):
            yield f"CHANGELOG.md has {number} already, which is in development"
        return
    if UNRELEASED in headings:
        yield f"CHANGELOG.md has changes that are in no release beside {number}"
    day = re.fullmatch(rf"{re.escape(number)} – (\d{{4}}-\d\d-\d\d)", headings[0])
    if day is None:
        yield f"CHANGELOG.md does not begin with {number} and its date"
    elif section(number, schema_of(root), date.fromisoformat(day[1])) not in text:
        yield f"CHANGELOG.md does not say under {number}: The store has schema {schema_of(root)}."


def _lock(root: Path) -> Iterator[str]:
    project = tomllib.loads(_read(root, "pyproject.toml"))
    lock = tomllib.loads(_read(root, "uv.lock"))
    (own,) = (each for each in lock["package"] if each["name"] == "duly")
    told = project["project"]
    declared = {
        "core": told["dependencies"],
        **told["optional-dependencies"],
        "dev": project["dependency-groups"]["dev"],
    }
    locked = {
        "core": own["dependencies"],
        **own.get("optional-dependencies", {}),
        "dev": own["dev-dependencies"]["dev"],
    }
    for name, wanted in declared.items():
        ours = {_name(each) for each in wanted}
        theirs = {each["name"] for each in locked.get(name, ())}
        if ours != theirs:
            yield f"uv.lock differs from pyproject.toml in {name}: {sorted(ours ^ theirs)}"


def _schema(root: Path) -> Iterator[str]:
    newest = schema_of(root)
    for number in range(1, newest):
        for place in (f"src/duly/store/sql/from_{number}.sql", f"tests/store/schema_{number}.sql"):
            if not (root / place).exists():
                yield f"{place} is missing, and the schema is {newest}"
    if (root / f"src/duly/store/sql/from_{newest}.sql").exists():
        yield f"there is a step from schema {newest}, which is the newest"


def _name(requirement: str) -> str:
    found = NAME.match(requirement)
    assert found is not None, requirement
    return re.sub("[-_.]+", "-", found[0]).lower()


def _read(root: Path, place: str) -> str:
    return (root / place).read_text(encoding="utf-8")


def main(
    words: list[str],
    root: Path = ROOT,
    today: Callable[[], date] = lambda: datetime.now(UTC).date(),
) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.release")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--as", dest="number", metavar="X.Y.Z")
    either.add_argument("--next", dest="whole", metavar="X.Y.Z.devN")
    wanted = parser.parse_args(words)
    if wanted.number is not None:
        make(root, wanted.number, today())
    if wanted.whole is not None:
        begin(root, wanted.whole)
    wrong = disagreements(root)
    print("\n".join(wrong) or f"{version_of(root)[0]}: all agrees.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
