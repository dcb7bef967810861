"""What the author of a connector writes with: methods, secrets, threads, values."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

import duly
from duly.connectors.base import PAGE_MARK, THREADS_MAX
from duly.connectors.registry import Registry
from duly.connectors.watch import Reply
from duly.errors import AuthNeeded, Invalid, NotFound
from duly.rules.catalog import camel
from duly.sandbox import border
from tests.connectors.sheets import SENT_AT, Loud, Service, Sheets, make_call

pytestmark = pytest.mark.anyio


# -- Methods --------------------------------------------------------------------------------------


async def test_an_author_calls_his_methods_directly() -> None:
    sheets = Sheets()
    assert await sheets.append_row(make_call(), spreadsheet_id="S1", values=["a"]) == {"row_id": 0}
    assert await sheets.get_row(0) == ["a"]
    assert await sheets.search() == duly.Page([["a"]], last_cursor=1)
    assert await sheets.append_row_happened(make_call()) == duly.Applied({"row_id": 0})


async def test_an_override_reaches_its_parent() -> None:
    loud = Loud()
    await loud.append_row(make_call(), "S1", ["a"])
    assert loud.service.rows == [("key-1", ["A"])]


def test_a_decorated_method_keeps_its_name_and_its_words() -> None:
    class Words(duly.Connector):
        @duly.read
        async def find(self) -> None:
            """Find it."""

    assert (vars(Words.find)["__name__"], Words.find.__doc__) == ("find", "Find it.")


def test_a_read_takes_no_reconcile() -> None:
    """L5: there is nothing to settle where nothing was changed."""
    with pytest.raises(Invalid, match="find only reads, so it takes no reconcile"):

        class Wrong(duly.Connector):
            @duly.read
            async def find(self) -> None: ...

            @find.reconcile
            async def find_happened(self, call: duly.Call) -> duly.Unsure:
                return duly.Unsure()


def test_a_reconcile_method_that_hides_its_mutation_is_refused() -> None:
    """L5: the idiom of property setters would leave the class without the mutation."""
    with pytest.raises(Invalid, match='Call it "add_happened"'):

        class Wrong(duly.Connector):
            @duly.mutation
            async def add(self, call: duly.Call) -> None: ...

            @add.reconcile  # type: ignore[no-redef]
            async def add(self, call: duly.Call) -> duly.Unsure:
                return duly.Unsure()


def test_a_second_reconcile_method_is_refused() -> None:
    """L5: one method answers for a mutation."""
    with pytest.raises(Invalid, match="add has two reconcile methods"):

        class Wrong(duly.Connector):
            @duly.mutation
            async def add(self, call: duly.Call) -> None: ...

            @add.reconcile
            async def first(self, call: duly.Call) -> duly.Unsure:
                return duly.Unsure()

            @add.reconcile
            async def second(self, call: duly.Call) -> duly.Unsure:
                return duly.Unsure()


def test_a_child_cannot_change_how_its_parent_asks() -> None:
    """L5: the parent's other children would be asked by a stranger."""
    with pytest.raises(Invalid, match="clear belongs to Sheets already"):

        class Wrong(Sheets):
            @Sheets.clear.reconcile  # type: ignore[arg-type]  # the type checker refuses it too
            async def clear_happened(self, call: duly.Call) -> duly.NotApplied:
                return duly.NotApplied()

    assert Sheets.clear.asker is None


# -- Secrets --------------------------------------------------------------------------------------


def test_a_secret_comes_from_the_vault_and_is_remembered() -> None:
    """A5: what was handed out can be taken out of whatever is kept or shown."""
    sheets = Sheets()
    registry = Registry([sheets])
    registry.bind(lambda connector, name: f"{connector}-{name}-1")
    assert registry.secrets().secrets == frozenset()
    assert sheets.secret("token") == "sheets-token-1"
    assert registry.secrets().secrets == {"sheets-token-1"}


def no_key(connector: str, name: str) -> str:
    raise KeyError("inside of the vault")


def no_row(connector: str, name: str) -> str:
    raise NotFound("inside of the vault")


@pytest.mark.parametrize("vault", [None, no_key, no_row, lambda *_: "", lambda *_: None])
def test_without_a_secret_a_person_is_asked_to_connect(vault: Any) -> None:
    """A5: the error says what to connect and nothing about the vault."""
    sheets = Sheets()
    registry = Registry([sheets])
    if vault is not None:
        registry.bind(vault)
    with pytest.raises(
        AuthNeeded, match=r"^sheets has no secret “token”. Set it: duly secret set sheets token$"
    ) as e:
        sheets.secret("token")
    assert e.value.connect == "sheets"
    assert (e.value.__cause__, e.value.__context__) == (None, None)
    assert registry.secrets().secrets == frozenset()


def test_two_connectors_of_a_class_have_secrets_of_their_own() -> None:
    """A5: a secret belongs to the connector that has the name."""
    mine, theirs = Sheets(), Sheets()
    theirs.name = "theirs"
    Registry([mine, theirs]).bind(lambda connector, name: f"{connector}:{name}")
    assert (mine.secret("t"), theirs.secret("t")) == ("sheets:t", "theirs:t")


@dataclass(frozen=True)
class Frozen(duly.Connector):
    name: str = "frozen"


async def test_a_frozen_connector_has_secrets_and_threads() -> None:
    frozen = Frozen()
    Registry([frozen]).bind(lambda connector, name: "s3cret")
    assert await frozen.in_thread(frozen.secret, "token") == "s3cret"


# -- Threads --------------------------------------------------------------------------------------


class Gate:
    """A function that blocks its thread until it is let go, and says that it has begun."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.free = threading.Event()
        self.sent: list[str] = []

    def send(self, text: str = "x") -> str:
        self.begun.release()
        self.free.wait()
        self.sent.append(text)
        return text

    async def wait_begun(self) -> None:
        await asyncio.to_thread(self.begun.acquire)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    """Let every thread go before the loop closes, which would wait for it; so this is async."""
    made = Gate()
    yield made
    made.free.set()


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_thread_answers_and_raises_as_the_function_does() -> None:
    sheets = Sheets()
    assert await sheets.in_thread(divmod, 7, 2) == (3, 1)
    assert await sheets.in_thread(sorted, [1, 2], reverse=True) == [2, 1]
    with pytest.raises(ZeroDivisionError):
        await sheets.in_thread(divmod, 1, 0)
    name = await sheets.in_thread(lambda: threading.current_thread().name)
    assert name.startswith("duly-sheets")


async def test_a_function_that_stops_an_iteration_does_not_hang() -> None:
    """A future cannot carry StopIteration; what waits must not wait for ever."""
    empty: list[str] = []
    with pytest.raises(RuntimeError, match="StopIteration"):
        await Sheets().in_thread(next, iter(empty))


async def test_a_cancelled_call_ends_when_its_thread_returned(gate: Gate) -> None:
    """L6: a send made in a thread has ended when the thread returned, not before."""
    task = asyncio.create_task(Sheets().in_thread(gate.send))
    await gate.wait_begun()
    task.cancel()
    await turn()
    task.cancel()
    await turn()
    assert not task.done()
    gate.free.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.sent == ["x"]


async def test_a_deadline_is_reported_when_the_thread_returned(gate: Gate) -> None:
    """L6: a caller who hears of the timeout knows that nothing of the call is still under way."""

    async def send() -> None:
        async with asyncio.timeout(0) as limit:
            limit.reschedule(asyncio.get_running_loop().time() + 3600)
            limits.append(limit)
            await Sheets().in_thread(gate.send)

    limits: list[asyncio.Timeout] = []
    task = asyncio.create_task(send())
    await gate.wait_begun()
    limits[0].reschedule(0)
    await turn()
    assert not task.done()
    gate.free.set()
    with pytest.raises(TimeoutError):
        await task
    assert gate.sent == ["x"]


async def test_an_error_after_the_cancel_is_not_left_lying(gate: Gate) -> None:
    """L6: what the thread raised after we stopped waiting changes nothing about the cancel."""

    def fail() -> None:
        gate.send()
        raise ValueError

    task = asyncio.create_task(Sheets().in_thread(fail))
    await gate.wait_begun()
    task.cancel()
    await turn()
    gate.free.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_call_that_waits_for_a_thread_is_never_made(gate: Gate) -> None:
    """L6: nothing is sent after the last moment a caller waited for it."""
    sheets = Sheets()
    busy = [asyncio.create_task(sheets.in_thread(gate.send)) for _ in range(THREADS_MAX)]
    for _ in busy:
        await gate.wait_begun()
    late = asyncio.create_task(sheets.in_thread(gate.send, "late"))
    await turn()
    late.cancel()
    await turn()
    gate.free.set()
    with pytest.raises(asyncio.CancelledError):
        await late
    await asyncio.gather(*busy)
    assert gate.sent == ["x"] * THREADS_MAX


async def test_a_busy_connector_holds_up_no_other(gate: Gate) -> None:
    sheets, other = Sheets(), Sheets()
    busy = [asyncio.create_task(sheets.in_thread(gate.send)) for _ in range(THREADS_MAX)]
    assert await other.in_thread(len, "abc") == 3
    gate.free.set()
    await asyncio.gather(*busy)


# -- Values ---------------------------------------------------------------------------------------


def test_a_call_has_an_aware_time_in_utc() -> None:
    assert make_call().sent_at is SENT_AT
    for wrong in (SENT_AT.replace(tzinfo=None), SENT_AT.astimezone(timezone(timedelta(hours=1)))):
        with pytest.raises(Invalid, match="Give an aware time in UTC"):
            replace(make_call(), sent_at=wrong)
    assert replace(make_call(), sent_at=datetime(2026, 1, 2, tzinfo=UTC)).attempt == 1


def test_a_page_crosses_the_border_as_both_sandboxes_know_it() -> None:
    """X3: one mark, known on both sides of rooms that do not know each other."""
    page = duly.Page([1, 2], last_cursor="b").to_json()
    assert page == {"$page": True, "items": [1, 2], "last_cursor": "b"}
    assert PAGE_MARK == border.PAGE_MARK
    text = border.written(page)
    read = msgspec.json.decode(border.to_python("sheets.search", text))
    assert read == {"items": [1, 2], "last_cursor": "b"}
    items, names = map(msgspec.json.decode, border.to_javascript("sheets.search", text))
    assert (items, names) == ([1, 2], {"lastCursor": "b"})


@pytest.mark.parametrize(
    "name", ["lastCursor", "$page", "_x", "then", "length", "for_each", "values", "class", ""]
)
def test_a_page_name_no_script_could_use_is_refused(name: str) -> None:
    """X3: in JavaScript it would hide what an array can do, or not be found."""
    with pytest.raises(Invalid, match="A page cannot have the name"):
        duly.Page([], **{name: 1})


def test_two_page_names_that_fall_together_are_refused() -> None:
    """X3: JavaScript would see one of the two."""
    assert camel("a_1") == camel("a1")
    with pytest.raises(Invalid, match="Two names of a page are one in JavaScript: a_1, a1"):
        duly.Page([], a_1=1, a1=2)


def test_verdicts_are_values() -> None:
    assert duly.Applied() == duly.Applied(None)
    assert duly.Unsure() == duly.Unsure("")
    assert duly.NotApplied() == duly.NotApplied()
    assert Service() == Service([])


class Stuck(duly.Connector):
    """Its disk never answers."""

    name = "stuck"

    def __init__(self) -> None:
        self.free = threading.Event()

    @duly.read(timeout_s=0.01)
    async def look(self) -> bool:
        return await self.in_thread(self.free.wait)

    @duly.mutation(lag_s=1)
    async def change(self, call: duly.Call) -> bool:
        return await self.in_thread(self.free.wait)

    @change.reconcile
    async def change_happened(self, call: duly.Call) -> duly.NotApplied:
        await self.in_thread(self.free.wait)
        return duly.NotApplied()


async def test_who_only_asks_is_not_held_by_a_thread_that_never_returns() -> None:
    """F1, L5, L6: a read or a reconcile ends at its time, and only a change is waited for."""
    stuck = Stuck()
    registry = Registry([stuck])
    look, change = registry.catalog.find("stuck.look"), registry.catalog.find("stuck.change")
    call = duly.Call("stuck.change", {}, key="k", workflow="w", attempt=1, sent_at=SENT_AT)
    sending = registry.send(change, call)
    try:
        with pytest.raises(TimeoutError, match=r"stuck\.look gave no answer"):
            await registry.read(look, {})
        with pytest.raises(TimeoutError):
            await registry.reconcile(change, call, limit_s=0.01)
        assert await sending.answered(0.01) is None
        assert sending.is_out
    finally:
        stuck.free.set()
    assert await sending.settled(60)
    assert sending.reply == Reply(value=True)  # late, and its own
