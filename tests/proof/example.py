"""Crashes the examples of daily life at every point, in each of their languages.

python -m tests.proof.example                     all of them
python -m tests.proof.example form-to-notion …    these

It prints one object: how many examples and crashes there were, and what went wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from duly.api.example import BOTH, DAILY, crash_example

CRASHES_MAX: Final = 1000  # more than any example has points


def crash_all(names: Sequence[str], crashes_max: int = CRASHES_MAX) -> dict[str, object]:
    """Crash examples; count what was tried, and list what went wrong."""
    runs = crashes = 0
    wrong: list[str] = []
    for name in names:
        for language in BOTH:
            told = crash_example(DAILY[name], language, crashes_max=crashes_max)
            runs += 1
            crashes += told.crashes
            wrong += [f"{name}, {language}: {each}" for each in (*told.troubles, *told.mismatches)]
            print(f"{name} {language}: {told.crashes} crashes", file=sys.stderr, flush=True)
    return {"examples": runs, "crashes": crashes, "wrong": wrong}


def main() -> int:
    """Crash the examples that are named, or all."""
    told = crash_all(sys.argv[1:] or [*DAILY])
    print(json.dumps(told))
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
