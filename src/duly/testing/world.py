"""The outside, for tests: it counts what really happened, which the engine cannot see.

Law 1: an effect is recorded where it happens, never where it was asked for or answered.
Law 2: a request that has left is no longer ours: a caller that stops waiting, or crashes, does not
       call it back. It lands when its fault says.
Law 3: reconcile answers by the truth, found by the call's key, unless the test plans otherwise.

    world = World(env)
    sheet = world.sheet()
    world.plan("sheets.append_row", Fault.TIMEOUT_AFTER)
    ...
    assert world.count("sheets.append_row") == 1
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from duly.connectors.base import (
    Applied,
    Call,
    Connector,
    Mutation,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.errors import ConfigError
from duly.rules.value import Json
from duly.testing import fault as faults
from duly.testing.env import VirtualEnv
from duly.testing.fault import Effect, Fault, FaultAnswer

Operation = Callable[..., Any]
Act = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Happened:
    """One change of the outside: by which tool, with what, under which key, when."""

    tool: str
    args: Mapping[str, Json]
    key: str
    at: datetime
    result: Json = None


class World:
    """Everything beyond the host, with its own record of what was done to it."""

    def __init__(self, env: VirtualEnv) -> None:
        self.env = env
        self.connectors: list[Connector] = []
        self.calls: list[str] = []
        self._happened: list[Happened] = []
        self._plans: defaultdict[str, deque[Fault]] = defaultdict(deque)
        # Of two calls under one key the second waits for what becomes of the first.
        self._doors: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._landing: set[asyncio.Task[Any]] = set()

    @property
    def effects(self) -> tuple[Happened, ...]:
        """Every change of the outside, in the order in which it happened."""
        return tuple(self._happened)

    def count(self, tool: str | None = None, key: str | None = None) -> int:
        """Count the changes: all, those of one tool, or those under one key."""
        return sum(tool in (None, each.tool) and key in (None, each.key) for each in self._happened)

    def plan(
        self, tool: str, *coming: Fault, reconcile: tuple[Fault, ...] | list[Fault] = ()
    ) -> None:
        """Say what the coming calls of a tool meet, one each; after them all is well for ever.

        world.plan("sheets.append_row", Fault.NOT_SENT, Fault.AMBIGUOUS, reconcile=[Fault.UNSURE])
        """
        faults.check_plan(tool, coming)
        faults.check_plan(tool, tuple(reconcile), is_reconcile=True)
        self._plans[tool].extend(coming)
        self._plans[_asking(tool)].extend(reconcile)

    def connector(
        self,
        name: str,
        *,
        reads: Mapping[str, Operation] | None = None,
        mutations: Mapping[str, Operation] | None = None,
        reconcile: bool = True,
        idempotent: bool = False,
        key_lifetime_s: float = math.inf,
        lag_s: float = 60,
        timeout_s: float = 30,
        risk: Literal["low", "medium", "high"] = "medium",
        noun: str | None = None,
    ) -> Connector:
        """Make a connector out of plain functions; their parameters are the tool's.

        world.connector("chat", mutations={"post": lambda channel, text: {"ok": True}})

        A mutation's function returns the result; that the change happened is recorded here.
        """
        methods: dict[str, Any] = {"name": name}
        for tool, operation in (reads or {}).items():
            methods[tool] = read(timeout_s=timeout_s)(self._reader(f"{name}.{tool}", operation))
        for tool, operation in (mutations or {}).items():
            changing: Mutation[Connector, ..., Any] = mutation(
                risk=risk,
                noun=noun,
                lag_s=lag_s,
                timeout_s=timeout_s,
                idempotent=idempotent,
                key_lifetime_s=key_lifetime_s if idempotent else None,
            )(self._changer(f"{name}.{tool}", operation, is_idempotent=idempotent))
            if reconcile:
                methods[f"{tool}_happened"] = changing.reconcile(self._asker(f"{name}.{tool}"))
            methods[tool] = changing
        made: Connector = type(name.title(), (Connector,), methods)()
        self.connectors.append(made)
        return made

    def mailbox(self, mails: int | list[dict[str, Json]] = 0, *, name: str = "gmail") -> Mailbox:
        """Make a mailbox that scripts search: `gmail.search(query="", after=None)`."""
        box = Mailbox(self)
        for mail in [{}] * mails if isinstance(mails, int) else mails:
            box.deliver(**mail)
        self.connector(name, reads={"search": box.search})
        return box

    def sheet(self, *, name: str = "sheets", **options: Any) -> Sheet:
        """Make a table that scripts append rows to: `sheets.append_row(spreadsheet_id, values)`."""
        sheet = Sheet(self, f"{name}.append_row")
        self.connector(name, mutations={"append_row": sheet.append_row}, noun="row", **options)
        return sheet

    # What the connectors of this world do.

    def _reader(self, tool: str, operation: Operation) -> Any:
        async def reading(self: Connector, **args: Json) -> Any:
            async def look() -> Any:
                return await _call(operation, args)

            return await world._meet(tool, look)

        world = self
        return _dress(reading, tool, operation, ())

    def _changer(self, tool: str, operation: Operation, *, is_idempotent: bool) -> Any:
        async def changing(self: Connector, call: Call, **args: Json) -> Any:
            async def change() -> Any:
                return await world._change(call, tool, operation, args, is_idempotent=is_idempotent)

            return await world._meet(tool, change)

        world = self
        return _dress(changing, tool, operation, ("call",))

    def _asker(self, tool: str) -> Any:
        async def asking(self: Connector, call: Call) -> Verdict:
            fault = world._next_fault(_asking(tool))
            if fault.answer is FaultAnswer.UNSURE:
                return Unsure("planned")
            found = world._find(tool, call.key)
            truth: Verdict = NotApplied() if found is None else Applied(found.result)
            if fault.answer is FaultAnswer.NOT_APPLIED:
                return NotApplied()
            if fault.answer is FaultAnswer.WRONG:
                return Applied() if found is None else NotApplied()

            async def look() -> Any:
                return truth

            verdict: Verdict = await world._carry_out(fault, tool, look)
            return verdict

        world = self
        asking.__name__ = asking.__qualname__ = f"{tool.partition('.')[2]}_happened"
        return asking

    async def _change(
        self,
        call: Call,
        tool: str,
        operation: Operation,
        args: Mapping[str, Json],
        *,
        is_idempotent: bool,
    ) -> Any:
        async with self._doors[tool, call.key] if is_idempotent else nullcontext():
            if is_idempotent and (known := self._find(tool, call.key)) is not None:
                return known.result
            result = await _call(operation, args)
            self._happened.append(Happened(tool, dict(args), call.key, self.env.now(), result))
        return result

    def _find(self, tool: str, key: str) -> Happened | None:
        return next((each for each in self._happened if (each.tool, each.key) == (tool, key)), None)

    def _next_fault(self, tool: str) -> Fault:
        self.calls.append(tool)
        plan = self._plans[tool]
        return plan.popleft() if plan else Fault.OK

    async def _meet(self, tool: str, act: Act) -> Any:
        return await self._carry_out(self._next_fault(tool), tool, act)

    async def _carry_out(self, fault: Fault, tool: str, act: Act) -> Any:
        """Let the effect happen when the fault says, and tell the caller what it says."""
        result: Any = None
        if fault.effect is Effect.AT_ONCE:
            result = await act()
        elif fault.effect is Effect.LATER:
            landing = self._land(tool, fault.seconds or 0, act)
            if fault.answer is FaultAnswer.RESULT:
                # The caller may go; the request is on its way all the same.
                result = await asyncio.shield(landing)
        if fault.answer is FaultAnswer.RESULT:
            return result
        if fault.answer is FaultAnswer.MALFORMED:
            return object()
        if fault.answer is FaultAnswer.CRASH:
            self.env.crash()  # and what is dead hears no answer
        if fault.answer in (FaultAnswer.NOTHING, FaultAnswer.CRASH):
            await asyncio.get_running_loop().create_future()
        raise faults.trouble(fault, tool)

    def _land(self, tool: str, seconds: float, act: Act) -> asyncio.Task[Any]:
        async def land() -> Any:
            await self.env.sleep(seconds)
            return await act()

        # Not through the env: what the host spawned dies with it, a request that left does not. And
        # in no context of the call: what is on its way outside is no part the host could see.
        task = asyncio.get_running_loop().create_task(
            land(), name=f"{tool} lands", context=Context()
        )
        self._landing.add(task)
        task.add_done_callback(self._landing.discard)
        return task

    async def cancel_landings(self) -> None:
        """Forget what has not landed yet; the test is over."""
        landing = tuple(self._landing)
        for task in landing:
            task.cancel()
        if landing:
            await asyncio.wait(landing)


class Mailbox:
    """Mails in the order in which they came."""

    PAGE_MAILS_MAX = 100

    def __init__(self, world: World) -> None:
        self._world = world
        self.mails: list[dict[str, Json]] = []

    def deliver(self, **fields: Json) -> dict[str, Json]:
        """Let a mail come in; fields that are not given are made up, the same every time."""
        number = len(self.mails) + 1
        mail: dict[str, Json] = {
            "id": f"m{number}",
            "from": f"sender{number}@example.com",
            "subject": f"Subject {number}",
            "date": self._world.env.now().isoformat(),
            "text": f"Text {number}",
            **fields,
        }
        self.mails.append(mail)
        return mail

    def search(self, query: str = "", after: str | None = None) -> Any:
        """Return the mails after the one with this id, at most a page of them.

        The query is ignored: every mail in the box matches.
        """
        ids = [mail["id"] for mail in self.mails]
        start = 0 if after is None else ids.index(after) + 1
        found = self.mails[start : start + self.PAGE_MAILS_MAX]
        return Page(found, last_cursor=found[-1]["id"] if found else after)


class Sheet:
    """Rows, as they really arrived."""

    def __init__(self, world: World, tool: str) -> None:
        self._world = world
        self._tool = tool

    @property
    def rows(self) -> list[Json]:
        """The values of every row, in the order of arrival."""
        return [each.args["values"] for each in self._world.effects if each.tool == self._tool]

    def append_row(self, spreadsheet_id: str, values: list[Any]) -> dict[str, Json]:
        """Return the new row's number, in the spelling of either language."""
        row = self._world.count(self._tool) + 1
        return {"rowId": row, "row_id": row}


def _asking(tool: str) -> str:
    return f"{tool} reconcile"


async def _call(operation: Operation, args: Mapping[str, Json]) -> Any:
    result = operation(**args)
    return await result if inspect.isawaitable(result) else result


def _dress(method: Any, tool: str, operation: Operation, own: tuple[str, ...]) -> Any:
    """Give a method the name, the parameters and the types of the function it stands for."""
    signature = inspect.signature(operation, eval_str=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    leading = [inspect.Parameter(name, kind) for name in ("self", *own)]
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            raise ConfigError(f"{tool}: name its parameters, as in lambda channel, text: …")
    method.__name__ = method.__qualname__ = tool.partition(".")[2]
    method.__signature__ = signature.replace(parameters=[*leading, *signature.parameters.values()])
    method.__annotations__ = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if each.annotation is not inspect.Parameter.empty
    }
    return method
