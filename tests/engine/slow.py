"""Connectors whose sends return when the test says so, and a host that has begun one."""

from __future__ import annotations

import asyncio
from typing import Any

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, mutation
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Stage
from tests.engine.stand import CONSUMER, Play, consumer, flow, opened
from verification import moves

TIMEOUT_S = 30
LAG_S = 60
OVERDUE_S = TIMEOUT_S + LAG_S
HANGS = f"slow.change is still out: its timeout of {TIMEOUT_S} s and its lag of {LAG_S} s"


class Slow(Connector):
    """Its sends end when the test says so, whatever cancels them."""

    name = "slow"

    def __init__(self, verdict: Any = None) -> None:
        self.verdict = verdict or NotApplied()
        self.asks: list[float] = []
        self.sends: list[asyncio.Event] = []
        self.ends: dict[int, Exception] = {}
        self.made = 0

    @mutation(timeout_s=TIMEOUT_S, lag_s=LAG_S)
    async def change(self, call: Call) -> str:
        return await self._change()

    @change.reconcile
    async def change_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        self.asks.append(asyncio.get_running_loop().time())
        answer: Applied | NotApplied | Unsure = self.verdict
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _change(self) -> str:
        ended = asyncio.Event()
        self.sends.append(ended)
        number = len(self.sends)
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        if number in self.ends:
            raise self.ends[number]
        self.made += 1
        return "done"

    async def end(self, number: int = 1, error: Exception | None = None) -> None:
        """Let a send return, or raise this."""
        if error is not None:
            self.ends[number] = error
        self.sends[number - 1].set()
        for _ in range(50):
            await asyncio.sleep(0)


class Keyed(Slow):
    """The same with a key, so that an unknown call is sent again."""

    name = "slow"

    @mutation(timeout_s=TIMEOUT_S, lag_s=LAG_S, idempotent=True, key_lifetime_s=86_400)
    async def change(self, call: Call) -> str:
        return await self._change()


class Mute(Slow):
    """The same without a way to ask."""

    name = "slow"

    @mutation(timeout_s=TIMEOUT_S, lag_s=LAG_S)
    async def change(self, call: Call) -> str:
        return await self._change()


async def hanging(stage: Stage, slow: Slow) -> Play:
    """A host that has begun to send a change that does not return."""
    play = await opened(stage, connectors=(slow,))
    await play.deploy(flow({CONSUMER: consumer(mutate=(moves.Call("slow.change"),))}))
    await play.publish("a")
    return play


async def found(play: Play) -> tuple[str, str]:
    """How the newest row and the run that holds it stand."""
    row = await play.row()
    return row.status, (await play.store.get_run(row.held_by)).status


UNKNOWN = (Row.NEEDS_RECONCILE, Status.PAUSED_RECONCILIATION)
OPEN = (Row.INDETERMINATE, Status.PAUSED_RECONCILIATION)
DONE = (Row.APPLIED, Status.COMMITTED)
