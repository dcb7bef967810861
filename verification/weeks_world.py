"""The outside of three weeks: three mailboxes, a sheet, a network that comes and goes, a token.

Law 1  What arrived and what was done is counted here and nowhere else; no host can see the counts.
Law 2  Without a network nothing is sent, and what was under way loses its answer. Most of the time
       everything works.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from duly.connectors.base import Applied, Call, Connector, NotApplied, Unsure, mutation, read
from duly.errors import AuthNeeded, NotSent, Transient, UnknownOutcome
from duly.rules.access import Step
from duly.rules.value import Json
from duly.testing.crash import Crash
from duly.testing.dice import Dice
from verification import moves
from verification.moves import Each, Move, Return, Value, When, ref
from verification.scripted import Scripted

PAGE: Final = 200
EVERY = "5m"  # how often a mailbox is looked at
CALL_S: Final = 0.2  # how long a call takes
LAG_S: Final = 20.0
ODD = 0.004  # so many changes lose their answer on an ordinary day
MAILBOXES: Final = ("post", "news", "shop")
BILL: Final = "bill"  # what is sent here, a person has agreed to
DIGEST: Final = "digest"
INVOICES: Final = "invoices"
INPUT: Final = "mail"
ZONE: Final = "Europe/Berlin"


@dataclass(slots=True)
class World:
    """Everything outside the host, through all its lives."""

    now_s: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    dice: Dice
    mails: dict[str, list[str]] = field(default_factory=lambda: {each: [] for each in MAILBOXES})
    came_at: dict[str, float] = field(default_factory=dict)  # by mail, in seconds of the calendar
    done_at: dict[str, float] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Json] = field(default_factory=dict)
    is_online: bool = True
    is_signed_in: bool = True
    lost: asyncio.Event = field(default_factory=asyncio.Event)  # rings when connections break

    def deliver(self, box: str, at_s: float) -> None:
        """Let a mail arrive."""
        name = f"{box}-{len(self.mails[box])}"
        self.mails[box].append(name)
        self.came_at[name] = at_s

    def break_connections(self) -> None:
        """Let everything that is under way lose its answer."""
        self.lost.set()
        self.lost = asyncio.Event()

    def happen(self, call: Call) -> Json:
        """Make a change; a call that is made twice is two changes."""
        for each in _ids(call):
            self.effects[str(each)] += 1
            self.done_at[str(each)] = self.now_s()
        self.rows[call.key] = {"row": len(self.rows) + 1}
        return self.rows[call.key]


def _ids(call: Call) -> list[Json]:
    ids = call.args["ids"]
    assert isinstance(ids, list), ids
    return ids


class Box(Connector):
    """One mailbox with its sheet, for one life of the host."""

    def __init__(self, name: str, world: World, is_dead: Callable[[], bool]) -> None:
        self.name = name
        self._world = world
        self._is_dead = is_dead

    @read(timeout_s=30)
    async def fetch(self, after: int) -> Json:
        """List what arrived after a place in the mailbox."""
        await self._wait()
        if not self._world.is_online:
            raise Transient("no connection")
        self._check_token()
        page = self._world.mails[self.name][after : after + PAGE]
        items: list[Json] = [{"id": each} for each in page]
        return {"items": items, "cursor": after + len(page)}

    @mutation(noun="row", lag_s=LAG_S, timeout_s=10)
    async def append(self, call: Call, ids: list[str]) -> Json:
        """Append a row."""
        if not self._world.is_online:
            raise NotSent("no connection")
        self._check_token()
        is_odd = self._world.dice.happens(ODD)
        lost = self._world.lost
        await self._wait()
        if is_odd and self._world.dice.happens(0.5):
            raise UnknownOutcome("the connection broke")  # and nothing happened
        result = self._world.happen(call)
        if is_odd or lost.is_set():
            raise UnknownOutcome("the connection broke")
        return result

    @append.reconcile
    async def append_happened(self, call: Call) -> Applied | NotApplied | Unsure:
        """Look for the row of this very call."""
        await self._wait()
        if not self._world.is_online:
            raise Transient("no connection")
        if call.key in self._world.rows:
            return Applied(self._world.rows[call.key])
        return NotApplied()

    async def _wait(self) -> None:
        await self._world.sleep(CALL_S)
        if self._is_dead():
            raise Crash

    def _check_token(self) -> None:
        if self.name == MAILBOXES[0] and not self._world.is_signed_in:
            raise AuthNeeded("the token is no longer valid")


# -- What is deployed -----------------------------------------------------------------------------


def script(name: str, version: int) -> Scripted:
    """Write a workflow; another version has another title for its changes."""
    tool = tools(name)[-1]
    declaration: dict[str, Value] = {
        "name": name,
        "topics": {INPUT: {"ingress": True}},
        "consumers": {
            "file": {"subscribe": [INPUT], "prepare": "function", "mutate": "function"},
        },
    }
    steps: dict[str, dict[Step, tuple[Move, ...]]] = {"file": _file(tool, f"Add a row, v{version}")}
    if name in MAILBOXES:
        declaration["producers"] = {
            "look": {"schedule": {"interval": EVERY}, "handler": "function"}
        }
        steps["look"] = {Step.PRODUCE: _look(name)}
    if name == DIGEST:
        cron: Value = {"cron": "30 2 * * *", "timezone": ZONE}
        declaration["producers"] = {"daily": {"schedule": cron, "handler": "function"}}
        steps["daily"] = {Step.PRODUCE: _daily()}
    return Scripted(declaration=declaration, steps=steps)


def tools(name: str) -> tuple[str, ...]:
    """Return the tools a workflow uses."""
    if name in MAILBOXES:
        return f"{name}.fetch", f"{name}.append"
    return (f"{BILL if name == INVOICES else MAILBOXES[1]}.append",)


def _file(tool: str, title: str) -> dict[Step, tuple[Move, ...]]:
    ids = ref("pending.*.id")
    chosen: Value = {
        "reservations": [{"topic": INPUT, "ids": ids}],
        "data": {"ids": ids},
        "ui": {"title": title},
    }
    return {
        Step.PREPARE: (
            moves.Call("peek", (INPUT,), {"limit": 1}, into="pending"),
            When("pending", (Return(chosen),), (Return({"reservations": []}),)),
        ),
        Step.MUTATE: (moves.Call(tool, (), {"ids": ref("prepared.data.ids")}),),
    }


def _look(box: str) -> tuple[Move, ...]:
    def ask(after: Value) -> tuple[Move, ...]:
        return (moves.Call(f"{box}.fetch", (), {"after": after}, into="page"),)

    named: dict[str, Value] = {"message_id": ref("mail.id"), "title": ref("mail.id"), "payload": {}}
    publish = moves.Call("publish", (INPUT,), named)
    return (
        When("state", ask(ref("state.cursor")), ask(0)),
        Each("page.items", "mail", (publish,)),
        Return({"cursor": ref("page.cursor")}),
    )


def _daily() -> tuple[Move, ...]:
    """Publish what the count says, so that a day that runs twice is seen."""
    named: dict[str, Value] = {"message_id": moves.NOW, "title": "The digest", "payload": {}}
    return (moves.Call("publish", (INPUT,), named),)
