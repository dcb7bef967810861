"""A program that forks while its host works: the child makes no change, and takes nothing away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 120

# The change is on its way, its next step is planned in the event loop, and the program forks.
PROGRAM = """
import asyncio, os, sys
import duly

SOURCE = '''
from duly import workflow

flow = workflow("flow", topics={"inbox": {"ingress": True}})

@flow.consumer("inbox")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("inbox", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {"reservations": [{"topic": "inbox", "ids": [pending[0]["message_id"]]}], "data": {}}

    async def mutate(self, ctx, prepared):
        await ctx.book.add()
'''

def say(text):
    os.write(1, (text + "\\n").encode())

class Book(duly.Connector):
    name = "book"

    def __init__(self):
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()

    @duly.mutation(risk="low")
    async def add(self, call):
        self.begun.set()
        await self.may_go_on.wait()
        await self.in_thread(say, "change by the " + ("child" if is_child else "parent"))

is_child = False

async def fork(host, book, leave):
    global is_child
    book.begun.clear()
    book.may_go_on.clear()
    await host.publish("flow", "inbox", title=f"One that {leave}s", message_id=leave)
    async with asyncio.timeout(60):
        await book.begun.wait()
    await book.in_thread(int)  # a thread is there that has nothing to do
    book.may_go_on.set()
    pid = os.fork()
    if pid == 0:
        is_child = True
        for verb in (host.workflows, host.drain, host.close):
            try:
                await verb()
            except duly.DulyError as error:
                say(f"{type(error).__name__} {'this host belongs to' in str(error)}")
        asyncio.run(book.in_thread(say, "a thread of the child's own"))
        if leave == "exit":
            sys.exit(0)
        return True
    _, status = os.waitpid(pid, 0)
    say(f"child: {os.waitstatus_to_exitcode(status)}")
    async with asyncio.timeout(60):
        while (await host.workflow("flow")).standing != "idle":
            await asyncio.sleep(0.01)
    return False

async def main():
    book = Book()
    async with duly.Host("sqlite:///" + sys.argv[1], connectors=[book]) as host:
        await host.deploy(duly.Source("python", SOURCE), grant=True)
        async with host.running():
            for leave in ("exit", "return"):
                if await fork(host, book, leave):
                    return
    say("closed")

asyncio.run(main())
"""


def test_a_child_of_a_working_host_makes_no_change_and_takes_nothing_away(tmp_path: Path) -> None:
    """H1, L1: whatever the event loop had planned is done by the parent alone, once."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "duly.db")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    refused = ["StoreForked True"] * 3
    own = "a thread of the child's own"
    once = [*refused, own, "child: 0", "change by the parent"]
    assert (done.stdout.split("\n"), done.stderr) == ([*once, *once, "closed", ""], "")
    assert done.returncode == 0
