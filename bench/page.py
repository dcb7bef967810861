"""The page of figures, made from facts: as text, as Markdown, as a picture, and for the first page.

    python -m bench.page            # show the pages that are not as the figures say
    python -m bench.page --write    # write them again from bench/figures.json

Law: nothing here is measured and no figure is written by hand; a test compares what is made here
with what stands in the pages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import picture
from bench.picture import cost_ms
from bench.report import Conditions, Idle, Report, Row, Section, kept

HERE = Path(__file__).parent
PAGE, PICTURE, README = HERE / "README.md", HERE / "runs.svg", HERE.parent / "README.md"
PART = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
MEGABYTE = 1_000_000
NONE = "–"
TITLES = {
    "runs": "Whole runs",
    "bus": "The bus",
    "store": "The store",
    "step": "One step of a script",
}
BEGINS = {
    "runs": "From a publish to the handler, idle",
    "bus": "From an emit to the handler, idle",
}
Column = tuple[str, Callable[[Row], str]]


def _ratio(row: Row) -> str:
    return f"{row.ratio:.2f} ({row.ratio_min:.2f} to {row.ratio_max:.2f})"


def _goal(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"{row.goal:.2f} {'met' if row.ratio >= row.goal else 'missed'}"


def _times(peer: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        if peer not in row.against:
            return NONE
        found, goal = row.against[peer], row.goals.get(peer)
        return f"{found:.1f}" if goal is None else f"{found:.1f} of {goal:g}"

    return cell


def _count(value: float | None, digits: int = 0) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


FIRST: tuple[Column, ...] = (("", lambda row: row.name),)
SPEED: tuple[Column, ...] = (
    ("per second", lambda row: _count(row.per_s)),
    ("ratio (min to max)", _ratio),
)
SYNCS: Column = ("syncs", lambda row: _count(row.syncs, 2))
CPU: Column = ("CPU µs", lambda row: _count(row.cpu_us))
GOAL: Column = ("goal", _goal)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "runs": (
        ("workflows", lambda row: _count(row.callers)),
        *FIRST,
        *SPEED,
        ("× DBOS", _times("DBOS")),
        ("× Restate", _times("Restate")),
        SYNCS,
        CPU,
        ("children µs", lambda row: _count(row.children_us)),
        ("children MB", lambda row: _count(_megabytes(row))),
    ),
    "bus": (*FIRST, *SPEED, GOAL, SYNCS, CPU),
    "store": (*FIRST, *SPEED, GOAL, SYNCS, CPU),
    "step": (*FIRST, *SPEED, GOAL),  # a step syncs nothing, and its worker's CPU is not ours
}


def _megabytes(row: Row) -> float | None:
    return None if row.children_bytes is None else row.children_bytes / MEGABYTE


def text(report: Report) -> str:
    """Lay the report out for a terminal."""
    parts = []
    for name, section in report.items():
        lines = [TITLES[name], "", *_aligned(_cells(name, section)), *_after(name, section)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def markdown(report: Report) -> str:
    """Lay the report out as Markdown."""
    parts = []
    for name, section in report.items():
        after = "  \n".join(_after(name, section)).lstrip()
        parts.append(f"### {TITLES[name]}\n\n{_piped(_cells(name, section))}\n\n{after}\n")
    return "\n".join(parts)


def readme(report: Report) -> str:
    """Make the table of the first page: each program's speed, and the cost of one run.

    A busy machine flatters programs that share syncs, so then speeds are left out.
    """
    section = report["runs"]
    found = section.conditions
    is_quiet = found is not None and found.is_quiet
    counts = sorted({row.callers for row in section.rows if row.callers is not None})
    rows = {(row.name, row.callers): row for row in section.rows}
    header = ["", *(f"CPU of a run, {each} at once" for each in counts)]
    header += [f"speed, {each} at once" for each in counts if is_quiet]
    lines = [header]
    for name in dict.fromkeys(row.name for row in section.rows):
        own = [rows[name, each] for each in counts]
        speeds = [f"{row.ratio:.2f}" for row in own if is_quiet]
        lines.append([name, *(f"{cost_ms(row):.1f} ms" for row in own), *speeds])
    why = "" if is_quiet else " Speeds are left out until they are measured on a quiet machine."
    return f"\n{_piped(lines)}\n\n{_said(found)}{why}\n\n"


def pages(report: Report) -> dict[Path, str]:
    """Return every page that shows figures, as it should stand."""
    shown = f"\n![Processor time of a whole run](runs.svg)\n\n{markdown(report)}\n"
    return {
        PAGE: _with_part(PAGE, shown),
        PICTURE: picture.draw(report["runs"].rows, _said(report["runs"].conditions)),
        README: _with_part(README, readme(report)),
    }


def write(report: Report) -> None:
    """Write the pages that differ."""
    for path, content in pages(report).items():
        path.write_text(content, encoding="utf-8")


def _with_part(path: Path, part: str) -> str:
    whole, found = PART.subn(lambda _: part, path.read_text(encoding="utf-8"))
    assert found == 1, f"{path.name} has {found} places for figures"
    return whole


def _cells(name: str, section: Section) -> list[list[str]]:
    columns = COLUMNS[name]
    header = [title for title, _ in columns]
    return [header, *([cell(row) for _, cell in columns] for row in section.rows)]


def _after(name: str, section: Section) -> list[str]:
    """Say what stands below a table: times to begin, what is missing, and the circumstances."""
    lines = [""]
    if section.idle:
        lines += [f"{BEGINS[name]}: " + "; ".join(_begins(each) for each in section.idle) + "."]
    return [*lines, *section.notes, _said(section.conditions)]


def _begins(idle: Idle) -> str:
    goal = "" if idle.goal_ms is None else f", goal {idle.goal_ms:g}"
    spread = f"{idle.min_ms:.1f} to {idle.max_ms:.1f}"
    return f"{idle.name} {idle.median_ms:.1f} ms ({spread}{goal})"


def _said(found: Conditions | None) -> str:
    """Say when, how often and beside what else it was measured."""
    if found is None:
        return ""
    state = "quiet" if found.is_quiet else "**busy**"
    before, after = f"{found.load_before:.1f}", f"{found.load_after:.1f}"
    return (
        f"Measured on {found.on} in {found.rounds} rounds on {found.cores} cores of a {state} "
        f"machine: other programs had {found.others:.0%} of the processors, load {before} before "
        f"and {after} after. Python {found.python}, SQLite {found.sqlite}, {found.system}."
    )


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    named = lines[0].index("")
    return [
        "  ".join(
            cell.ljust(width) if column == named else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _piped(lines: Sequence[Sequence[str]]) -> str:
    header, *rows = lines
    rule = ["---" if title == "" else "---:" for title in header]
    return "\n".join("| " + " | ".join(each) + " |" for each in (header, rule, *rows))


def main() -> None:
    """Show or write the pages that are not as the figures say."""
    for path, content in pages(kept()).items():
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        print(path.relative_to(HERE.parent))
        if "--write" in sys.argv:
            path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
