"""Kill a host as often as you like, and count what its outside counted.

    python -m tests.fire --rounds 600 --seed 1

Every round starts a host on the same store and kills it at a moment the seed drew; the machine
decides what it was doing. Exits with 1 and says what is wrong if anything is done twice, lost or
left open. A store is given up after so many rounds and a new one begun, as its history grows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fire.stand import Fire, open_nursery, open_outside
from tests.fire.storm import FLOWS, Storm

STORE_ROUNDS = 100


def main() -> int:
    """Blow storm after storm until the rounds are used up; answer the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fire", description=__doc__)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    total: Counter[str] = Counter()
    storms = -(-wanted.rounds // STORE_ROUNDS)
    try:
        with open_nursery() as nursery:
            for storm in range(storms):
                rounds = min(STORE_ROUNDS, wanted.rounds - storm * STORE_ROUNDS)
                total.update(blow(nursery, wanted.seed + storm, rounds, storm * STORE_ROUNDS))
    except AssertionError as error:
        print(f"\nwrong: {error}")
        return 1
    print("\n" + " · ".join(f"{word} {number:g}" for word, number in total.items()))
    return 0


def blow(nursery: Any, seed: int, rounds: int, before: int) -> dict[str, float]:
    """Blow one storm over a store of its own; answer its figures."""

    def progress(number: int) -> None:
        bar = "█" * (number * 30 // rounds)
        print(f"\rseed {seed} {bar:30} kill {before + number}", end="", flush=True)

    with tempfile.TemporaryDirectory() as folder, open_outside() as outside:
        fire = Fire(nursery, outside, Path(folder), *FLOWS)
        try:
            figures: dict[str, Any] = asdict(Storm(fire, seed).blow(rounds, progress))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    moods = figures.pop("moods")
    return {**figures, **{f"outside {mood}": number for mood, number in moods.items()}}


if __name__ == "__main__":
    sys.exit(main())
