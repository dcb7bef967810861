"""Deliberate breaks: each takes one guard away and expects its tests to notice.

Law: a break is red. One whose place does not exist, whose tests stay green under it, or whose
tests are not green without it, fails. Only the tests that claim the broken rule are asked: what
another rule's test happens to notice proves nothing about this one.

The breaks stand in `<area>.py` beside this file: `from tests.breaks import Break`, and
`BREAKS: tuple[Break, …]`. Every module of this folder is read but `planted`, which holds breaks
for the judge's own tests. Each break runs in a pytest process of its own, with `break_plugin`
putting it in place before anything is collected.

    python -m tests.breaks                 every break (`make breaks`)
    python -m tests.breaks C8 L6           the breaks of some rules
    python -m tests.breaks --tenth 3       every tenth break, beginning with the fourth
    python -m tests.breaks --tenth         the tenth that belongs to the commit checked out

The part of the ordinary test run, a fortieth, is a function of the commit, so a red run stays red
when it is repeated, and the next commit tries another part. `TEST_TENTH` overrides it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from tests.rules_map import read_claims, tests_of
from tests.warm import Warm

ROOT = Path(__file__).parents[2]
PLANTED = "planted"
BREAK_VARIABLE = "TEST_BREAK"
AREAS_VARIABLE = "TEST_BREAK_AREAS"
TENTH_VARIABLE = "TEST_TENTH"
PARTS = 10
PARALLEL = 2
TIMEOUT_S = 300.0
WORDS_CHARS = 1500
EXIT_MISSING = 64


@dataclass(frozen=True, slots=True)
class Break:
    """One guard taken away: `replacement` stands where `module.attribute` stood.

    The attribute may be dotted (`Run.is_open`). A table is broken by giving the whole broken
    table: `replacement={**access.TABLE, key: wrong}`. `tests` are files, of which the tests that
    claim the rule are run, or single tests (`file::test`), which are run as they are.
    """

    rule: str
    module: str
    attribute: str
    replacement: Any
    tests: tuple[str, ...]
    says: str

    @property
    def key(self) -> str:
        """Name this break among all others."""
        return f"{self.rule}: {self.says}"


class Verdict(StrEnum):
    """What became of a break."""

    RED = "red"
    GREEN = "stayed green"
    MISSING = "no such place"
    BROKEN_BEFORE = "red without the break"
    DID_NOT_RUN = "tests did not run"
    UNCLAIMED = "no test claims the rule"
    HUNG = "did not end"


@dataclass(frozen=True, slots=True)
class Report:
    """A break, what became of it, and the last words of its tests."""

    broken: Break
    verdict: Verdict
    detail: str = ""


class NoSuchPlace(Exception):
    """A break names a module or attribute that does not exist."""


def apply(broken: Break) -> None:
    """Put the replacement in place, also where other modules of the package imported the name."""
    try:
        module = importlib.import_module(broken.module)
        *path, name = broken.attribute.split(".")
        holder: Any = reduce(getattr, path, module)
        original = getattr(holder, name)
    except (ImportError, AttributeError) as error:
        raise NoSuchPlace(f"{broken.module}.{broken.attribute}: {error}") from error
    setattr(holder, name, broken.replacement)
    if holder is not module:
        return
    package = broken.module.partition(".")[0]
    # The scenarios are the package's own: what they imported is broken with it.
    for other in (*imported(package), *imported("verification")):
        # `from duly.config import KIB` made a second name for the same object.
        if vars(other).get(name) is original:
            setattr(other, name, broken.replacement)


def imported(package: str) -> list[ModuleType]:
    """List every module of a package that is imported now."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name == package or name.startswith(f"{package}.")
    ]


def collect() -> tuple[Break, ...]:
    """Gather the breaks of every area, or of those named in the environment."""
    found = {path.stem for path in Path(__file__).parent.glob("[!_]*.py")} - {PLANTED}
    named = os.environ.get(AREAS_VARIABLE, "").split()
    areas = [importlib.import_module(f"tests.breaks.{area}") for area in named or sorted(found)]
    return tuple(sorted((b for area in areas for b in area.BREAKS), key=lambda b: b.key))


def tenth(breaks: Sequence[Break], number: int) -> tuple[Break, ...]:
    """Take every tenth break, beginning with the `number`-th."""
    return tuple(breaks[number % PARTS :: PARTS])


def tenth_of_commit(root: Path = ROOT) -> int:
    """Return which tenth belongs to this run."""
    return number_of_commit(root) % PARTS


def number_of_commit(root: Path = ROOT) -> int:
    """Return what chooses the parts of this run: `TEST_TENTH`, else the commit's number, or 0."""
    if given := os.environ.get(TENTH_VARIABLE):
        return int(given)
    try:
        command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD"]
        head = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return 0
    return int(head or "0", 16)


def select(broken: Break, claims: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Choose the tests a break must turn red: those that claim its rule, of the files it names."""
    claiming = tests_of(broken.rule, claims)
    return tuple(
        test
        for named in broken.tests
        for test in ([named] if "::" in named else claiming)
        if test.partition("::")[0] == named.partition("::")[0]
    )


def run_tests(
    tests: Iterable[str], *, key: str, timeout_s: float, warm: Warm
) -> tuple[int | None, str]:
    """Run tests in a process of their own, under the break of that name; answer exit and words."""
    # Assertions of modules that are imported already are not rewritten; they hold all the same.
    early = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    options = ("-x", "--no-header", "--tb=line", "-p", "no:cacheprovider", *early)
    return warm.run(
        (*options, "-p", "tests.break_plugin", *tests), {BREAK_VARIABLE: key}, timeout_s
    )


# What an exit status of pytest means while a break is in place. An error during collection does
# not count as red: it would hide whether a test looks at the guard at all.
EXITS = {
    0: Verdict.GREEN,
    1: Verdict.RED,
    2: Verdict.DID_NOT_RUN,
    3: Verdict.DID_NOT_RUN,
    4: Verdict.DID_NOT_RUN,
    5: Verdict.DID_NOT_RUN,
    EXIT_MISSING: Verdict.MISSING,
}


def try_break(
    broken: Break, tests: Sequence[str], *, warm: Warm, timeout_s: float = TIMEOUT_S
) -> Report:
    """Run these tests under a break and judge what they say."""
    status, words = run_tests(tests, key=broken.key, timeout_s=timeout_s, warm=warm)
    if status is None:
        return Report(broken, Verdict.HUNG, f"no end after {timeout_s} s")
    verdict = EXITS.get(status, Verdict.DID_NOT_RUN)
    return Report(broken, verdict, "" if verdict is Verdict.RED else words[-WORDS_CHARS:])


def try_breaks(breaks: Sequence[Break], *, control: bool) -> list[Report]:
    """Try the breaks, two at a time; with a control, first see that all is green without them."""
    claims = read_claims()
    chosen = [select(broken, claims) for broken in breaks]
    with ExitStack() as stack:
        free: SimpleQueue[Warm] = SimpleQueue()
        for _ in range(min(PARALLEL, sum(map(bool, chosen)))):
            free.put(stack.enter_context(closing(Warm())))

        def attempt(broken: Break, tests: Sequence[str]) -> Report:
            if not tests:
                looked = f"looked in {', '.join(broken.tests)}"
                return Report(broken, Verdict.UNCLAIMED, looked)
            warm = free.get()
            try:
                return try_break(broken, tests, warm=warm)
            finally:
                free.put(warm)

        if control and (every := sorted({test for tests in chosen for test in tests})):
            warm = free.get()
            status, words = run_tests(every, key="", timeout_s=TIMEOUT_S, warm=warm)
            free.put(warm)
            if status != 0:
                return [Report(b, Verdict.BROKEN_BEFORE, words[-WORDS_CHARS:]) for b in breaks]
        with ThreadPoolExecutor(PARALLEL) as threads:
            return list(threads.map(attempt, breaks, chosen))


def table(reports: Iterable[Report]) -> str:
    """Lay the reports out for a terminal, with the words of the tests under what is not red."""
    lines = []
    for report in reports:
        broken = report.broken
        lines.append(f"{report.verdict:22} {broken.key}  ({broken.module}.{broken.attribute})")
        lines.extend(f"    {line}" for line in report.detail.splitlines())
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the breaks the command line asks for; answer the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.breaks", description="Take each guard away and see its tests go red."
    )
    parser.add_argument("rules", nargs="*", help="only the breaks of these rules")
    parser.add_argument(
        "--tenth", nargs="?", type=int, const=-1, help="every tenth break; default by the commit"
    )
    given = parser.parse_args(arguments)
    breaks = collect()
    if given.rules:
        breaks = tuple(b for b in breaks if b.rule in given.rules)
    if given.tenth is not None:
        breaks = tenth(breaks, tenth_of_commit() if given.tenth < 0 else given.tenth)
    if not breaks:
        print("There is no such break; tests/breaks/<area>.py is where they stand.")
        return 1
    reports = try_breaks(breaks, control=True)
    print(table(reports))
    failed = [report for report in reports if report.verdict is not Verdict.RED]
    print(f"{len(reports)} breaks, {len(reports) - len(failed)} red, {len(failed)} not.")
    return 1 if failed else 0
