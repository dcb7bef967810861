"""Does a store stop growing, if what comes in is steady and history is removed?

    python -m bench.half_year                       # half a year, 4 inputs a day
    python -m bench.half_year --days 730 --inputs 48

A host lives in virtual time: so many inputs a day with their texts, each one run, one change and
what the bus is told of it, a producer that looks twice a day, retention of 30 days, a backup
every three days of which four are kept. At the end of each month of 30 days it is measured what the
file has (its free pages included), how many steps SQLite takes for the questions that a person
asks, and how many backups there are.

What retention leaves of each input is kept for ever: its message id, the key of its change, and the
empty runs that the ledger names. So the file still grows after the first months, by that alone.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from duly.backup_settings import BackupSettings
from duly.config import Policy
from duly.host import Host
from duly.testing.stage import Stage, open_stage
from tests.engine.stand import CONSUMER, NAME, Play, consumer, flow, opened, producer
from verification.moves import Call

DAYS: Final = 180
INPUTS: Final = 4  # a day
MONTH_DAYS: Final = 30
DAY_S: Final = 86_400
LOOKS_A_DAY: Final = 2
TEXT_CHARS: Final = 6_000
STEPS_EACH: Final = 100  # SQLite's steps are counted in so many
RETENTION_DAYS: Final = 30
BACKUPS: Final = BackupSettings(every="3d", keep=4)
LOOKS: Final[tuple[Callable[[Host], Awaitable[object]], ...]] = (
    lambda host: host.workflows(),
    lambda host: host.workflow(NAME),
    lambda host: host.inputs(NAME),
    lambda host: host.outputs(NAME),
    lambda host: host.events(NAME),
    lambda host: host.runs(NAME),
    lambda host: host.mutations(NAME),
    lambda host: host.attention(),
    lambda host: host.actions(),
    lambda host: host.bus.journal(),
    lambda host: host.figures(),
)


@dataclass(frozen=True, slots=True)
class Month:
    """What is there at the end of a month."""

    bytes: int
    steps: int  # of SQLite, for every question once, in hundreds
    backups: int
    inputs: int  # that came since the beginning


def live(days: int, inputs: int) -> list[Month]:
    """Let so many days pass with so many inputs a day; return what each month ended with."""
    with tempfile.TemporaryDirectory(prefix="growth-") as name:
        folder = Path(name)
        with open_stage(folder) as stage:
            return stage.run(_live(stage, folder, days, inputs))


async def _live(stage: Stage, folder: Path, days: int, inputs: int) -> list[Month]:
    play = await opened(stage, policy=Policy(retention_days=RETENTION_DAYS))
    look = producer(Call("sheet.find", (), {}), every=f"{24 // LOOKS_A_DAY}h")
    await play.deploy(flow({CONSUMER: consumer(then=None)}, {"look": look}))
    kept = folder / "backups"
    keeping = asyncio.ensure_future(play.host.keep_backups(BACKUPS, kept))
    found: list[Month] = []
    came = 0
    async with play.host.running():
        for day in range(1, days + 1):
            for _ in range(inputs):
                came += 1
                await play.host.publish(NAME, "in", **_input(came))
                await stage.advance(DAY_S / inputs)
            if day % MONTH_DAYS == 0:
                copies = len(list(kept.iterdir()))
                size = (folder / "duly.db").stat().st_size
                found.append(Month(size, await _count_steps(play), copies, came))
    keeping.cancel()
    return found


def _input(number: int) -> dict[str, Any]:
    text = f"{number} and what it says; " * (TEXT_CHARS // 24)
    return {"title": f"Mail {number}", "message_id": f"mail-{number}", "payload": text}


async def _count_steps(play: Play) -> int:
    """Ask every question once; return how many hundreds of steps SQLite took."""
    backend: Any = play.store.backend  # a stage asks on the connection that writes
    counted = 0

    def count() -> bool:
        nonlocal counted
        counted += 1
        return False

    backend.connection.set_progress_handler(count, STEPS_EACH)
    try:
        for look in LOOKS:
            await look(play.host)
    finally:
        backend.connection.set_progress_handler(None)
    return counted


def growth(months: list[Month]) -> list[float]:
    """Return how many bytes of the file each input of a month costs, month by month."""
    return [
        (after.bytes - before.bytes) / (after.inputs - before.inputs)
        for before, after in pairwise(months)
    ]


def main() -> None:
    """Live so long, and print each month."""
    parser = argparse.ArgumentParser(prog="python -m bench.half_year", description=__doc__)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="a day")
    given = parser.parse_args()
    begun_s = time.process_time()
    months = live(given.days, given.inputs)
    for number, month in enumerate(months, 1):
        print(
            f"month {number}: {month.inputs:,} inputs so far, {month.bytes / 1024:,.0f} KiB, "
            f"{month.steps * STEPS_EACH:,} steps for every question, {month.backups} backups"
        )
    added = ", ".join(f"{each:,.0f}" for each in growth(months))
    print(f"bytes that an input adds, by month: {added}")
    print(f"{time.process_time() - begun_s:.1f} s of CPU")


if __name__ == "__main__":
    main()
