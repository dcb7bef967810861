"""The clock and the dice of a Python script: what the interpreter asks, answered from `World`.

Law 1: a script sees no other clock and no other chance than these (C13). Every other question of
       the interpreter is refused: files, environment, modules.
Law 2: the numbers are a function of the seed alone. They are the bytes of SHA-256 over
       "duly:<seed>:<block>", block after block; the interpreter makes its generator from the first
       2496 of them, and everything in `random` follows from that.
Law 3: no script really sleeps. The time it asked to sleep is added to its clock, so that a loop
       that waits for a moment ends; more than the step may take is a logic failure.
Law 4: a script that asks again and again is stopped when its wall time is over: the interpreter
       does not count the time it waits for our answer.
Law 5: the host makes random bytes in its event loop, some 50 ms for a MiB. So their number is
       limited, per call and per step (X2).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from math import ceil
from typing import Any, Final

from duly.env import Env
from duly.errors import ScriptError
from duly.sandbox.base import World
from duly.sandbox.python_error import wall_time

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RANDOM_BYTES_MAX: Final = 1024 * 1024
RANDOM_BYTES_PER_STEP_MAX: Final = 2 * 1024 * 1024
BLOCK_BYTES: Final = 32
SLEEPS: Final = frozenset({"time.sleep", "asyncio.sleep"})


class ScriptClock:
    """One step's time and chance; it stands while the host has the turn (X2)."""

    def __init__(self, world: World, env: Env, wall_s: float) -> None:
        self.is_asked = False
        self._world = world
        self._env = env
        self._wall_s = wall_s
        self._taken_ms = 0
        self._turn_from_ms: int | None = None
        self._slept_s = 0.0
        self._block = 0
        self._bytes = b""  # made and not given yet; always less than a block
        self._random_bytes = 0

    def begin_turn(self) -> None:
        """Let the script's time pass."""
        self._turn_from_ms = self._env.monotonic_ms()

    def end_turn(self) -> None:
        """Let it stand."""
        self._taken_ms = self.elapsed_ms()
        self._turn_from_ms = None

    def find(self, name: str) -> Callable[..., Any] | None:
        """Return the function that stands behind what the interpreter asked for, if any does."""
        if self.elapsed_ms() > self._wall_s * 1000:
            raise ScriptError(wall_time(self._wall_s))
        if name in SLEEPS:
            return self._sleep
        answers: dict[str, Callable[..., Any]] = {
            "time.time": lambda: self._now_ms() / 1000,
            "datetime.now": self._datetime,
            "date.today": lambda: self._datetime(None).date(),
            "os.urandom": self._random,
        }
        return answers.get(name)

    def elapsed_ms(self) -> int:
        """Return how long the script has run; waiting for the host is no time of its own."""
        if self._turn_from_ms is None:
            return self._taken_ms
        return self._taken_ms + self._env.monotonic_ms() - self._turn_from_ms

    def _now_ms(self) -> int:
        self.is_asked = True
        if self._world.frozen:
            return self._world.now_ms
        return self._world.now_ms + self.elapsed_ms() + int(self._slept_s * 1000)

    def _datetime(self, zone: tzinfo | None) -> datetime:
        now = EPOCH + timedelta(milliseconds=self._now_ms())
        return now.replace(tzinfo=None) if zone is None else now.astimezone(zone)

    def _random(self, count: int) -> bytes:
        self.is_asked = True
        self._random_bytes += count
        _check_most(count, RANDOM_BYTES_MAX, "random bytes at once")
        _check_most(self._random_bytes, RANDOM_BYTES_PER_STEP_MAX, "random bytes in a step")
        blocks = ceil(max(0, count - len(self._bytes)) / BLOCK_BYTES)
        first, self._block = self._block, self._block + blocks
        made = b"".join((self._bytes, *map(self._make_block, range(first, self._block))))
        self._bytes = made[count:]
        return made[:count]

    def _make_block(self, number: int) -> bytes:
        return sha256(f"duly:{self._world.seed}:{number}".encode()).digest()

    def _sleep(self, seconds: float) -> None:
        self._slept_s += max(0.0, seconds)
        if not self._slept_s <= self._wall_s:
            raise ScriptError(code="slept_too_long", facts={"seconds": f"{self._wall_s:g}"})


def _check_most(count: int, most: int, unit: str) -> None:
    if count > most:
        facts = {"limit": most, "unit": unit}
        raise ScriptError(code="too_many", subject="script", facts=facts)
