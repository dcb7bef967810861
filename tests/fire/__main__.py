"""Kill a host as often as you like, and count what its outside counted.

    python -m tests.fire --rounds 600 --seed 1
    python -m tests.fire --rounds 300 --threads

Every round starts a host on the same store and kills it at a moment the seed drew; the machine
decides what it was doing. Exits with 1 and says what is wrong if anything is done twice, lost or
left open. With `--threads` every host is a `duly serve` whose connector blocks in threads, and a
round stops it, forks it, tells it to stop or kills it, and starts the next one at once. A store is
given up after so many rounds and a new one begun, as its history grows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tests.fire.mixed import Mix
from tests.fire.stand import Fire, open_nursery, open_outside
from tests.fire.storm import FLOWS, Storm

STORE_ROUNDS = 100
MIX_ROUNDS = 30


def main() -> int:
    """Blow storm after storm until the rounds are used up; answer the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fire", description=__doc__)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", action="store_true", help="duly serve, threads, every harm")
    wanted = parser.parse_args()
    total: Counter[str] = Counter()
    one = mix if wanted.threads else blow
    each = MIX_ROUNDS if wanted.threads else STORE_ROUNDS
    storms = -(-wanted.rounds // each)
    try:
        with open_nursery() as nursery:
            for storm in range(storms):
                rounds = min(each, wanted.rounds - storm * each)
                total.update(one(nursery, wanted.seed + storm, rounds, storm * each))
    except AssertionError as error:
        print(f"\nwrong: {error}")
        return 1
    print("\n" + " · ".join(f"{word} {number:g}" for word, number in total.items()))
    return 0


def blow(nursery: Any, seed: int, rounds: int, before: int) -> dict[str, float]:
    """Blow one storm over a store of its own; answer its figures."""

    progress = partial(show, seed, rounds, before)
    with tempfile.TemporaryDirectory() as folder, open_outside() as outside:
        fire = Fire(nursery, outside, Path(folder), *FLOWS)
        try:
            figures: dict[str, Any] = asdict(Storm(fire, seed).blow(rounds, progress))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return {"rounds": rounds, **flat(figures)}


def mix(nursery: Any, seed: int, rounds: int, before: int) -> dict[str, float]:
    """Mix every harm over a store of its own; answer its figures."""
    with tempfile.TemporaryDirectory() as folder, open_outside() as outside:
        one = Mix(nursery, outside, Path(folder), seed)
        try:
            return flat(asdict(one.blow(rounds, partial(show, seed, rounds, before))))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def show(seed: int, rounds: int, before: int, number: int) -> None:
    """Say how far it is."""
    bar = "█" * (number * 30 // rounds)
    print(f"\rseed {seed} {bar:30} round {before + number}", end="", flush=True)


def flat(figures: dict[str, Any]) -> dict[str, float]:
    """Put the counts within counts beside the others."""
    moods, harms = figures.pop("moods"), figures.pop("harms", {})
    figures.update({f"harm {harm}": number for harm, number in harms.items()})
    return {**figures, **{f"outside {mood}": number for mood, number in moods.items()}}


if __name__ == "__main__":
    sys.exit(main())
