"""What was proven on which commit, kept in the repository: `docs/proof.json`, and its page.

    python -m tests.proof --keep [--folder .proof]    takes what is finished from the folder
    python -m tests.proof --page                      writes the part of docs/guarantees.md again

Law 1  A row is one part on one commit: its command, its seeds, what was counted, and what went
       wrong. Nothing that was run with changes in the tree becomes a row.
Law 2  A row that found something wrong stays, with what became of it.
Law 3  A sum over commits says so: how many commits, and how much of it on the newest source.
Law 4  The same seeds of the same commit count once, however often they were run.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tests.house import ROOT
from tests.proof.part import GOALS, PARTS, Figures, Goal, Part, add

DATA: Final = ROOT / "docs" / "proof.json"
PAGE: Final = ROOT / "docs" / "guarantees.md"
BEGIN: Final = "<!-- what was run: python -m tests.proof --page -->\n"
END: Final = "<!-- end of what was run -->"
SHORT: Final = 8  # letters of a commit
SAID_CHARS: Final = 400
NONE: Final = "–"


@dataclass(frozen=True, slots=True)
class Row:
    """One part on one commit, as far as it was run."""

    part: str
    commit: str
    source: str  # the tree of src/ in that commit
    begun_at: str
    machine: str
    command: str
    seeds: tuple[int, int] | None
    count: float
    figures: Figures
    wrong: int
    minutes: float
    cpu_minutes: float | None
    stores: str
    said: str = ""
    became: str = ""  # of what went wrong; written by hand

    @property
    def key(self) -> tuple[str, str, str]:
        """Say which rows are the same work: the seeds of a search go on where they ended."""
        is_search = self.seeds is not None and PIECES.get(self.part, 0) > 0
        return (self.part, self.commit, "" if is_search else self.begun_at)


PIECES: Final = {part.name: part.piece for part in PARTS}


def row_of(part: Part, proof: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]]) -> Row:
    """Add up pieces of one part on one commit."""
    first, last = pieces[0], pieces[-1]
    figures = add([each["figures"] for each in pieces])
    cpu_s = [each.get("cpu_s") for each in pieces]
    return Row(
        part=part.name,
        commit=proof["commit"],
        source=proof.get("source") or source_of(proof["commit"]),
        begun_at=first["begun_at"],
        machine=proof.get("machine", ""),
        command=" ".join(part.template(first["command"])),
        seeds=part.seeds(first["command"], last["command"]),
        count=round(figures.get(part.counts, 0), 1),
        figures=figures,
        wrong=sum(wrong_in(part, each["figures"], each["status"]) for each in pieces),
        minutes=round(sum(each["seconds"] for each in pieces) / 60, 1),
        cpu_minutes=None if None in cpu_s else round(sum(filter(None, cpu_s)) / 60, 1),
        stores=part.stores,
        said="\n".join(each["said"][-SAID_CHARS:] for each in pieces if each["said"]),
    )


def wrong_in(part: Part, figures: Figures, status: int) -> int:
    """Count what a piece found wrong; a command that failed found one thing at least."""
    return max(int(sum(figures.get(each, 0) for each in part.wrong)), int(status != 0))


def source_of(commit: str) -> str:
    """Return the tree of src/ in a commit: what it says about the program that ships."""
    words = ["git", "-C", str(ROOT), "rev-parse", f"{commit}:src"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def rows_of(proof: Mapping[str, Any]) -> list[Row]:
    """Make rows of the finished pieces of one commit (law 1)."""
    if proof["is_changed"]:
        return []
    rows = []
    for part in PARTS:
        pieces = proof["pieces"].get(part.name, [])
        groups = [pieces] if part.piece and pieces else [[each] for each in pieces]
        rows += [row_of(part, proof, each) for each in groups]
    return rows


def merge(kept: Iterable[Row], found: Iterable[Row]) -> list[Row]:
    """Put new rows to those that are kept (laws 2, 4)."""
    rows = {each.key: each for each in kept}
    for each in found:
        old = rows.get(each.key)
        if old is None or (each.count >= old.count and each.wrong >= old.wrong):
            rows[each.key] = replace(each, became=old.became if old else "")
    names = [part.name for part in PARTS]
    return sorted(rows.values(), key=lambda row: (names.index(row.part), row.begun_at))


def load_rows(path: Path = DATA) -> list[Row]:
    """Read what is kept."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [
        Row(**{**each, "seeds": tuple(each["seeds"]) if each["seeds"] else None}) for each in found
    ]


def keep(folder: Path, path: Path = DATA) -> list[Row]:
    """Take what is finished from a folder of proofs into the data; return the rows that are new."""
    kept = load_rows(path)
    proofs = [json.loads(each.read_text("utf-8")) for each in sorted(folder.glob("*/proof.json"))]
    rows = merge(kept, [row for proof in proofs for row in rows_of(proof)])
    text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return [row for row in rows if row not in kept]


# -- The page -------------------------------------------------------------------------------------


def write_sums(rows: Sequence[Row], goals: Sequence[Goal] = GOALS) -> str:
    """Write the table of goals: what was asked for, what was run, and on how many commits."""
    newest = max(rows, key=lambda row: row.begun_at)
    commit, source = newest.commit[:SHORT], newest.source[:SHORT]
    day = newest.begun_at[:10]
    told = (
        "Each number is a sum over as many commits as its row says. The newest source that was "
        f"tried is that of commit `{commit}` ({day}): it is the source that you have if "
        f"`git rev-parse HEAD:src` begins with `{source}`."
    )
    lines = [
        told,
        "",
        "| goal | asked for | run | commits | on the newest source | went wrong |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_goal_row(goal, rows, newest.source))} |" for goal in goals]
    return "\n".join(lines)


def _goal_row(goal: Goal, rows: Sequence[Row], newest: str) -> tuple[str, ...]:
    mine = [row for row in rows if row.part in goal.parts]
    commits, wrong = len({row.commit for row in mine}), sum(row.wrong for row in mine)
    asked = (
        f"{goal.least:,} {goal.unit}" if goal.least else f"{len(goal.parts)} of {len(goal.parts)}"
    )
    return (
        goal.says,
        asked,
        reached(goal, mine),
        f"{commits}" if mine else NONE,
        reached(goal, [row for row in mine if row.source == newest]),
        f"**{wrong}**" if wrong else "0" if mine else NONE,
    )


def reached(goal: Goal, rows: Sequence[Row]) -> str:
    """Say how much of a goal these rows reach."""
    if not rows:
        return "nothing"
    if not goal.least:
        right = {row.part for row in rows if not row.wrong}
        return f"{len(right)} of {len(goal.parts)}"
    counts = [row.count for row in rows]
    return f"{sum(counts) if goal.is_sum else max(counts):,.10g} {goal.unit}"


def write_rows(rows: Sequence[Row]) -> str:
    """Write the table of parts and commits, then what went wrong, then what was not run."""
    lines = [
        "| part | commit | date | seeds | figures | minutes (of CPU) | store | went wrong |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(_row(row))} |" for row in rows]
    for row in rows:
        if row.wrong:
            said = f"**{row.part}** on `{row.commit[:SHORT]}`: {row.wrong} went wrong."
            lines += ["", f"{said} {row.became or 'What became of it is not written down yet.'}"]
    missing = [part.name for part in PARTS if part.name not in {row.part for row in rows}]
    if missing:
        lines += ["", f"Not run on any commit of this list: {'; '.join(missing)}."]
    return "\n".join(lines)


def _row(row: Row) -> tuple[str, ...]:
    cpu = NONE if row.cpu_minutes is None else f"{row.cpu_minutes:g}"
    seeds = f"{row.seeds[0]} to {row.seeds[1]}" if row.seeds else NONE
    figures = ", ".join(f"{_word(name)} {each:,g}" for name, each in row.figures.items() if each)
    wrong = f"**{row.wrong}**" if row.wrong else "0"
    spent = f"{row.minutes:g} ({cpu})" if row.minutes else NONE
    day = row.begun_at[:10]
    return (row.part, f"`{row.commit[:SHORT]}`", day, seeds, figures, spent, row.stores, wrong)


def _word(name: str) -> str:
    """Say the name of a figure as the rest of the page does."""
    return name.replace("schedules", "scenarios").replace("_mib", " (MiB)").replace("_", " ")


def write_page(page: str, rows: Sequence[Row]) -> str:
    """Put the tables in their place on the page."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{write_sums(rows)}\n\n{write_rows(rows)}\n\n{END}{after}"
