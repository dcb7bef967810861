"""A host in a process of its own: the one that ships, in the time of the machine.

Law 1: nothing in it is hooked. It is killed, stopped and starved from outside, whenever the parent
       likes, and says nothing about it.
Law 2: it acknowledges a publish when `Host.publish` has returned, never before.
Law 3: a process that a killed host leaves behind becomes a child of the process that forked the
       host, which counts them.

Started as a program it reads one word per line: an order to start a host, answered by its process
id; `wait`, by its exit status; `left`, by the processes still there. A host is told what to do
over a connection to the parent and ends when the parent hangs up.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import contextlib
import ctypes
import faulthandler
import importlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly import loop
from duly.config import Backoff, Limits, Policy
from duly.errors import DulyError, RequestRefused, StoreError
from duly.host import Host
from duly.rules import ledger
from duly.rules.word import MutationStatus, Status
from tests.engine.crash_window.script import INBOX, source
from tests.fire.connector import Book, exchange
from tests.fire.outside import LANDING_S, LINE_BYTES_MAX

STORE: Final = "duly.db"
LIFE_S: Final = 600  # a process that nobody ends, ends
LEAVE_S: Final = 60  # a forked child that has not left by then never will
PAGE: Final = 1000
REST_MS: Final = 300
PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class Flow:
    """A workflow to deploy if it is not there yet."""

    name: str
    tool: str
    language: str = "javascript"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a host is to be: where its store lies, who is outside, who is its parent."""

    folder: str
    outside: int
    parent: int
    flows: tuple[Flow, ...] = ()
    asks: int = 5  # how often it asks about an unknown call before it asks a person


def policy(orders: Orders) -> Policy:
    """Wait as a host does, only for a shorter time."""
    return Policy(
        limits=Limits(reconcile_s=1),
        retries=Backoff(first_s=0.05, longest_s=0.2),
        reconcile=Backoff(first_s=0.05, longest_s=0.4, attempts=orders.asks),
    )


class Voice(logging.Handler):
    """Tells the parent what is logged."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say({"log": record.getMessage()})


class Person:
    """Answers for what the host cannot know, by what the outside has counted."""

    def __init__(self, host: Host, outside: int) -> None:
        self._host = host
        self._outside = outside

    async def attend(self) -> int:
        """See to every run that waits for a person; answer how many there were."""
        parts = self._host._desk().parts
        seen = 0
        for workflow in await parts.store.list_workflows():
            left = (await parts.store.outlook(workflow.id)).open_run
            if left is None:
                continue
            row = await parts.store.get_run(left.run_id)
            with contextlib.suppress(
                RequestRefused, StoreError
            ):  # another was faster, or it is early
                if left.row == MutationStatus.INDETERMINATE:
                    seen += 1
                    await self._settle(workflow.name)
                elif row.state.status in (Status.CRASHED, Status.PAUSED_TRANSIENT) and (
                    left.due_at is None
                ):
                    seen += 1
                    await self._host.retry(left.run_id, by="test")
        return seen

    async def _settle(self, workflow: str) -> None:
        (mutation,) = await self._host.mutations(workflow, status="indeterminate")
        await asyncio.sleep(LANDING_S)  # then whatever was on its way has landed, or never will
        found = await exchange(self._outside, {"do": "find", "key": mutation.key})
        if found["line"] is None:
            await self._host.settle(mutation.id, "did_not_happen", by="test")
        else:
            await self._host.settle(mutation.id, "happened", {"line": found["line"]}, by="test")


async def look(host: Host) -> dict[str, Any]:
    """Say what a person could see, and what the store holds open."""
    store = host._desk().parts.store
    seen: dict[str, Any] = {"events": {}, "open": {}, "mutations": [], "runs": []}
    seen["strays"] = len(await store.list_strays())
    for workflow in await store.list_workflows():
        left = (await store.outlook(workflow.id)).open_run
        if left is not None:
            seen["open"][workflow.name] = left.status
        events: dict[str, Any] = {}
        seen["events"][workflow.name] = events
        after = -1
        while page := await host.events(workflow.name, limit=PAGE, after=after):
            after = page[-1].seq
            for event in page:
                of_topic = events.setdefault(event.topic, {})
                of_topic[event.message_id] = [event.status, event.payload]
    before: str | None = None
    words = ("workflow", "args", "key", "status", "result", "attempt")
    while mutations := await host.mutations(limit=PAGE, before=before):
        before = mutations[-1].id
        seen["mutations"] += [{word: getattr(each, word) for word in words} for each in mutations]
    before = None
    while runs := await host.runs(limit=PAGE, before=before):
        before = runs[-1].id
        seen["runs"] += [[each.status, each.phase] for each in runs]
    return seen


class Child:
    """One host and its line to the parent."""

    def __init__(
        self, orders: Orders, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._orders = orders
        self._reader = reader
        self._writer = writer
        self._doing: set[asyncio.Task[None]] = set()

    def say(self, words: dict[str, Any]) -> None:
        self._writer.write(json.dumps(words).encode() + b"\n")

    async def live(self) -> None:
        """Open a host, serve, and do what the parent says until it hangs up."""
        logging.getLogger("duly").addHandler(Voice(self.say))
        url = f"sqlite:///{Path(self._orders.folder) / STORE}"
        book = Book(self._orders.outside)
        host = Host(url, connectors=[book], policy=policy(self._orders))
        try:
            await host.open()
        except DulyError as error:
            self.say({"refused": str(error), "kind": type(error).__name__})
            await self._writer.drain()
            return
        try:
            await self._deploy(host)
            async with host.running():
                self.say({"ready": True})
                async for asked in self._asked():
                    task = asyncio.ensure_future(self._do(host, asked))
                    self._doing.add(task)
                    task.add_done_callback(self._doing.discard)
                for task in tuple(self._doing):
                    task.cancel()
        finally:
            await host.close()

    async def _deploy(self, host: Host) -> None:
        there = {each.name for each in await host.workflows()}
        for flow in self._orders.flows:
            if flow.name not in there:
                made = source(flow.language, name=flow.name, tool=flow.tool)
                await host.deploy(made, by="test", grant=True)

    async def _asked(self) -> AsyncIterator[dict[str, Any]]:
        while line := await self._reader.readline():
            asked: dict[str, Any] = json.loads(line)
            if asked["do"] == "close":
                return
            yield asked

    async def _do(self, host: Host, asked: dict[str, Any]) -> None:
        try:
            answer = await self._answer(host, asked)
        except DulyError as error:
            answer = {"error": str(error), "kind": type(error).__name__}
        self.say({"id": asked["id"], **answer})

    async def _answer(self, host: Host, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["do"] == "publish":
            workflow, mail = asked["workflow"], asked["mail"]
            title = f"Mail {mail}"
            word = await host.publish(workflow, INBOX, message_id=mail, title=title, by="test")
            return {"acknowledged": word}
        if asked["do"] == "attend":
            return {"attended": await Person(host, self._orders.outside).attend()}
        assert asked["do"] == "look", asked
        return await look(host)


async def live(orders: Orders) -> None:
    """Be a host until the parent hangs up."""
    loop.REST_MS = REST_MS  # type: ignore[misc]  # a test does not rest for ten seconds
    reader, writer = await asyncio.open_connection("127.0.0.1", orders.parent, limit=LINE_BYTES_MAX)
    try:
        await Child(orders, reader, writer).live()
    finally:
        writer.close()


def start(orders: Orders) -> int:
    """Fork a host; answer its process id."""
    process_id = os.fork()
    if process_id:
        return process_id
    signal.alarm(LIFE_S)
    try:
        asyncio.run(live(orders))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def serve(folder: str) -> int:
    """Fork a `duly serve` of the project in a folder; answer its process id.

    On SIGUSR1 it forks, as a program may, and the child ends by itself.
    """
    command = importlib.import_module("duly.faces.cli").duly  # imported once, before the fork
    importlib.import_module("duly.faces.cli.serve")
    process_id = os.fork()
    if process_id:
        return process_id
    signal.alarm(LIFE_S)
    status = 1
    try:
        with (Path(folder) / "serve.log").open("ab", buffering=0) as log:
            for target in (1, 2):
                os.dup2(log.fileno(), target)
        sys.path.insert(0, folder)
        loop.REST_MS = REST_MS  # type: ignore[misc]
        ledger.GRACE_MS = REST_MS  # type: ignore[misc]
        signal.signal(signal.SIGUSR1, lambda *_: fork_soon())
        faulthandler.register(signal.SIGUSR2)  # so that one that hangs can say where
        command(["--project", folder, "serve", "--verbose", "--no-page"], standalone_mode=True)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else status
    except BaseException:
        traceback.print_exc()
    finally:
        # As the interpreter does: threads that are not daemons are waited for.
        threading._shutdown()  # type: ignore[attr-defined]
        concurrent.futures.thread._python_exit()
        os._exit(status)


def fork_soon() -> None:
    """Fork between two turns of the loop; within one, a lock may be held that fork wants."""
    with contextlib.suppress(RuntimeError):  # it has not begun yet, or is over
        asyncio.get_running_loop().call_soon_threadsafe(fork_and_leave)


def fork_and_leave() -> None:
    """Fork; the child leaves as a program does, so everything it inherited is unwound in it."""
    if os.fork() == 0:
        signal.alarm(LEAVE_S)
        sys.exit(0)


def reap(statuses: dict[int, int], *, until: int | None = None) -> bool:
    """Note how processes ended, waiting for one if told to; answer whether any is left."""
    while until is None or until not in statuses:
        try:
            process_id, status = os.waitpid(until or -1, 0 if until else os.WNOHANG)
        except ChildProcessError:
            return False
        if process_id == 0:
            return True
        statuses[process_id] = os.waitstatus_to_exitcode(status)
    return True


def main() -> None:
    """Start hosts, and say what became of them and theirs."""
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    statuses: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        answer: object
        if asked["do"] == "start":
            words = asked["orders"]
            flows = tuple(Flow(**each) for each in words.pop("flows"))
            answer = start(Orders(**words, flows=flows))
        elif asked["do"] == "serve":
            answer = serve(asked["folder"])
        elif asked["do"] == "wait":
            reap(statuses, until=asked["process"])
            answer = statuses[asked["process"]]
        else:
            answer = reap(statuses)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if os.environ.get("TEST_BREAK"):
        import tests.break_plugin  # noqa: F401  # a deliberate break breaks these processes, too
    main()
