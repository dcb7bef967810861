"""A host whose scripts wait: twenty workflows for a slow tool, one for nothing."""

from __future__ import annotations

import asyncio

import duly
from duly.rules.source import Language, Source
from duly.rules.word import Status
from duly.sandbox.slot import RUNNING_MAX
from duly.testing import Stage
from tests.sandbox.hostile.attack import Program, write

WAITING = 20
WAIT_S = 30
SLOW = {
    Language.JAVASCRIPT: Program("return await ctx.clerk.think()"),
    Language.PYTHON: Program("return await ctx.clerk.think()"),
}


class Clerk(duly.Connector):
    """Takes its time, and knows who waits for it and when the hurried one came."""

    name = "clerk"

    def __init__(self) -> None:
        self.waiting = 0
        self.all_wait = asyncio.Event()
        self.is_asked = asyncio.Event()

    @duly.read
    async def ask(self) -> None:
        self.is_asked.set()

    @duly.read(timeout_s=2 * WAIT_S)
    async def think(self) -> int:
        self.waiting += 1
        if self.waiting == WAITING:
            self.all_wait.set()
        await asyncio.sleep(WAIT_S)
        self.waiting -= 1
        return 1


def source(number: int) -> Source:
    language = list(Language)[number % 2]
    return write(language, SLOW[language], {}, f"slow-{number}")


async def test_twenty_workflows_wait_and_another_one_runs_at_once(duly_world: Stage) -> None:
    """X2, F6: thirty virtual seconds for a tool; in none of them does the twenty-first wait.

    They are more than there are slots to run in, in both languages.
    """
    assert WAITING > RUNNING_MAX
    clerk = Clerk()
    host = await duly_world.host(connectors=[clerk])
    for number in range(WAITING):
        await host.deploy(source(number), by="me", grant=True)
    loop = asyncio.get_running_loop()
    async with host.running():
        await clerk.all_wait.wait()
        began_s = loop.time()
        hurried = write("python", Program("await ctx.clerk.ask()"), {}, "hurried")
        await host.deploy(hurried, by="me", grant=True)
        await clerk.is_asked.wait()
        assert loop.time() - began_s < 1
        assert clerk.waiting == WAITING
        await duly_world.advance(WAIT_S + 1)
    for number in range(WAITING):
        (run,) = await host.runs(f"slow-{number}")
        assert run.status == Status.COMMITTED
