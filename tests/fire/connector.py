"""The connector to the outside: one connection per call, and no guess about what became of it.

Law: a call that was written and not answered is unknown; only one that was never written is not.

`asked` can be asked what happened, `silent` cannot, `keyed` is done once under its key. `patient`
is `asked` without any hurry: a test that needs its call to be out has all the time it takes.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, Final

import duly
from tests.fire.outside import LANDING_S, LINE_BYTES_MAX, moment_ms

LAG_S: Final = LANDING_S + 0.1
TIMEOUT_S: Final = 0.6
PATIENCE_S: Final = 300.0


class Book(duly.Connector):
    """Writes lines into a book that another process keeps."""

    name = "book"

    def __init__(self, port: int) -> None:
        self._port = port

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def asked(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row)

    @asked.reconcile
    async def asked_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return await self._find(call)

    @duly.mutation(lag_s=PATIENCE_S, timeout_s=PATIENCE_S)
    async def patient(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row, landing_s=PATIENCE_S)

    @patient.reconcile
    async def patient_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        return await self._find(call)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S)
    async def silent(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row)

    @duly.mutation(lag_s=LAG_S, timeout_s=TIMEOUT_S, idempotent=True, key_lifetime_s=math.inf)
    async def keyed(self, call: duly.Call, row: str) -> dict[str, int]:
        return await self._write(call, row, once=True)

    async def _find(self, call: duly.Call) -> duly.Applied | duly.NotApplied:
        answer = await exchange(self._port, {"do": "find", "key": call.key})
        line = answer["line"]
        return duly.NotApplied() if line is None else duly.Applied({"line": line})

    async def _write(
        self, call: duly.Call, row: str, *, once: bool = False, landing_s: float = LANDING_S
    ) -> dict[str, int]:
        asked = {"do": "write", "key": call.key, "workflow": call.workflow, "row": row}
        until_ms = moment_ms() + round(landing_s * 1000)
        answer = await exchange(self._port, {**asked, "once": once, "until_ms": until_ms})
        if answer["line"] is None:
            raise duly.UnknownOutcome("the book says that the line came too late")
        return {"line": answer["line"]}


async def exchange(port: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask the outside one thing."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES_MAX)
    except OSError as error:
        raise duly.NotSent(f"nobody listens: {error}") from error
    try:
        writer.write(json.dumps(asked).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise duly.UnknownOutcome(f"the line went dead: {error}") from error
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        raise duly.UnknownOutcome("the line went dead")
    answer: dict[str, Any] = json.loads(line)
    return answer
