"""Prove for hours, and write one report of exactly what was run.

    make proof PROOF_MINUTES=240
    python -m tests.proof --only "random scenarios, bus" --minutes 30 --jobs 1
    python -m tests.proof --keep [--folder .proof]

The second runs a part alone for so many minutes more. `kill -STOP` and `kill -CONT` of its process
stop it and let it go on, which random scenarios and power cuts can bear; after a kill the same
command goes on behind the last finished piece. The third takes what is finished into the sums over
all commits (`tests/proof/kept.py`).

Law 1  Every part is a command that can be run by itself; the report names it with its seeds.
Law 2  A part that is done is not run again for the same commit; a piece that was cut short counts
       for nothing. More minutes go on where the last run ended, with the next seeds.
Law 3  What was not run is in the report as *not run*. What went wrong stays in it.
Law 4  A tree with changes proves nothing about its commit: the report says so, and it is written
       beside that of the commit.
Law 5  One proof at a time works in a folder, and a piece never outlives its proof.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from typing import Any, Final

from tests.house import ROOT
from tests.proof import kept
from tests.proof.minder import Minder
from tests.proof.part import PARTS, Figures, Part, add

FOLDER: Final = ROOT / ".proof"
MINUTES: Final = 120.0
SEED_STEP: Final = 1_000_000  # between the seeds of two commits
COMMITS: Final = 2000
TAIL_CHARS: Final = 8000
OVERTIME: Final = 20.0  # a piece that takes so many times its share, and ten minutes more, hangs
HANGS_S: Final = 600.0
TIME_OUT: Final = 124
LOOK_S: Final = 1.0  # a look at a piece that took longer than a few of these was a stop
STOPPED_S: Final = 5.0
ENDED: Final = frozenset({-SIGKILL, -SIGTERM, -SIGINT})  # by a person, or for want of memory
NOT_HERE: Final = 77  # what a command exits with that cannot be run on this machine
NO_COMMIT: Final = "0" * 40


@dataclass(slots=True)
class Piece:
    """One command that was run to its end."""

    command: list[str]
    begun_at: str
    seconds: float
    status: int
    figures: Figures
    said: str = ""  # the end of what it said, if it went wrong
    cpu_s: float | None = None


@dataclass(slots=True)
class Proof:
    """All pieces of one commit, as they are kept on the disk."""

    commit: str
    is_changed: bool
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    minutes: float = 0.0  # that were asked for, at most
    source: str = ""  # the tree of src/
    machine: str = ""

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

    def is_done(self, part: Part, until_s: float) -> bool:
        """Tell whether a part has had its time, or went wrong."""
        if self.has_failed(part):
            return True
        if part.share:
            return part.name in self.pieces and self.spent_s(part) >= until_s
        return part.name in self.pieces


def commit_of(root: Path) -> tuple[str, bool]:
    """Return the commit of a tree, and whether it has changes; one that git does not know has."""

    def ask(*words: str) -> str:
        git = ["git", "-C", str(root), *words]
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return ask("rev-parse", "HEAD"), bool(ask("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return NO_COMMIT, True


def load(path: Path, commit: str, *, is_changed: bool) -> Proof:
    """Read what was proven of a commit before; of a tree with changes nothing counts (law 4)."""
    proof = Proof(commit, is_changed, machine=machine())
    if path.exists() and not is_changed:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        proof.minutes = found["minutes"]
        for name, pieces in found["pieces"].items():
            proof.pieces[name] = [Piece(**each) for each in pieces]
    return proof


def save(path: Path, proof: Proof) -> None:
    """Write what was proven so far, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(proof), indent=1), encoding="utf-8")
    draft.replace(path)


def limit_of(part: Part, minutes: float) -> float:
    """Say after how many seconds a piece hangs; a whole part has no share of the time."""
    return HANGS_S + OVERTIME * max(minutes, part.minutes_min, 1) * 60


def run_piece(part: Part, seed: int, jobs: int, minutes: float, minder: Minder) -> Piece:
    """Run one command of a part, which has so many minutes, to its end."""
    words = part.words(seed, jobs, minutes)
    begun_at, before_s = datetime.now(UTC), cpu_s()
    limit_s = limit_of(part, minutes)
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **(part.environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        minder.mind(process.pid)
        try:
            status, out, err, seconds = wait_for(process, limit_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            minder.mind(0)
    try:
        figures = part.read(out)
    except (ValueError, KeyError):
        figures, status = {}, status or 1
    said = (out + err)[-TAIL_CHARS:] if status else ""
    at = begun_at.isoformat(timespec="seconds")
    used_s = round(cpu_s() - before_s, 1)
    return Piece(["python", *words], at, round(seconds, 3), status, figures, said, used_s)


def wait_for(process: subprocess.Popen[str], limit_s: float) -> tuple[int, str, str, float]:
    """Wait for a process; return its status, what it said, and its seconds without stops."""
    seconds, seen_s = 0.0, time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            out, err = process.communicate(timeout=LOOK_S)
            return process.returncode, out, err, seconds + _passed(seen_s)
        seconds, seen_s = seconds + _passed(seen_s), time.monotonic()
        if seconds > limit_s:
            return TIME_OUT, "", f"not over after {limit_s:.0f} s", seconds


def _passed(since_s: float) -> float:
    """Count the time since a look; while the proof was stopped, none passed."""
    passed_s = time.monotonic() - since_s
    return passed_s if passed_s < STOPPED_S else 0.0


def cpu_s() -> float:
    """Return the processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be run: some parts, and for how long."""

    parts: Sequence[Part]
    minutes: float
    is_more: bool = False  # the searched parts get these minutes beside what they had

    def until_s(self, proof: Proof, part: Part) -> float:
        """Say how long a part will have been run in the end."""
        shares = sum(each.share for each in self.parts) if self.is_more else 1.0
        had_s = proof.spent_s(part) if self.is_more else 0.0
        return had_s + (part.share / (shares or 1.0)) * self.minutes * 60


def prove(proof: Proof, wish: Wish, jobs: int, keep: Path) -> None:
    """Run what is not done yet; keep each piece as soon as it is over (law 2)."""
    proof.minutes = max(proof.minutes, wish.minutes)
    minder = Minder()
    try:
        for part in wish.parts:
            if part.share or wish.is_more or wish.minutes >= part.minutes_min:
                prove_part(proof, part, wish.until_s(proof, part), jobs, keep, minder)
    finally:
        minder.end()


def prove_part(
    proof: Proof, part: Part, until_s: float, jobs: int, keep: Path, minder: Minder
) -> None:
    """Run the pieces of one part until it has had its time."""
    while not proof.is_done(part, until_s):
        minutes = (until_s - proof.spent_s(part)) / 60
        piece = run_piece(part, proof.next_seed(part), jobs, minutes, minder)
        if piece.status in ENDED or piece.status == NOT_HERE:
            told = f"ended after {piece.seconds:.0f} s, which counts for nothing"
            print(f"{part.name}: {piece.said.strip() if piece.status == NOT_HERE else told}")
            return
        proof.pieces.setdefault(part.name, []).append(piece)
        save(keep, proof)
        told = "went wrong" if piece.status else "well"
        print(f"{part.name}: {told} after {piece.seconds:.0f} s, {say(piece.figures)}", flush=True)
        if not part.piece:
            return


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
            words = " ".join(part.template(pieces[0].command))
            begin, end = part.seeds(pieces[0].command, pieces[-1].command) or (0, 0)
            last_begin = end + 1 - max(part.piece, 1)
            lines.append(f"{words}    N = {begin}, {begin + part.piece} … {last_begin}")
        elif pieces:
            lines.append(" ".join(pieces[0].command))
    lines.append("```")
    for part in wrong:
        for each in proof.pieces[part.name]:
            if each.status:
                lines += ["", f"## {part.name} went wrong", "", "```text"]
                lines += [" ".join(each.command), f"exit status {each.status}", each.said, "```"]
    return "\n".join(lines) + "\n"


def verdict(proof: Proof, wrong: Sequence[Part], parts: Sequence[Part]) -> str:
    """Say in one line what came of it."""
    if wrong:
        return f"**went wrong**: {', '.join(each.name for each in wrong)}"
    missing = sum(part.name not in proof.pieces for part in parts)
    left = f"; {missing} of {len(parts)} parts were not run" if missing else ""
    return f"nothing went wrong in what was run{left}"


@contextmanager
def alone(folder: Path) -> Iterator[bool]:
    """Hold a folder of proofs; tell whether no other proof works in it (law 5)."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    given = float(os.environ.get("PROOF_MINUTES") or MINUTES)
    names = [part.name for part in PARTS]
    parser.add_argument("--minutes", type=float, default=given)
    parser.add_argument("--only", action="append", choices=names, metavar="PART")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--keep", action="store_true", help="take what is finished into the sums")
    parser.add_argument("--page", action="store_true", help="write the sums on their page again")
    wanted = parser.parse_args(arguments)
    if wanted.keep or wanted.page:
        return keep_sums(wanted.folder if wanted.keep else None)
    parts = [part for part in PARTS if wanted.only is None or part.name in wanted.only]
    with alone(wanted.folder) as is_alone:
        if not is_alone:
            print(f"Another proof works in {wanted.folder}; name another --folder.")
            return 2
        signal.signal(SIGTERM, lambda *_: sys.exit(128 + SIGTERM))
        wish = Wish(parts, wanted.minutes, is_more=wanted.only is not None)
        return run_proof(wish, wanted.jobs, wanted.folder)


def run_proof(wish: Wish, jobs: int, folder: Path) -> int:
    """Prove, and write the report also of a proof that is ended on the way."""
    commit, is_changed = commit_of(ROOT)
    keep = folder / (commit[:12] + ("-changed" if is_changed else "")) / "proof.json"
    proof = load(keep, commit, is_changed=is_changed)
    proof.source = kept.source_of(commit)
    try:
        prove(proof, wish, jobs, keep)
    finally:
        report = keep.with_name("report.md")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(write_report(proof), encoding="utf-8")
        print(f"The report is {report}")
    return 1 if any(proof.has_failed(part) for part in wish.parts) else 0


def keep_sums(folder: Path | None) -> int:
    """Take what is finished into the data, if a folder is named; write the page again."""
    new = kept.keep(folder) if folder else []
    for row in new:
        print(f"{row.part}, {row.commit[:8]}: {row.count:,.10g}, {row.wrong} went wrong")
        if row.wrong and not row.became:
            print(f"  write into {kept.DATA.name}, under `became`, what became of it")
    page = kept.PAGE.read_text(encoding="utf-8")
    kept.PAGE.write_text(kept.write_page(page, kept.load_rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
