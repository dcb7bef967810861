"""The outside, as a server of its own process: it counts effects, and misbehaves as it is told.

Law 1: what is counted here happened, and nothing else did. The host can neither see the count nor
       change it, and no end of a host touches it.
Law 2: a request that has arrived is no longer its sender's: it takes effect though the sender has
       hung up, but never later than the moment it carries. So the lag a tool declares is true
       however slow the machine is.
Law 3: of requests that say `once`, the second under a key changes nothing.

It listens on loopback, speaks one JSON object per line, and says its port first. What it does
with a write is a mood, drawn from the moods it was given, or else from dice, or else plain:

    plain   does it and answers                 lost    does it and hangs up without an answer
    slow    does it after a while and answers   cut     hangs up, and never does it
    late    hangs up, and does it after a while mute    does it and never answers
    held    does it and answers when told to
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any, Final

LANDING_S: Final = 0.4  # after so long a request that is on its way has no effect any more
LATE_S: Final = 0.2
SLOW_S: Final = 0.1
LINE_BYTES_MAX: Final = 1 << 20
MOODS: Final = {"plain": 50, "slow": 10, "lost": 15, "cut": 10, "late": 10, "mute": 5}


@dataclass(frozen=True, slots=True)
class Line:
    """One effect: the key of its call, the workflow it came from, what was written."""

    key: str
    workflow: str
    row: str


class HangUp(Exception):
    """The caller gets no answer."""


def moment_ms() -> int:
    """Answer the one clock that every process of this machine shares."""
    return time.monotonic_ns() // 1_000_000


class Outside:
    """What there is beyond the host."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._moods: deque[str] = deque()
        self._dice: random.Random | None = None
        self._released = asyncio.Event()
        self._landing: set[asyncio.Task[Any]] = set()
        self.ended = asyncio.Event()
        self.drawn: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one caller until one of the two hangs up."""
        try:
            while line := await reader.readline():
                answer = await self._answer(json.loads(line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (HangUp, ConnectionError, asyncio.CancelledError):
            pass  # the last one: this process ends
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        verb = asked.pop("do")
        if verb == "write":
            return await self._write(**asked)
        if verb == "find":
            return {"line": self._place_of(asked["key"])}
        if verb == "count":
            return {"calls": self.drawn.total()}
        if verb == "tally":
            lines = [asdict(each) for each in self._lines]
            return {"lines": lines, "drawn": self.drawn}
        if verb == "release":
            self._released.set()
        elif verb == "end":
            self.ended.set()
        else:
            assert verb == "behave", verb
            self._moods = deque(asked["moods"])
            self._dice = None if asked["seed"] is None else random.Random(asked["seed"])
            self._released.clear()
        return {}

    def _mood(self) -> str:
        if self._moods:
            return self._moods.popleft()
        if self._dice is None:
            return "plain"
        return self._dice.choices(list(MOODS), list(MOODS.values()))[0]

    async def _write(
        self, key: str, workflow: str, row: str, once: bool, until_ms: int
    ) -> dict[str, Any]:
        line = Line(key, workflow, row)
        mood = self._mood()
        self.drawn[mood] += 1
        if mood == "cut":
            raise HangUp
        if mood == "late":
            landing = asyncio.ensure_future(self._land(line, once, until_ms))
            self._landing.add(landing)
            landing.add_done_callback(self._landing.discard)
            raise HangUp
        if mood == "slow":
            await asyncio.sleep(SLOW_S)
        self._apply(line, once, until_ms)
        if mood == "lost":
            raise HangUp
        if mood == "mute":
            await self.ended.wait()
            raise HangUp
        if mood == "held":
            await self._released.wait()
        return {"line": self._place_of(key)}

    async def _land(self, line: Line, once: bool, until_ms: int) -> None:
        await asyncio.sleep(LATE_S)
        self._apply(line, once, until_ms)

    def _apply(self, line: Line, once: bool, until_ms: int) -> None:
        is_known = once and self._place_of(line.key) is not None
        if not is_known and moment_ms() <= until_ms:
            self._lines.append(line)

    def _place_of(self, key: str) -> int | None:
        places = (place for place, line in enumerate(self._lines, 1) if line.key == key)
        return next(places, None)


async def main() -> None:
    """Serve until told to end, or until the process that started this is gone."""
    outside = Outside()
    server = await asyncio.start_server(outside.serve, "127.0.0.1", 0, limit=LINE_BYTES_MAX)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), outside.ended.set)  # its end is all that ever comes
    await outside.ended.wait()
    await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main())
