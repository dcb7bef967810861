"""A connector of real threads: it blocks, and goes on though its caller has long stopped waiting.

Law 1: a request that has left takes effect within `LANDING_S` or never: it carries the moment. So
       `lag_s` is true for what cannot be seen. What can be seen, the thread or the task that has
       not sent yet, is for the host to wait for, however long it takes (L6).
Law 2: how long a send blocks before it leaves is a function of its key and attempt. Some block for
       longer than their timeout, the lag and a restart together.

`threaded` uses the connector's own thread, `handed` `asyncio.to_thread`, `tasked` a task of its
own; they can be asked. `silent` cannot be asked, `keyed` is done once under its key.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import time
from typing import Any, Final

import duly
from tests.fire.outside import LANDING_S, moment_ms

LAG_S: Final = LANDING_S + 0.1
TIMEOUT_S: Final = 0.3
BLOCKS_S: Final = ((0.0, 0.02), (0.1, 0.25), (1.6, 2.8))  # at most: at once, slow, far too slow
ODDS: Final = (5, 2, 3)
ANSWER_S: Final = 5.0


class Threads(duly.Connector):
    """Writes lines into the book of the outside, and blocks."""

    name = "book"

    def __init__(self, port: int) -> None:
        self._port = port

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def threaded(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self.in_thread(self._write, call, row)

    @threaded.reconcile
    async def threaded_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return await self.in_thread(self._find, call)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def handed(self, call: duly.Call, row: str) -> dict[str, int]:
        return await asyncio.to_thread(self._write, call, row)

    @handed.reconcile
    async def handed_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return await asyncio.to_thread(self._find, call)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def tasked(self, call: duly.Call, row: str) -> dict[str, int]:
        return await asyncio.shield(asyncio.create_task(self._write_later(call, row)))

    @tasked.reconcile
    async def tasked_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return await self.in_thread(self._find, call)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def silent(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self.in_thread(self._write, call, row)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S, idempotent=True, key_lifetime_s=math.inf)
    async def keyed(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self.in_thread(self._write, call, row, once=True)

    async def _write_later(self, call: duly.Call, row: str) -> dict[str, int]:
        await asyncio.sleep(block_s(call))
        return self._write(call, row, waits=False)

    def _write(
        self, call: duly.Call, row: str, *, once: bool = False, waits: bool = True
    ) -> dict[str, int]:
        if waits:
            time.sleep(block_s(call))
        asked = {"do": "write", "key": call.key, "workflow": call.workflow, "row": row}
        until_ms = moment_ms() + round(LANDING_S * 1000)
        answer = exchange(self._port, {**asked, "once": once, "until_ms": until_ms})
        if answer["line"] is None:
            raise duly.UnknownOutcome("the book says that the line came too late")
        return {"line": answer["line"]}

    def _find(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        line = exchange(self._port, {"do": "find", "key": call.key})["line"]
        return duly.NotApplied() if line is None else duly.Applied({"line": line})


def block_s(call: duly.Call) -> float:
    """Say how long this send blocks before it leaves."""
    dice = random.Random(f"{call.key} {call.attempt}")
    return dice.uniform(*dice.choices(BLOCKS_S, ODDS)[0])


def exchange(port: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask the outside one thing, and block until it answers."""
    try:
        line = socket.create_connection(("127.0.0.1", port), ANSWER_S)
    except OSError as error:
        raise duly.NotSent(f"the book does not listen: {error}") from error
    with line:
        try:
            line.sendall(json.dumps(asked).encode() + b"\n")
            with line.makefile() as answers:
                heard = answers.readline()
        except OSError as error:
            raise duly.UnknownOutcome(f"the line went dead: {error}") from error
    if not heard.endswith("\n"):
        raise duly.UnknownOutcome("the line went dead")
    answer: dict[str, Any] = json.loads(heard)
    return answer
