"""Chance that repeats: one seed, one series of throws, on every machine and every Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

MASK: Final = 2**64 - 1
GOLDEN: Final = 0x9E3779B97F4A7C15


class Dice:
    """A small generator of our own (splitmix64), so that a seed means the same for ever."""

    def __init__(self, seed: int) -> None:
        self._state = seed & MASK

    def _next(self) -> int:
        self._state = (self._state + GOLDEN) & MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return (self._next() >> 11) / (1 << 53)

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 to below `stop`."""
        return self._next() % stop

    def happens(self, probability: float) -> bool:
        """Tell whether something of this probability happens."""
        return self.random() < probability

    def choose(self, options: Sequence[T]) -> T:
        """Choose one; what is listed twice is chosen twice as often."""
        return options[self.randrange(len(options))]
