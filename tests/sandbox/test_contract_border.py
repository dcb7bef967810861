"""The contract, every language: what crosses the border, and how it is spelled (law 6)."""

from __future__ import annotations

from typing import Any

import pytest

from duly.rules.access import Step
from duly.rules.value import Json
from duly.sandbox.base import MISSING, Broke
from tests.sandbox.contract import Body, Subject
from verification.moves import Call, Let, Return, When, ref

pytestmark = pytest.mark.anyio

NOTHING = Body(javascript="", python="", scripted=())
NULL = Body(javascript="return null;", python="return None", scripted=(Return(None),))
GIVEN = Body(
    javascript="return [given];",
    python="return [given]",
    scripted=(Return([ref("prepared")]),),
)
IS_FIRST_TIME = Body(
    javascript="return given === undefined;",
    python="return given is None",
    scripted=(When("state", (Return(False),), (Return(True),)),),
)
PUBLISHES = Body(
    javascript="""
    await ctx.publish("done", {
      messageId: "m1", title: "Mail m1", payload: {messageId: 1, wakeAt: 2}, extraField: 3,
    });""",
    python="""
    await ctx.publish("done", message_id="m1", title="Mail m1",
                      payload={"messageId": 1, "wakeAt": 2}, extraField=3)
    """,
    scripted=(
        Call(
            "publish",
            ("done",),
            {
                "message_id": "m1",
                "title": "Mail m1",
                "payload": {"messageId": 1, "wakeAt": 2},
                "extraField": 3,
            },
        ),
    ),
)
LOOKS = Body(
    javascript="""
    const [mail] = await ctx.peek("mail", {limit: 5, after: "m0"});
    const [same] = await ctx.getByIds("mail", ["m1"]);
    await ctx.peek("mail");
    return [mail.topic, mail.messageId, mail.id, mail.title, mail.payload, same.messageId,
            Object.keys(mail).length];""",
    python="""
    mail = (await ctx.peek("mail", limit=5, after="m0"))[0]
    same = (await ctx.get_by_ids("mail", ["m1"]))[0]
    await ctx.peek("mail")
    return [mail["topic"], mail["message_id"], mail["id"], mail["title"], mail["payload"],
            same["message_id"], len(mail)]
    """,
    scripted=(
        Call("peek", ("mail",), {"limit": 5, "after": "m0"}, into="mails"),
        Call("get_by_ids", ("mail", ["m1"]), into="same"),
        Call("peek", ("mail",)),
        Let("mail", ref("mails.0")),
        Return(
            [
                *(ref(f"mail.{name}") for name in ("topic", "message_id", "id", "title")),
                ref("mail.payload"),
                ref("same.0.message_id"),
                5,
            ]
        ),
    ),
)
TOOL_NAMES = Body(
    javascript="""
    await ctx.gmail.search({query: "new", maxResults: 3, after: undefined});
    await ctx.sheets.appendRow({spreadsheetId: "S1", values: [{spreadsheetId: 1}]});""",
    python="""
    await ctx.gmail.search(query="new", max_results=3)
    await ctx.sheets.append_row(spreadsheet_id="S1", values=[{"spreadsheetId": 1}])
    """,
    scripted=(
        Call("gmail.search", kwargs={"query": "new", "max_results": 3}),
        Call(
            "sheets.append_row",
            kwargs={"spreadsheet_id": "S1", "values": [{"spreadsheetId": 1}]},
        ),
    ),
)
POSITIONAL = Body(
    python='await ctx.sheets.append_row("S1", values=[1])',
    scripted=(Call("sheets.append_row", ("S1",), {"values": [1]}),),
)
UNKNOWN_TOOL = Body(
    javascript="await ctx.sheets.paintRow({rowColor: 1}); await ctx.fax.send({toWhom: 2});",
    python="""
    await ctx.sheets.paintRow(rowColor=1)
    await ctx.fax.send(toWhom=2)
    """,
    scripted=(
        Call("sheets.paintRow", kwargs={"rowColor": 1}),
        Call("fax.send", kwargs={"toWhom": 2}),
    ),
)
PAGE = Body(
    javascript="""
    const mails = await ctx.gmail.search({});
    return [Array.isArray(mails), mails.length, mails[0].id, mails.lastCursor, mails.isLast,
            "$page" in mails];""",
    python="""
    mails = await ctx.gmail.search()
    return [True, len(mails["items"]), mails["items"][0]["id"], mails["last_cursor"],
            mails["is_last"], "$page" in mails]
    """,
    scripted=(
        Call("gmail.search", into="mails"),
        When("mails.$page", (Return("the mark is seen"),)),
        Return(
            [
                True,
                2,
                ref("mails.items.0.id"),
                ref("mails.last_cursor"),
                ref("mails.is_last"),
                False,
            ]
        ),
    ),
)
PLAIN_RESULT = Body(
    javascript="return await ctx.sheets.appendRow({values: []});",
    python="return await ctx.sheets.append_row(values=[])",
    scripted=(Call("sheets.append_row", kwargs={"values": []}, into="row"), Return(ref("row"))),
)
_PREPARED: Any = {
    "reservations": [{"topic": "mail", "ids": ["m1"]}],
    "data": {"wakeAt": 1, "messageId": 2},
    "ui": {"title": "File m1", "wakeAt": 3},
}
PREPARES = Body(
    javascript="""
    return {reservations: [{topic: "mail", ids: ["m1"]}], data: {wakeAt: 1, messageId: 2},
            ui: {title: "File m1", wakeAt: 3}, wakeAt: "2026-01-01T09:00:00Z"};""",
    python="""
    return {"reservations": [{"topic": "mail", "ids": ["m1"]}],
            "data": {"wakeAt": 1, "messageId": 2},
            "ui": {"title": "File m1", "wakeAt": 3}, "wake_at": "2026-01-01T09:00:00Z"}
    """,
    scripted=(Return({**_PREPARED, "wake_at": "2026-01-01T09:00:00Z"}),),
)
STATE_WITH_WAKE = Body(
    javascript="return {wakeAt: 1};",
    python='return {"wakeAt": 1}',
    scripted=(Return({"wakeAt": 1}),),
)


async def test_returning_nothing_is_missing(subject: Subject) -> None:
    """P2: a step that returns nothing keeps the state."""
    assert (await subject.play(NOTHING, step=Step.PRODUCE)).value is MISSING


async def test_null_is_a_value_and_none_is_nothing(subject: Subject) -> None:
    """P2: null is a value in JavaScript; Python's None is nothing."""
    expected = MISSING if subject.language == "python" else None
    assert (await subject.play(NULL, step=Step.PRODUCE)).value is expected


@pytest.mark.parametrize(
    ("javascript", "python", "value"),
    [
        ("0", "0", 0),
        ("false", "False", False),
        ('""', '""', ""),
        ("[]", "[]", []),
        ("{}", "{}", {}),
        ("[null]", "[None]", [None]),
        ("1.5", "1.5", 1.5),
        ("9007199254740991", "9007199254740991", 2**53 - 1),
        ("-9007199254740991", "-9007199254740991", 1 - 2**53),
        ('"\\u0000\\u00fc\\u{1f600}"', '"\\x00\\u00fc\\U0001f600"', "\x00ü\U0001f600"),
        ('{b: 1, a: {"": 2}}', '{"b": 1, "a": {"": 2}}', {"b": 1, "a": {"": 2}}),
    ],
)
async def test_any_json_value_can_be_returned(
    subject: Subject, javascript: str, python: str, value: Json
) -> None:
    """P2, T8: false, zero and the empty string are values; the round trip is exact."""
    body = Body(f"return {javascript};", f"return {python}", (Return(value),))
    returned = (await subject.play(body, step=Step.PRODUCE)).value
    assert returned == value
    assert type(returned) is type(value)


@pytest.mark.parametrize(
    "prepared",
    [
        {"reservations": [], "data": {"messageId": 1, "message_id": 2, "wakeAt": None}},
        {"reservations": [{"topic": "mail", "ids": ["m1"]}], "data": [0, False, ""], "ui": {}},
        {"data": {"__proto__": 1, "then": 2, "constructor": 3}},
        {"data": {"$page": True, "items": []}},
    ],
)
async def test_arguments_reach_the_step_unchanged(subject: Subject, prepared: Json) -> None:
    """C6: mutate sees the stored copy, to the letter."""
    story = await subject.play(GIVEN, step=Step.MUTATE, args=(prepared,))
    assert story.value == [prepared]


async def test_a_first_run_has_no_state(subject: Subject) -> None:
    """P2: nothing on the first run is undefined in JavaScript and None in Python."""
    assert (await subject.play(IS_FIRST_TIME, args=(MISSING,))).value is True
    assert (await subject.play(IS_FIRST_TIME, args=({"cursor": 1},))).value is False


async def test_a_publish_is_spelled_our_way_and_its_payload_is_untouched(subject: Subject) -> None:
    """T7: only the names we own are translated; a field nobody knows stays to be refused."""
    (call,) = (await subject.play(PUBLISHES, step=Step.PRODUCE)).calls
    assert (call.path, call.args) == ("publish", ("done",))
    assert call.kwargs == {
        "message_id": "m1",
        "title": "Mail m1",
        "payload": {"messageId": 1, "wakeAt": 2},
        "extraField": 3,
    }


async def test_events_are_shown_in_the_script_s_own_spelling(subject: Subject) -> None:
    """T7: a script sees topic, message id, id, title and payload, and nothing else."""
    payload: dict[str, Json] = {"message_id": 1, "messageId": 2}
    event: Json = {"topic": "mail", "message_id": "m1", "title": "Mail", "payload": payload}
    story = await subject.play(LOOKS, lambda call: [event])
    assert story.value == ["mail", "m1", "m1", "Mail", payload, "m1", 5]
    assert [(call.path, call.args, dict(call.kwargs)) for call in story.calls] == [
        ("peek", ("mail",), {"limit": 5, "after": "m0"}),
        ("get_by_ids", ("mail", ["m1"]), {}),
        ("peek", ("mail",), {}),
    ]


async def test_tools_and_arguments_are_spelled_as_in_the_catalogue(subject: Subject) -> None:
    """X3: names go through the catalogue; what stands inside an argument does not."""
    story = await subject.play(TOOL_NAMES)
    assert [(call.path, call.args, dict(call.kwargs)) for call in story.calls] == [
        ("gmail.search", (), {"query": "new", "max_results": 3}),
        ("sheets.append_row", (), {"spreadsheet_id": "S1", "values": [{"spreadsheetId": 1}]}),
    ]


@pytest.mark.parametrize("subject", ["python", "scripted"], indirect=True)
async def test_python_may_pass_arguments_by_place(subject: Subject) -> None:
    """X3: positional arguments cross as they are; the catalogue binds them."""
    (call,) = (await subject.play(POSITIONAL)).calls
    assert (call.args, dict(call.kwargs)) == (("S1",), {"values": [1]})


async def test_a_tool_nobody_knows_is_passed_as_written(subject: Subject) -> None:
    """W5: a misspelt tool arrives under its own name, for the engine to refuse."""
    story = await subject.play(UNKNOWN_TOOL)
    assert [(call.path, dict(call.kwargs)) for call in story.calls] == [
        ("sheets.paintRow", {"rowColor": 1}),
        ("fax.send", {"toWhom": 2}),
    ]


async def test_a_page_is_a_list_with_a_cursor(subject: Subject) -> None:
    """X3: an array with properties in JavaScript, items and names in Python; the mark is gone."""
    page: Json = {
        "$page": True,
        "items": [{"id": "m1"}, {"id": "m2"}],
        "last_cursor": "c9",
        "is_last": True,
    }
    story = await subject.play(PAGE, {"gmail.search": page})
    assert story.value == [True, 2, "m1", "c9", True, False]


@pytest.mark.parametrize(
    "answer",
    [{"row_id": 1, "rowId": 2}, {"items": [], "last_cursor": 1}, {"id": {"message_id": "m"}}],
)
async def test_a_tool_s_result_passes_unchanged(subject: Subject, answer: Json) -> None:
    """X3: only what the engine marked as a page is made into one."""
    assert (await subject.play(PLAIN_RESULT, {"sheets.append_row": answer})).value == answer


async def test_prepare_s_wake_time_is_spelled_our_way(subject: Subject) -> None:
    """S6, C4: wakeAt at the top is ours; inside data and ui nothing is."""
    expected = {**_PREPARED, "wake_at": "2026-01-01T09:00:00Z"}
    assert (await subject.play(PREPARES)).value == expected


async def test_a_state_s_names_are_the_script_s_own(subject: Subject) -> None:
    """P2: a producer's state round-trips, whatever its keys are called."""
    assert (await subject.play(STATE_WITH_WAKE, step=Step.PRODUCE)).value == {"wakeAt": 1}


# -- Strict JSON --------------------------------------------------------------------------------


def _nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


_CYCLE = (Let("ring", {"data": {}}), Let("ring.data.ring", ref("ring")), Return(ref("ring")))
_SCRIPTED_NO_JSON: dict[str, tuple[Any, ...]] = {
    "integer": (Return({"data": {"list": [1, 2**53]}}),),
    "cycle": _CYCLE,
    "depth": (Return({"data": _nested(102)}),),
}
# A hundred levels and the two around them pass; a hundred and two lists inside an object do not.
NO_JSON = {
    "javascript": {
        "function": ("return {data: {list: [1, () => 1]}};", "data.list[1]"),
        "NaN": ("return {data: {list: [1, NaN]}};", "data.list[1]"),
        "infinity": ("return {data: {list: [1, -Infinity]}};", "data.list[1]"),
        "integer": ("return {data: {list: [1, 2 ** 53]}};", "data.list[1]"),
        "big integer": ("return {data: {list: [1, 1n]}};", "data.list[1]"),
        "symbol": ("return {data: {list: [1, Symbol.iterator]}};", "data.list[1]"),
        "half a character": (r'return {data: {list: [1, "\ud800"]}};', "data.list[1]"),
        "cycle": ("const ring = {data: {}}; ring.data.ring = ring; return ring;", "data"),
        "depth": (
            "let deep = 1; for (let n = 0; n < 102; n++) deep = [deep]; return {data: deep};",
            "data[0]",
        ),
    },
    "python": {
        "function": ('return {"data": {"list": [1, body]}}', "data.list[1]"),
        "NaN": ('return {"data": {"list": [1, float("nan")]}}', "data.list[1]"),
        "infinity": ('return {"data": {"list": [1, float("-inf")]}}', "data.list[1]"),
        "integer": ('return {"data": {"list": [1, 2 ** 53]}}', "data.list[1]"),
        "set": ('return {"data": {"list": [1, {1}]}}', "data.list[1]"),
        "key": ('return {"data": {1: 2}}', "data"),
        "cycle": ('ring = {"data": {}}\nring["data"]["ring"] = ring\nreturn ring', "data"),
        "depth": (
            'deep = 1\nfor n in range(102):\n    deep = [deep]\nreturn {"data": deep}',
            "data[0]",
        ),
    },
    "scripted": {
        "integer": ("", "data.list[1]"),
        "cycle": ("", "data"),
        "depth": ("", "data[0]"),
    },
}


@pytest.mark.parametrize(
    ("subject", "what"),
    [(language, what) for language, cases in NO_JSON.items() for what in cases],
    indirect=["subject"],
)
async def test_a_result_that_is_no_json_breaks_with_its_path(subject: Subject, what: str) -> None:
    """T8: what is no strict JSON is a logic failure that names the place."""
    code, path = NO_JSON[subject.language][what]
    body = Body(code, code, _SCRIPTED_NO_JSON.get(what, ()))
    story = await subject.play(body)
    assert isinstance(story.end, Broke), story.end
    assert path in str(story.error), story.error
    assert not story.end.is_lost


DEEP_DATA = Body(
    javascript="let deep = 1; for (let n = 0; n < 100; n++) deep = [deep]; return {data: deep};",
    python='deep = 1\nfor n in range(100):\n    deep = [deep]\nreturn {"data": deep}',
    scripted=(Return({"data": _nested(100)}),),
)
DEEP_PAYLOAD = Body(
    javascript="""
    let deep = 1; for (let n = 0; n < 100; n++) deep = [deep];
    await ctx.publish("done", {title: "Deep", payload: deep});""",
    python="""
    deep = 1
    for n in range(100):
        deep = [deep]
    await ctx.publish("done", title="Deep", payload=deep)
    """,
    scripted=(Call("publish", ("done",), {"title": "Deep", "payload": _nested(100)}),),
)
TOO_DEEP_PAYLOAD = Body(
    javascript=DEEP_PAYLOAD.javascript.replace("100", "103"),
    python=DEEP_PAYLOAD.python.replace("100", "103"),
    scripted=(Call("publish", ("done",), {"title": "Deep", "payload": _nested(103)}),),
)


async def test_data_of_a_hundred_levels_is_returned(subject: Subject) -> None:
    """N, T8: what stands around data does not count; the engine counts data itself."""
    assert (await subject.play(DEEP_DATA)).value == {"data": _nested(100)}


async def test_a_payload_of_a_hundred_levels_is_published(subject: Subject) -> None:
    """N, T8: what stands around a payload does not count; one far deeper makes no call."""
    (call,) = (await subject.play(DEEP_PAYLOAD, step=Step.PRODUCE)).calls
    assert call.kwargs["payload"] == _nested(100)
    story = await subject.play(TOO_DEEP_PAYLOAD, step=Step.PRODUCE)
    assert (story.calls, "payload" in str(story.error)) == ((), True)


NO_JSON_ARGUMENTS = Body(
    javascript="""
    try { await ctx.sheets.appendRow({values: [1, {deep: 2 ** 53}]}); }
    catch (error) { console.log("caught"); }
    await ctx.gmail.search({});""",
    python="""
    try:
        await ctx.sheets.append_row(values=[1, {"deep": 2 ** 53}])
    except BaseException:
        print("caught")
    await ctx.gmail.search()
    """,
    scripted=(
        Call("sheets.append_row", kwargs={"values": [1, {"deep": 2**53}]}),
        Call("gmail.search"),
    ),
)


async def test_an_argument_that_is_no_json_breaks_with_its_path(subject: Subject) -> None:
    """T8: an argument that is no strict JSON makes no call, and nothing catches it."""
    story = await subject.play(NO_JSON_ARGUMENTS)
    assert isinstance(story.end, Broke), story.end
    assert "values[1].deep" in str(story.error)
    assert (story.calls, story.said) == ((), [])
