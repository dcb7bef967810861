"""Measure whole runs, the bus, the store and a step of a script; print one page.

The goals are reported, never asserted: a missed goal is a reason to look, not a failed build.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench import bus, page, report, sandbox, store
from bench.measure import QUICK, WHOLE, Size
from bench.report import Report, Section
from bench.runs import peer as peers
from bench.runs import section as runs

FOLDER = Path(__file__).parents[1] / ".bench"


async def measure_runs(options: argparse.Namespace, folder: Path, size: Size) -> Section:
    """Measure whole runs, beside every peer that can be had."""
    languages = [options.language] if options.language else runs.LANGUAGES
    names = () if options.alone else runs.PEERS
    programs, notes = peers.prepare(names, options.folder)
    return replace(await runs.measure(folder, size, languages, programs), notes=notes)


async def measure_bus(options: argparse.Namespace, folder: Path, size: Size) -> Section:
    """Measure the bus, beside huey if it can be had."""
    programs, notes = peers.prepare(() if options.alone else ("huey",), options.folder)
    with ExitStack() as stack:
        opened = [stack.enter_context(peers.started(each, folder)) for each in programs]
        return replace(await bus.measure(folder, size, opened), notes=notes)


async def measure_store(_: argparse.Namespace, folder: Path, size: Size) -> Section:
    """Measure the store."""
    return await store.measure(folder, size)


async def measure_step(_: argparse.Namespace, folder: Path, size: Size) -> Section:
    """Measure one step of a script."""
    return await sandbox.measure(folder, size)


Measure = Callable[[argparse.Namespace, Path, Size], Coroutine[None, None, Section]]
SECTIONS: dict[str, Measure] = {
    "runs": measure_runs,
    "bus": measure_bus,
    "store": measure_store,
    "step": measure_step,
}


@contextmanager
def room(kept: Path) -> Iterator[Path]:
    """Give a section a folder of its own on the disk that is measured, and remove it."""
    kept.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=kept))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def measure(options: argparse.Namespace, size: Size) -> Report:
    """Measure the sections that were asked for, one after the other."""
    found: Report = {}
    for name in options.sections or SECTIONS:
        around = report.Surroundings()
        with room(options.folder) as folder:
            section = asyncio.run(SECTIONS[name](options, folder, size))
        found[name] = replace(section, conditions=around.conditions(size.rounds))
    return found


def parser() -> argparse.ArgumentParser:
    """Describe the command."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS) + "; all")
    made.add_argument("--quick", action="store_true", help="tiny slices: does it run at all?")
    made.add_argument("--alone", action="store_true", help="without peers; nothing is fetched")
    made.add_argument("--json", action="store_true", help="print JSON instead of the page")
    made.add_argument("--markdown", action="store_true", help="print the page as Markdown")
    made.add_argument("--write", action="store_true", help="keep the figures and write the pages")
    made.add_argument("--folder", type=Path, default=FOLDER, help="which disk to measure")
    made.add_argument("--rounds", type=int, help="how often each figure is taken")
    made.add_argument("--workflows", type=int, nargs="+", help="how many of them, for runs")
    made.add_argument("--language", choices=runs.LANGUAGES, help="one alone, for runs")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and leave nothing behind but the peers' environments."""
    made = parser()
    options = made.parse_args(arguments)
    unknown = [each for each in options.sections if each not in SECTIONS]
    if unknown:
        made.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    is_part = options.quick or options.alone or options.language or options.workflows
    if options.write and is_part:
        made.error("--write keeps whole sections: no --quick, --alone, --language or --workflows")
    size = QUICK if options.quick else WHOLE
    size = replace(
        size,
        rounds=options.rounds or size.rounds,
        workflows=tuple(options.workflows or size.workflows),
    )
    found = measure(options, size)
    if options.write:
        page.write(report.keep(found))
    if options.json:
        print(report.encode(found).decode())
    else:
        print(page.markdown(found) if options.markdown else page.text(found))


if __name__ == "__main__":
    main()
