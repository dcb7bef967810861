"""Connectors become a catalogue, and are called in one way."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import duly
from duly.connectors.base import Mutation
from duly.connectors.registry import ANSWER_BYTES_MAX, Registry
from duly.errors import IllegalTransition, Invalid, Refused, Transient
from duly.rules.catalog import JsonType, Parameter, Risk, Tool, ToolKind, bind
from duly.rules.failure import answer_of
from duly.rules.value import Json
from duly.rules.word import Answer
from tests.connectors.sheets import Loud, Service, Sheets, make_call

pytestmark = pytest.mark.anyio

STRING = frozenset({JsonType.STRING})
LIST = frozenset({JsonType.LIST})


# -- The catalogue --------------------------------------------------------------------------------


def test_tools_are_what_their_author_said() -> None:
    """A1: every tool has a capability and a risk, and its parameters are its signature's."""
    note = Parameter("note", False, STRING | {JsonType.NULL})
    whole = Parameter("row_id", types=frozenset({JsonType.INTEGER}))
    told = Registry([Sheets()]).catalog.tools
    assert [each.result is None for each in told] == [False, False, False, False]
    assert tuple(replace(each, result=None) for each in told) == (
        Tool(
            "sheets.search",
            ToolKind.READ,
            "sheets.read",
            Risk.LOW,
            (Parameter("query", False, STRING),),
        ),
        Tool(
            "sheets.get_row",
            ToolKind.READ_BY_ID,
            "sheets.look",
            Risk.LOW,
            (whole,),
            noun="row",
            timeout_s=5,
        ),
        Tool(
            "sheets.append_row",
            ToolKind.MUTATION,
            "sheets.append",
            Risk.LOW,
            (Parameter("spreadsheet_id", types=STRING), Parameter("values", types=LIST), note),
            noun="row",
            lag_s=5,
            reconciles=True,
        ),
        Tool("sheets.clear", ToolKind.MUTATION, "sheets.clear"),
    )


def test_an_idempotent_tool_says_how_long_a_key_is_remembered() -> None:
    """L7: the outside's memory is part of the tool."""

    class Table(duly.Connector):
        name = "table"

        @duly.mutation(risk="high", timeout_s=9, idempotent=True, key_lifetime_s=math.inf)
        async def insert(self, call: duly.Call) -> None: ...

    (tool,) = Registry([Table()]).catalog.tools
    assert (tool.risk, tool.timeout_s, tool.lag_s) == (Risk.HIGH, 9, 60)
    assert (tool.idempotent, tool.key_lifetime_s, tool.reconciles) == (True, math.inf, False)


def test_no_connector_is_an_empty_catalogue() -> None:
    assert Registry().catalog.tools == ()


async def test_two_connectors_of_a_class_are_two() -> None:
    """A1: each has its tools, its place to write to, and its own capabilities."""
    mine, theirs = Sheets(), Sheets()
    theirs.name = "theirs"
    registry = Registry([mine, theirs])
    tools = registry.catalog.names
    assert tools["theirs.append_row"].capability == "theirs.append"
    assert tools["theirs.search"].capability == "theirs.read"
    assert tools["sheets.append_row"].capability == "sheets.append"
    await registry.send(
        tools["theirs.append_row"], make_call(spreadsheet_id="S1", values=["a"])
    ).result()
    assert (mine.service.rows, theirs.service.rows) == ([], [("key-1", ["a"])])


def test_a_capability_of_another_home_is_left_as_it_is() -> None:
    """A1: several connectors may share what one grant opens."""

    class Drive(duly.Connector):
        name = "drive"

        @duly.read(capability="google.read")
        async def find(self) -> None: ...

    drive = Drive()
    drive.name = "other"
    assert Registry([drive]).catalog.tools[0].capability == "google.read"


async def test_an_override_keeps_its_decoration() -> None:
    """L5: the method is the child's, the terms and the reconcile method are the parent's."""
    loud = Loud(Service())
    registry = Registry([loud])
    tool = registry.catalog.find("loud.append_row")
    assert (tool.noun, tool.lag_s, tool.reconciles) == ("row", 5, True)
    call = make_call("loud.append_row", spreadsheet_id="S1", values=["a"])
    assert await registry.reconcile(tool, call) == duly.NotApplied()
    assert await registry.send(tool, call).result() == {"row_id": 0}
    assert loud.service.rows == [("key-1", ["A"])]
    assert await registry.reconcile(tool, call) == duly.Applied({"row_id": 0})


async def test_an_overridden_reconcile_method_is_the_one_that_is_asked() -> None:
    """L5: it is found by its name."""

    class Shy(Sheets):
        async def append_row_happened(self, call: duly.Call) -> duly.Unsure:
            return duly.Unsure("shy")

    registry = Registry([Shy()])
    tool = registry.catalog.find("sheets.append_row")
    assert await registry.reconcile(tool, make_call()) == duly.Unsure("shy")


def test_a_replaced_decoration_takes_nothing_over() -> None:
    """L5: the parent's reconcile method does not know how the child's change is made."""

    class New(Sheets):
        @duly.mutation(noun="line")
        async def append_row(self, call: duly.Call, line: str) -> None: ...  # type: ignore[override]

    tool = Registry([New()]).catalog.find("sheets.append_row")
    assert (tool.noun, tool.lag_s, tool.reconciles) == ("line", 60, False)
    assert tool.parameters == (Parameter("line", types=STRING),)
    assert Registry([Sheets()]).catalog.find("sheets.append_row").reconciles


# -- What is refused ------------------------------------------------------------------------------


def connector(name: Any = "c", **members: Any) -> duly.Connector:
    made = type("Made", (duly.Connector,), members | ({} if name is None else {"name": name}))
    instance: duly.Connector = made()
    return instance


async def ask(self: Any) -> None: ...
async def send(self: Any, call: duly.Call) -> None: ...
async def send_without_call(self: Any, text: str) -> None: ...
async def by_place(self: Any, text: str, /) -> None: ...
async def by_any_name(self: Any, **texts: str) -> None: ...
async def by_many(self: Any, *texts: str) -> None: ...
async def by_bytes(self: Any, text: bytes) -> None: ...
async def takes_peek(self: Any, peek: str) -> None: ...
async def asker(self: Any, call: duly.Call) -> duly.Unsure:
    return duly.Unsure()


async def asker_of_two(self: Any, call: duly.Call, more: str) -> duly.Unsure:
    return duly.Unsure()


def plain(self: Any, call: Any = None) -> None: ...


def loose(decorator: Any, function: Any) -> Any:
    return decorator(function)


def asked_by(method: Any) -> Mutation[Any, ..., Any]:
    made: Mutation[Any, ..., Any] = duly.mutation(send)
    made.reconcile(method)
    return made


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: [connector(None)], "Made has no name."),
        (lambda: [connector("Bad Name")], "Made has the name 'Bad Name'."),
        (lambda: [connector("publish")], "Made has the name 'publish'."),
        (lambda: [connector("class")], "Made has the name 'class'."),
        (lambda: [connector(7)], "Made has the name 7."),
        (lambda: [connector("a" * 101, ask=duly.read(ask))], "cannot be the name of a tool"),
        (lambda: [connector(), connector()], 'Two connectors are called "c".'),
        (lambda: [Sheets], "Sheets is a class. Pass a connector: Sheets()."),
        (lambda: [object()], "A object is no connector."),
        (lambda: [connector(x=loose(duly.read, plain))], "Made.x is not an async method."),
        (lambda: [connector(x=loose(duly.mutation, plain))], "Made.x is not an async method."),
        (lambda: [connector(x=loose(duly.read, 7))], "Made.x is not an async method."),
        (
            lambda: [connector(x=loose(duly.read, staticmethod(ask)))],
            "Made.x is not an async method.",
        ),
        (
            lambda: [connector(x=loose(duly.mutation, send_without_call))],
            "Made.x must begin with (self, call).",
        ),
        (lambda: [connector(x=loose(duly.read, by_place))], "Made.x: text: 'str' has no name"),
        (
            lambda: [connector(x=loose(duly.read, by_any_name))],
            "Made.x: **texts: 'str' has no name",
        ),
        (lambda: [connector(x=duly.read(by_many))], "Made.x: *texts: 'str' has no name"),
        (lambda: [connector(x=duly.read(by_bytes))], "Made.x: the annotation of text cannot"),
        (lambda: [connector(x=duly.read(takes_peek))], '"peek" cannot be the name of a parameter'),
        (lambda: [connector(secret=duly.read(ask))], "every connector has its own secret."),
        (lambda: [connector(in_thread=duly.read(ask))], "every connector has its own in_thread"),
        (lambda: [connector(then=duly.read(ask))], '"then" cannot be the name of a tool'),
        (lambda: [connector(_x=duly.read(ask))], '"_x" cannot be the name of a tool'),
        (
            lambda: [connector(x=duly.read(capability="all")(ask))],
            '"all" cannot be the name of a capability',
        ),
        (lambda: [connector(x=duly.read(timeout_s=0)(ask))], "c.x.timeout_s is 0."),
        (
            lambda: [connector(x=duly.mutation(risk="huge")(send))],  # type: ignore[call-overload]
            "Made.x: risk is 'huge'. Say low, medium, high.",
        ),
        (lambda: [connector(x=duly.mutation(idempotent=True)(send))], "key_lifetime_s go together"),
        (lambda: [connector(x=asked_by(plain), plain=plain)], "Made.plain is not an async method."),
        (lambda: [connector(x=asked_by(asker_of_two), asker_of_two=asker_of_two)], "(self, call)"),
        (lambda: [connector(x=asked_by(asker))], 'its reconcile method "asker" is not what'),
        (lambda: [connector(x=asked_by(asker), asker=asker_of_two)], "a name of its own"),
    ],
)
def test_what_no_script_could_call_is_refused_when_the_host_is_built(
    make: Callable[[], Any], says: str
) -> None:
    """A1: by class and method, with what to do."""
    with pytest.raises(Invalid) as refused:
        Registry(make())
    assert says in str(refused.value)


def test_an_override_is_checked_like_what_it_overrides() -> None:
    """A1: what a child puts in the place of a tool must be one."""
    child = type("Child", (Sheets,), {"append_row": plain})
    with pytest.raises(Invalid, match=r"Child\.append_row is not an async method"):
        Registry([child()])


def test_two_reconcile_methods_of_one_name_are_refused() -> None:
    """L5: the last of them would answer for both mutations."""

    class Twice(duly.Connector):
        name = "twice"

        @duly.mutation
        async def one(self, call: duly.Call) -> None: ...

        @one.reconcile
        async def _(self, call: duly.Call) -> duly.NotApplied:
            return duly.NotApplied()

        @duly.mutation
        async def two(self, call: duly.Call) -> None: ...

        @two.reconcile
        async def _(self, call: duly.Call) -> duly.Applied:
            return duly.Applied()

    with pytest.raises(Invalid, match=r"Twice\.one: its reconcile method"):
        Registry([Twice()])


# -- Calling --------------------------------------------------------------------------------------


class Echo(duly.Connector):
    """Answers whatever it was given, however it was asked."""

    name = "echo"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.seen: list[Any] = []

    async def reply(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    @duly.read(timeout_s=0.01)
    async def ask(self, x: Any = "default") -> Any:
        self.seen.append(x)
        return await self.reply()

    @duly.mutation(timeout_s=0.01)
    async def send(self, call: duly.Call, values: list[Any]) -> Any:
        values.append("changed")
        self.seen.append(call)
        return await self.reply()

    @send.reconcile
    async def send_happened(self, call: duly.Call) -> Any:
        self.seen.append(call)
        return await self.reply()

    @duly.mutation
    async def shout(self, call: duly.Call) -> None: ...


def echo(answer: Any = None) -> tuple[Echo, Registry, dict[str, Tool]]:
    made = Echo(answer)
    registry = Registry([made])
    return made, registry, dict(registry.catalog.names)


async def test_a_read_gets_its_arguments_by_name_and_python_s_defaults() -> None:
    """A1: a default is the method's own."""
    made, registry, tools = echo()
    await registry.read(tools["echo.ask"], {})
    args = bind(tools["echo.ask"], {"x": [1]})
    await registry.read(tools["echo.ask"], args)
    assert made.seen == ["default", [1]]
    made.seen[1].append(2)
    assert args == {"x": [1]}


@pytest.mark.parametrize("answer", [None, True, 0, 1.5, "x", [], {"a": [{"b": None}]}])
async def test_plain_json_comes_out_as_it_is(answer: Json) -> None:
    """T8: the round trip is exact."""
    _, registry, tools = echo(answer)
    assert await registry.read(tools["echo.ask"], {}) == answer
    assert await registry.send(tools["echo.send"], make_call(values=[])).result() == answer


async def test_a_page_comes_out_in_its_wire_form() -> None:
    """X3: the sandbox knows it by its mark."""
    _, registry, tools = echo(duly.Page([{"id": 1}], last_cursor="a"))
    answer = await registry.read(tools["echo.ask"], {})
    assert answer == {"$page": True, "items": [{"id": 1}], "last_cursor": "a"}


async def test_an_answer_is_a_copy() -> None:
    """X3: what a connector does to its own things afterwards changes nothing."""
    rows = [{"id": 1}]
    _, registry, tools = echo(duly.Page(rows))
    answer = await registry.read(tools["echo.ask"], {})
    rows[0]["id"] = 2
    assert answer == {"$page": True, "items": [{"id": 1}]}


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ((1, 2), "echo.%s.result"),
        ({"rows": [{"at": make_call().sent_at}]}, "echo.%s.result.rows[0].at"),
        (duly.Page([b"x"]), "echo.%s.result.items[0]"),
        (duly.Page((1,)), "echo.%s.result.items"),  # type: ignore[arg-type]
        ({"page": duly.Page([])}, "echo.%s.result.page"),
        ({1: 2}, "echo.%s.result"),
        (math.nan, "echo.%s.result"),
        ("x" * (ANSWER_BYTES_MAX + 1), "echo.%s.result"),
    ],
    ids=lambda each: str(each)[:20],
)
async def test_an_answer_that_is_no_json_is_refused_by_its_path(answer: Any, path: str) -> None:
    """T8, L4: nothing is converted in silence; after a send the outcome is then unknown."""
    _, registry, tools = echo(answer)
    with pytest.raises(Invalid) as refused:
        await registry.read(tools["echo.ask"], {})
    assert refused.value.path == path % "ask"
    with pytest.raises(Invalid) as refused:
        await registry.send(tools["echo.send"], make_call(values=[])).result()
    assert refused.value.path == path % "send"
    assert answer_of(refused.value) is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Refused("no"), Refused), (Transient("later"), Transient), (ValueError("?"), RuntimeError)],
)
async def test_an_error_comes_out_with_its_class_and_its_words(
    error: Exception, kind: type[Exception]
) -> None:
    """L4: it was classified where it was born; what says nothing about the call is one kind."""
    _, registry, tools = echo(error)
    with pytest.raises(kind, match=re.escape(str(error))):
        await registry.read(tools["echo.ask"], {})
    with pytest.raises(kind, match=re.escape(str(error))):
        await registry.send(tools["echo.send"], make_call(values=[])).result()


class Slow(Echo):
    async def reply(self) -> Any:
        return await asyncio.get_running_loop().create_future()


async def test_a_read_has_the_time_of_its_tool() -> None:
    """F1: past it the read is a timeout."""
    registry = Registry([Slow()])
    with pytest.raises(TimeoutError, match=r"^echo\.ask gave no answer in 0\.01 s\.$"):
        await registry.read(registry.catalog.find("echo.ask"), {})


async def test_a_connector_s_own_timeout_keeps_its_words() -> None:
    """F1: it is a timeout as well."""
    _, registry, tools = echo(TimeoutError("the socket was slow"))
    with pytest.raises(TimeoutError, match="the socket was slow"):
        await registry.read(tools["echo.ask"], {})


async def test_a_mutation_has_no_deadline_but_the_ledger_s() -> None:
    """L4: the host that recorded the call decides how long it is waited for."""
    slow = Slow()
    registry = Registry([slow])
    call = make_call("echo.send", values=[])
    sending = asyncio.create_task(registry.send(registry.catalog.find("echo.send"), call).result())
    done, _ = await asyncio.wait({sending}, timeout=0.05)
    assert not done
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_connector_cannot_change_the_recorded_call() -> None:
    """L7: what is sent again is what was recorded."""
    made, registry, tools = echo()
    call = make_call("echo.send", values=["a"])
    await registry.send(tools["echo.send"], call).result()
    assert call.args == {"values": ["a"]}
    assert (made.seen[0].key, made.seen[0].attempt) == ("key-1", 1)
    await registry.reconcile(tools["echo.send"], call)
    made.seen[1].args["values"].append("changed")
    assert call.args == {"values": ["a"]}


@pytest.mark.parametrize(
    "verdict", [duly.Applied(), duly.Applied({"id": 1}), duly.NotApplied(), duly.Unsure("busy")]
)
async def test_a_verdict_comes_out_as_it_is(verdict: object) -> None:
    """L5: three answers, no more."""
    _, registry, tools = echo(verdict)
    assert await registry.reconcile(tools["echo.send"], make_call()) == verdict


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(None, "NoneType"), (True, "bool"), ({}, "dict"), (duly.NotApplied, "type")],
)
async def test_what_is_no_verdict_is_no_certainty(answer: object, kind: str) -> None:
    """L5: least of all a NotApplied, after which the call could be made again."""
    _, registry, tools = echo(answer)
    verdict = await registry.reconcile(tools["echo.send"], make_call())
    assert isinstance(verdict, duly.Unsure)
    assert verdict.reason.startswith(f"send_happened answered a {kind}.")


async def test_an_applied_with_a_result_that_is_no_json_is_no_certainty() -> None:
    """L5: the result could not be kept; a person decides in the end."""
    _, registry, tools = echo(duly.Applied({"at": {1, 2}}))
    verdict = await registry.reconcile(tools["echo.send"], make_call())
    assert isinstance(verdict, duly.Unsure)
    assert "echo.send.result.at is a set" in verdict.reason


async def test_reads_and_mutations_do_not_take_each_other_s_way() -> None:
    """C2: a mutation that came in as a read would leave without a ledger row."""
    made, registry, tools = echo()
    with pytest.raises(IllegalTransition, match=r"echo\.send is a mutation"):
        await registry.read(tools["echo.send"], {"call": None, "values": []})
    with pytest.raises(IllegalTransition, match=r"echo\.ask is a read"):
        await registry.send(tools["echo.ask"], make_call("echo.ask")).result()
    with pytest.raises(IllegalTransition, match=r"echo\.shout has no reconcile method"):
        await registry.reconcile(tools["echo.shout"], make_call("echo.shout"))
    assert made.seen == []


async def test_a_tool_nobody_has_any_more_is_named() -> None:
    """A1: a recorded call may outlive its connector."""
    with pytest.raises(Invalid, match=r"There is no tool sheets\.append_row"):
        await Registry().reconcile(
            Tool("sheets.append_row", ToolKind.MUTATION, "sheets.append"), make_call()
        )
