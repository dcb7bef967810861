"""Prove for hours, and write one report of exactly what was run.

    make proof PROOF_MINUTES=240
    python -m tests.proof --minutes 240 [--only "kill -9" --only soak] [--jobs 2]

Law 1  Every part is a command that can be run by itself; the report names it with its seeds.
Law 2  A part that is done is not run again for the same commit; a piece that was cut short counts
       for nothing. More minutes go on where the last run ended, with the next seeds.
Law 3  What was not run is in the report as *not run*. What went wrong stays in it.
Law 4  A tree with changes proves nothing about its commit: the report says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from tests.house import ROOT
from tests.proof.part import PARTS, SEED, Figures, Part, add

FOLDER: Final = ROOT / ".proof"
MINUTES: Final = 120.0
SEED_STEP: Final = 1_000_000  # between the seeds of two commits
COMMITS: Final = 2000
TAIL_CHARS: Final = 2000
OVERTIME: Final = 20.0  # a piece that takes so many times its share, and ten minutes more, hangs
HANGS_S: Final = 600.0
TIME_OUT: Final = 124


@dataclass(slots=True)
class Piece:
    """One command that was run to its end."""

    command: list[str]
    begun_at: str
    seconds: float
    status: int
    figures: Figures
    said: str = ""  # the end of what it said, if it went wrong


@dataclass(slots=True)
class Proof:
    """All pieces of one commit, as they are kept on the disk."""

    commit: str
    is_changed: bool
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    minutes: float = 0.0  # that were asked for, at most

    def spent_s(self, part: Part) -> float:
        """Say for how long a part was run."""
        return sum(each.seconds for each in self.pieces.get(part.name, ()))

    def has_failed(self, part: Part) -> bool:
        """Tell whether a part went wrong."""
        return any(each.status for each in self.pieces.get(part.name, ()))

    def next_seed(self, part: Part) -> int:
        """Return the first seed that was not used yet; every commit begins elsewhere."""
        first = (1 + int(self.commit[:8], 16) % COMMITS) * SEED_STEP
        return first + len(self.pieces.get(part.name, ())) * max(part.piece, 1)

    def is_done(self, part: Part, minutes: float) -> bool:
        """Tell whether a part has had its share, or went wrong."""
        if self.has_failed(part):
            return True
        if part.share:
            return part.name in self.pieces and self.spent_s(part) >= part.share * minutes * 60
        return part.name in self.pieces


def commit_of(root: Path) -> tuple[str, bool]:
    """Return the commit of a tree, and whether the tree has changes."""
    git = ["git", "-C", str(root)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    changes = subprocess.run(
        [*git, "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    return commit.stdout.strip(), bool(changes.stdout.strip())


def load(path: Path, commit: str, *, is_changed: bool) -> Proof:
    """Read what was proven of a commit before; of a tree with changes nothing counts (law 4)."""
    if is_changed or not path.exists():
        return Proof(commit, is_changed)
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    pieces = {name: [Piece(**each) for each in found] for name, found in kept["pieces"].items()}
    return Proof(commit, is_changed, pieces, kept["minutes"])


def save(path: Path, proof: Proof) -> None:
    """Write what was proven so far, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(proof), indent=1), encoding="utf-8")
    draft.replace(path)


def run_piece(part: Part, seed: int, jobs: int, minutes: float) -> Piece:
    """Run one command of a part to its end."""
    words = part.words(seed, jobs, minutes * part.share)
    begun_at, begun_s = datetime.now(UTC), time.monotonic()
    limit_s = HANGS_S + OVERTIME * max(minutes, 1) * 60
    try:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, **(part.environ or {})},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        status, out, err = TIME_OUT, "", f"not over after {limit_s:.0f} s"
    try:
        figures = part.read(out)
    except (ValueError, KeyError):
        figures, status = {}, status or 1
    said = (out + err)[-TAIL_CHARS:] if status else ""
    at = begun_at.isoformat(timespec="seconds")
    command = ["python", *words]
    return Piece(command, at, round(time.monotonic() - begun_s, 3), status, figures, said)


def prove(proof: Proof, parts: Sequence[Part], minutes: float, jobs: int, keep: Path) -> None:
    """Run what is not done yet; keep each piece as soon as it is over (law 2)."""
    proof.minutes = max(proof.minutes, minutes)
    for part in parts:
        if not part.share and minutes < part.minutes_min:
            continue
        while not proof.is_done(part, minutes):
            piece = run_piece(part, proof.next_seed(part), jobs, minutes)
            if piece.status == -SIGKILL:
                # A person or a machine out of memory ended it: it says nothing about the commit.
                print(f"{part.name}: killed after {piece.seconds:.0f} s, which counts for nothing")
                break
            proof.pieces.setdefault(part.name, []).append(piece)
            save(keep, proof)
            told = "went wrong" if piece.status else "well"
            print(f"{part.name}: {told} after {piece.seconds:.0f} s, {say(piece.figures)}")
            sys.stdout.flush()
            if not part.piece:
                break


# -- The report -----------------------------------------------------------------------------------


def say(figures: Figures) -> str:
    """Say figures in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {number:,g}" for name, number in figures.items())


def machine() -> str:
    """Say on what it was run."""
    cores, python = len(os.sched_getaffinity(0)), platform.python_version()
    return f"{platform.system()} {platform.machine()}, {cores} cores, Python {python}"


def write_report(proof: Proof, parts: Sequence[Part] = PARTS) -> str:
    """Write the report of a proof as a page."""
    everything = [each for found in proof.pieces.values() for each in found]
    first = min((each.begun_at for each in everything), default="never")
    wrong = [part for part in parts if proof.has_failed(part)]
    spent_s = sum(each.seconds for each in everything)
    lines = [
        "# What was proven",
        "",
        f"- commit: `{proof.commit}`{', and the tree had changes' if proof.is_changed else ''}",
        f"- begun: {first}",
        f"- machine: {machine()}",
        f"- minutes: {proof.minutes:g} asked for, {spent_s / 60:.1f} used",
        f"- verdict: {verdict(proof, wrong, parts)}",
        "",
        "| part | what | pieces | minutes | figures | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for part in parts:
        pieces = proof.pieces.get(part.name, [])
        word = "**went wrong**" if proof.has_failed(part) else "right" if pieces else "not run"
        told = say(add([each.figures for each in pieces])) or "–"
        spent = f"{proof.spent_s(part) / 60:.1f}" if pieces else "–"
        row = (part.name, part.says, str(len(pieces)) if pieces else "–", spent, told, word)
        lines.append(f"| {' | '.join(row)} |")
    lines += ["", "## Commands", "", "```text"]
    for part in parts:
        pieces = proof.pieces.get(part.name, [])
        if len(pieces) > 1:
            words = " ".join("N" if each == SEED else each for each in template(part, pieces[0]))
            first_seed, last_seed = (seed_of(part, each) for each in (pieces[0], pieces[-1]))
            lines.append(f"{words}    N = {first_seed}, {first_seed + part.piece} … {last_seed}")
        elif pieces:
            lines.append(" ".join(pieces[0].command))
    lines.append("```")
    for part in wrong:
        for each in proof.pieces[part.name]:
            if each.status:
                lines += ["", f"## {part.name} went wrong", "", "```text"]
                lines += [" ".join(each.command), f"exit status {each.status}", each.said, "```"]
    return "\n".join(lines) + "\n"


def template(part: Part, piece: Piece) -> list[str]:
    """Spell the command of a part with the word for its seed."""
    pairs = zip(piece.command, ("python", *part.command), strict=True)
    return [SEED if word == SEED else given for given, word in pairs]


def seed_of(part: Part, piece: Piece) -> int:
    """Return the seed that a piece began with."""
    return int(piece.command[1 + part.command.index(SEED)])


def verdict(proof: Proof, wrong: Sequence[Part], parts: Sequence[Part]) -> str:
    """Say in one line what came of it."""
    if wrong:
        return f"**went wrong**: {', '.join(each.name for each in wrong)}"
    missing = sum(part.name not in proof.pieces for part in parts)
    left = f"; {missing} of {len(parts)} parts were not run" if missing else ""
    return f"nothing went wrong in what was run{left}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    given = float(os.environ.get("PROOF_MINUTES") or MINUTES)
    parser.add_argument("--minutes", type=float, default=given)
    names = [part.name for part in PARTS]
    parser.add_argument("--only", action="append", choices=names, metavar="PART")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    wanted = parser.parse_args(arguments)
    commit, is_changed = commit_of(ROOT)
    keep = wanted.folder / commit[:12] / "proof.json"
    proof = load(keep, commit, is_changed=is_changed)
    parts = [part for part in PARTS if wanted.only is None or part.name in wanted.only]
    try:
        prove(proof, parts, wanted.minutes, wanted.jobs, keep)
    finally:
        report = keep.with_name("report.md")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(write_report(proof), encoding="utf-8")
        print(f"The report is {report}")
    return 1 if any(proof.has_failed(part) for part in parts) else 0


if __name__ == "__main__":
    sys.exit(main())
