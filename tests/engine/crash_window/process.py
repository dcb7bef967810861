"""A host in a process of its own, which kills itself where it was told to.

Law 1: it dies by SIGKILL: nothing is closed, nothing is said, no `finally` runs.
Law 2: only what surrounds the host is hooked, the connector, the verbs of the store and the way
       into `next`; the host itself is the one that ships.

Started as a program it reads one order per line, gives each a process of its own, forked from
this one so that nothing is imported twice, and answers the exit status of each.

The places: `effect`, `resend` and `reconcile` in the connector; `next:early` and `next:recorded`
in the script's last step, before and after `applied` is committed; and any verb of the store,
`before` its transaction, `inside` it, when all of it is written and nothing is committed, or
`after` it. What a process that lived has seen is left in its folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from duly.connectors.base import Connector
from duly.env import Env
from duly.errors import RequestRefused
from duly.host import Host
from duly.rules.access import Step
from duly.rules.word import Status
from duly.store import Store
from duly.store.base import Transaction
from duly.testing import VirtualEnv, VirtualLoop
from tests.engine.crash_window.book import Book
from tests.engine.crash_window.script import INBOX, source

BOOK: Final = "book.jsonl"
SEEN: Final = "seen.json"
STORE: Final = "duly.db"
DAY_MS: Final = 86_400_000
LIFE_S: Final = 300  # a process that neither dies nor ends is ended, and its test is red
HAUNTED: Final = ("send", "send_again", "record", "succeed_run", "commit_run", "settle")
MUTATION_WORDS: Final = (
    "workflow",
    "tool",
    "args",
    "title",
    "key",
    "status",
    "result",
    "attempt",
)
MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
RUN_WORDS: Final = ("id", "retry_of", "phase", "status", "outcome")


@dataclass(frozen=True, slots=True)
class Flow:
    """A workflow to deploy, and the mails it gets."""

    name: str
    tool: str
    language: str = "javascript"
    mails: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process is to do: where to die, at the how-manieth time, and what else.

    In virtual time it serves for as long as `acts` say: `["pass", seconds]`; `["post", workflow,
    mail]`; a person's `["settle", workflow, answer, result]`, or `["settle_when_told", …]`: at
    once, and if that is refused, again at the moment the refusal names; or `["retry"]`, of
    whatever crashed too often. Without a `day` it drains in the time of the machine.
    """

    folder: str
    at: str | None = None
    nth: int = 1
    day: int | None = None
    flows: tuple[Flow, ...] = ()
    acts: tuple[tuple[Any, ...], ...] = ()


@dataclass(slots=True)
class Seen:
    """What a process that lived has seen at its end."""

    events: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    mutations: list[dict[str, Any]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    open_runs: dict[str, str] = field(default_factory=dict)
    strays: int = 0
    refusals: list[str] = field(default_factory=list)
    refused_at: list[str] = field(default_factory=list)


class Doom:
    """The plan of a process's end."""

    def __init__(self, at: str | None, nth: int) -> None:
        self._at = at
        self._nth = nth
        self._reached: Counter[str] = Counter()
        self.applied = asyncio.Event()

    def meet(self, place: str) -> None:
        """Die here, if this is the place and the time."""
        self._reached[place] += 1
        if place == self._at and self._reached[place] == self._nth:
            os.kill(os.getpid(), signal.SIGKILL)

    async def reach(self, place: str) -> None:
        """Be somewhere in a connector; calls that are to die together wait for the last one."""
        self.meet(place)
        if place == "effect:after":
            self.meet("out")
            if self._at == "out":
                await asyncio.Event().wait()

    def haunt(self, host: Host) -> None:
        """Hook what surrounds a host: its store, and the way into `next`."""
        parts = host._desk().parts
        for verb in HAUNTED:
            self._haunt_verb(parts.store, verb)
        opening = parts.sandbox.open

        def open_(loaded: Any, handler: str, step: Step, *rest: Any) -> Any:
            script = opening(loaded, handler, step, *rest)
            return _Watched(script, self._in_next) if step is Step.NEXT else script

        parts.sandbox.open = open_  # type: ignore[method-assign, assignment]

    async def _in_next(self) -> None:
        if self._at == "next:recorded":
            await self.applied.wait()
        self.meet("next:early")
        self.meet("next:recorded")

    def _haunt_verb(self, store: Store, name: str) -> None:
        verb = vars(Store)[name]

        async def call(*args: Any, **kwargs: Any) -> Any:
            def body(tx: Transaction) -> Any:
                answer = verb.body(tx, *args, **kwargs)
                self.meet(f"{name}:inside")
                return answer

            if name == "record" and self._at == "next:early":
                await asyncio.Event().wait()
            self.meet(f"{name}:before")
            answer = await store.backend.transact(body, verb.durability)
            self.meet(f"{name}:after")
            if name == "record":
                self.applied.set()
            return answer

        setattr(store, name, call)


class _Watched:
    """A script whose first turn is watched: it has run, and its host has not heard of it."""

    def __init__(self, script: Any, watch: Callable[[], Awaitable[None]]) -> None:
        self._script = script
        self._watch = watch

    async def __aenter__(self) -> _Watched:
        await self._script.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._script.__aexit__(*error)

    async def start(self) -> Any:
        turn = await self._script.start()
        await self._watch()
        return turn

    async def answer(self, call_id: int, value: Any) -> Any:
        return await self._script.answer(call_id, value)

    def waiting_outside(self) -> Any:
        return self._script.waiting_outside()


@asynccontextmanager
async def opened(orders: Orders, env: Env | None) -> AsyncIterator[Host]:
    """Open a doomed host on the folder's store and give it its workflows and mails."""
    folder = Path(orders.folder)
    doom = Doom(orders.at, orders.nth)
    book: Connector = Book(folder / BOOK, doom.reach)
    async with Host(f"sqlite:///{folder / STORE}", connectors=[book], env=env) as host:
        doom.haunt(host)
        for flow in orders.flows:
            await host.deploy(
                source(flow.language, name=flow.name, tool=flow.tool), by="test", grant=True
            )
            for mail in flow.mails:
                await post(host, flow.name, mail)
        yield host


async def post(host: Host, workflow: str, mail: str) -> None:
    """Let a mail come in."""
    await host.publish(workflow, INBOX, message_id=mail, title=f"Mail {mail}")


async def drain(orders: Orders) -> Seen:
    """Do what is due, in the time of the machine."""
    async with opened(orders, None) as host:
        await host.drain()
        return await look(host)


async def serve(orders: Orders, env: VirtualEnv, loop: VirtualLoop) -> Seen:
    """Serve in virtual time while the acts go by."""
    refusals: list[tuple[str, str]] = []
    async with opened(orders, env) as host:
        async with host.running():
            for verb, *words in orders.acts:
                if verb == "pass":
                    await env.sleep(words[0])
                    await loop.rest()
                elif verb == "post":
                    await post(host, *words)
                elif verb == "retry":
                    await retry(host)
                else:
                    refusals += await settle(host, env, *words, is_told=verb == "settle_when_told")
        seen = await look(host)
    seen.refusals = [sentence for sentence, _ in refusals]
    seen.refused_at = [moment for _, moment in refusals]
    return seen


async def settle(
    host: Host,
    env: VirtualEnv,
    workflow: str,
    answer: str,
    result: Any = None,
    *,
    is_told: bool = False,
) -> list[tuple[str, str]]:
    """Answer for the one indeterminate mutation of a workflow; say what was refused, and when."""
    (mutation,) = await host.mutations(workflow, status="indeterminate")
    try:
        await host.settle(mutation.id, answer, result, by="test")
    except RequestRefused as error:
        refused = (str(error), env.now().isoformat())
        if not is_told:
            return [refused]
        (named,) = MOMENT.findall(str(error))
        wait = datetime.fromisoformat(named) - env.now()
        await env.sleep(wait.total_seconds())
        return [refused, *await settle(host, env, workflow, answer, result)]
    return []


async def retry(host: Host) -> None:
    """Follow, as a person, every run that crashed too often to be followed by itself (R7)."""
    parts = host._desk().parts
    for workflow in await parts.store.list_workflows():
        left = (await parts.store.outlook(workflow.id)).open_run
        if left is not None and left.status == Status.CRASHED:
            await host.retry(left.run_id, by="test")


async def look(host: Host) -> Seen:
    """Write down what a person could see, and what the store holds open."""
    seen = Seen()
    store = host._desk().parts.store
    await store.backend.integrity_check(full=True)  # type: ignore[attr-defined]
    seen.strays = len(await store.list_strays())
    for workflow in await store.list_workflows():
        events = seen.events.setdefault(workflow.name, {})
        for event in await host.events(workflow.name, limit=1000):
            of_topic = events.setdefault(event.topic, {})
            of_topic[event.message_id] = {"status": event.status, "payload": event.payload}
        left = (await store.outlook(workflow.id)).open_run
        if left is not None:
            seen.open_runs[workflow.name] = left.status
    seen.mutations = [
        {name: getattr(each, name) for name in MUTATION_WORDS}
        for each in reversed(await host.mutations(limit=1000))
    ]
    seen.runs = [
        {name: getattr(each, name) for name in RUN_WORDS}
        for each in reversed(await host.runs(limit=1000))
    ]
    return seen


def live(order: str) -> None:
    """Do what one order says: live and leave a report, or die."""
    words = json.loads(order)
    words["flows"] = tuple(Flow(**each) for each in words["flows"])
    orders = Orders(**words)
    if orders.day is None:
        seen = asyncio.run(drain(orders))
    else:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualLoop)
            env = VirtualEnv(loop, start=datetime.now(UTC), seed=orders.day)
            env.jump(orders.day * DAY_MS)  # later than every process before, as restarts are
            seen = runner.run(serve(orders, env, loop))
            env.close()
    (Path(orders.folder) / SEEN).write_text(json.dumps(asdict(seen)), encoding="utf-8")


def main() -> None:
    """Give every order a process of its own, and answer how it ended."""
    for order in sys.stdin:
        process_id = os.fork()
        if process_id == 0:
            signal.alarm(LIFE_S)
            try:
                live(order)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(process_id, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    if os.environ.get("TEST_BREAK"):
        import tests.break_plugin  # noqa: F401  # a deliberate break breaks these processes, too
    main()
