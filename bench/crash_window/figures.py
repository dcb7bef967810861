"""What was counted, as facts in `figures.json`, and the tables that are made of them.

    python -m bench.crash_window.figures            # name the pages that are not as the facts say
    python -m bench.crash_window.figures --write    # write them again

Law: no figure of a table is written by hand; a test compares the pages with the facts.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
KEPT = HERE / "figures.json"
PAGE, README = HERE / "README.md", HERE.parents[1] / "README.md"
PART = re.compile(r"(?<=<!-- crash window -->\n).*?(?=<!-- end of crash window -->)", re.DOTALL)
HEADER = ("program", "version", "killed before", "killed after", "what it says, killed after")
ASKS = "asks a person"  # a change that waits for a person is not lost
RIGHT = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One program: how many lines there were in the end, and what it says itself."""

    program: str
    version: str
    before: int
    after: int
    said: str

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows of it."""
        return self.program, self.version, str(self.before), str(self.after), self.said


@dataclass(frozen=True, slots=True)
class Counted:
    """One run of all programs: the day, what it ran on, and a row for each."""

    on: str
    python: str
    system: str
    rows: tuple[Row, ...]

    @property
    def said(self) -> str:
        """When and on what it was counted."""
        return f"Counted on {self.on}, with Python {self.python} on {self.system}."


def kept() -> Counted:
    """Read what was counted last."""
    return msgspec.json.decode(KEPT.read_bytes(), type=Counted)


def keep(counted: Counted) -> None:
    """Keep what was counted, and write the pages."""
    KEPT.write_bytes(msgspec.json.format(msgspec.json.encode(counted), indent=1) + b"\n")
    for path, content in pages(counted).items():
        path.write_text(content, encoding="utf-8")


def pages(counted: Counted) -> dict[Path, str]:
    """Return both pages as they should stand; the first page has the same table."""
    lines = [HEADER, ("---", "---", "---:", "---:", "---"), *map(_marked, counted.rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    found = {}
    for path in (PAGE, README):
        text, places = PART.subn(
            lambda _: f"\n{table}\n\n{counted.said}\n\n", path.read_text(encoding="utf-8")
        )
        assert places == 1, f"{path.name} has {places} places for what was counted"
        found[path] = text
    return found


def _marked(row: Row) -> tuple[str, ...]:
    """Make a count bold if a change was made twice, or lost without a word."""
    program, version, *counts, said = row.cells
    is_asked = ASKS in row.said
    marked = (each if is_asked or int(each) == RIGHT else f"**{each}**" for each in counts)
    return program, version, *marked, said


def main(words: list[str]) -> int:
    """Write the pages, or name those that differ; return the exit status."""
    stale = {
        path: content
        for path, content in pages(kept()).items()
        if path.read_text(encoding="utf-8") != content
    }
    if "--write" in words:
        for path, content in stale.items():
            path.write_text(content, encoding="utf-8")
        return 0
    print("\n".join(map(str, stale)) or "The pages are as the facts say.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
