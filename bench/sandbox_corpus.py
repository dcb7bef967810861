"""What the corpus of attacks does to a host by the wall clock: its longest gap, and late endings.

    python -m bench.sandbox_corpus

Law: told, never judged: on a machine that is busy with something else these figures are that
machine's. What must hold on any machine is tested in time of the processor and in virtual time.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.hostile import payload
from tests.sandbox.hostile.attack import write
from tests.sandbox.hostile.canary import canaries
from tests.sandbox.hostile.meter import metering
from tests.sandbox.hostile.stand import (
    CASES,
    Stage,
    cpu_limit_s,
    hook_workers,
    limits_for,
    together,
)

GAP_GOAL_MS = 250
PAST_GOAL_S = 2.0
SHOWN = 5


async def measure(folder: Path) -> None:
    """Run every attack, locked, a few at once, and print what was seen."""
    with canaries(folder) as caged, pytest.MonkeyPatch.context() as patch:
        hook_workers(patch, caged, is_locked=True)
        stage = Stage()
        runs: dict[Any, Any] = {
            (attack.name, language): partial(stage.attack, attack, language, caged.places)
            for attack, language in CASES
        }
        natives = {(name, "native"): partial(stage.native, name) for name in payload.INSIDE}
        async with metering() as meter:
            ended = await together(runs | natives)
        await stage.close()
        past: dict[tuple[str, str], float] = {}
        for attack, language in CASES:
            program = attack.programs()[language]
            limit_s = cpu_limit_s(limits_for(program.says, program.body))
            text = write(language, program, caged.places).text
            past[attack.name, language] = meter.computed_s.get(text, 0.0) - limit_s
    print(f"attacks                       {len(ended)}")
    print(f"longest gap of the loop       {meter.gap_ms:.0f} ms (goal {GAP_GOAL_MS})")
    print(f"dearest callback of the loop  {meter.callback_cpu_ms:.1f} ms of CPU time")
    print(f"farthest past a CPU limit     {max(past.values()):.2f} s (goal {PAST_GOAL_S:g})")
    print("longest from load to end, by the wall clock:")
    for case in sorted(ended, key=lambda each: -ended[each].took_s)[:SHOWN]:
        print(f"  {ended[case].took_s:5.2f} s  {' · '.join(case)}: {ended[case].words[:60]}")


def main() -> None:
    """Measure, with the load of the machine before and after."""
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder)))
    print(f"load of the machine           {before:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
