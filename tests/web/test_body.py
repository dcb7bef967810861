"""What a request brings is judged before it is used: type, size, time, depth, twins (G10)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from duly.config import Limits
from duly.faces.web import body as bodies
from tests.web.stand import FORM, OWN, ask, bearer, cookie, fake, form

PAUSE: Final = "/api/v1/pause"
JSON: Final = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",  # what a form of another site may send without a preflight
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "text/json",
    ],
)
async def test_a_body_of_another_type_is_refused_before_it_is_read(kind: str) -> None:
    """G10: no parser is chosen by what a client calls its body."""
    app, door = fake()
    headers = {**bearer(), "content-type": kind}
    reply = await ask(app, PAUSE, "POST", headers=headers, body=b'{"workflow": "x"}')
    assert (reply.status, reply.json["code"]) == (415, "wrong_media_type")
    assert door.asked == []


@pytest.mark.parametrize("length", [str(2**30), "-1", "1e3", "99999999999999999999", "0x10"])
async def test_a_body_that_says_it_is_too_long_is_not_read(length: str) -> None:
    """G10: its length is judged before its first byte."""
    app, door = fake()

    async def never() -> None:
        raise AssertionError("the body was read")

    headers = {**bearer(), **JSON, "content-length": length}
    reply = await ask(app, PAUSE, "POST", headers=headers, body=[never])
    assert (reply.status, reply.json["code"]) == (413, "body_too_long")
    assert door.asked == []


async def test_a_body_that_grows_past_its_limit_is_left() -> None:
    """G10: also where it says nothing of its length."""
    app, door = fake()
    pieces = [b'{"workflow": "', *[b"x" * 65_536] * 17, b'"}']
    reply = await ask(app, PAUSE, "POST", headers={**bearer(), **JSON}, body=pieces)
    assert (reply.status, reply.json["facts"]["limit"]) == (413, bodies.BODY_BYTES_MAX)
    assert door.asked == []


async def test_a_body_up_to_the_limit_is_taken() -> None:
    app, door = fake()
    whole = b'{"workflow": "' + b"x" * (bodies.BODY_BYTES_MAX - 16) + b'"}'
    assert len(whole) == bodies.BODY_BYTES_MAX
    reply = await ask(app, PAUSE, "POST", headers={**bearer(), **JSON}, body=whole)
    assert reply.status == 200
    assert len(door.asked) == 1


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G10: a slow client holds no place."""
    monkeypatch.setattr(bodies, "BODY_S_MAX", 0.02)
    app, door = fake()

    async def dawdle() -> None:
        await asyncio.sleep(60)

    pieces: list[Any] = [b'{"work', dawdle, b'flow": "x"}']
    reply = await ask(app, PAUSE, "POST", headers={**bearer(), **JSON}, body=pieces)
    assert (reply.status, reply.json["code"]) == (408, "body_late")
    assert door.asked == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"workflow": "a", "workflow": "b"}', "given_twice"),
        (b'{"workflow": ' + b"[" * 200 + b"]" * 200 + b"}", "too_deep"),
        (b'{"workflow": [' + b"0," * 100_001 + b"0]}", "too_many"),
        (b'{"workflow": "\xff"}', "not_utf8"),
        (b'{"workflow": NaN}', "not_json"),
        (b'{"workflow": "x"', "not_json"),
        (b"[]", "wrong_value"),
        (b'"x"', "wrong_value"),
        (b"null", "wrong_value"),
    ],
)
async def test_a_body_that_is_no_plain_object_is_refused(text: bytes, code: str) -> None:
    """G10: depth, twins and numbers of values are judged before anything is asked."""
    app, door = fake()
    reply = await ask(app, PAUSE, "POST", headers={**bearer(), **JSON}, body=text)
    assert (reply.status, reply.json["code"]) == (400, code)
    assert "line" not in reply.json["detail"]  # that is what the control socket calls it
    assert '"verb"' not in reply.json["detail"]
    assert door.asked == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=1&limit=2", "given_twice"),
        ("a=" + "x" * 20_000, "too_long"),
        ("&".join(f"a{number}=1" for number in range(200)), "wrong_shape"),
        ("topic=%ff", "wrong_shape"),
    ],
)
async def test_a_query_that_says_too_much_is_refused(query: str, code: str) -> None:
    app, door = fake()
    reply = await ask(app, f"/api/v1/events?{query}", headers=bearer())
    assert (reply.status, reply.json["code"]) == (400, code)
    assert door.asked == []


async def test_a_query_says_text_and_what_is_no_text_is_json() -> None:
    app, door = fake()
    query = "workflow=12&topic=true&limit=20&after=7"
    await ask(app, f"/api/v1/events?{query}", headers=bearer())
    (asked,) = door.asked
    assert asked.args == {"workflow": "12", "topic": "true", "limit": 20, "after": 7}


async def test_a_text_that_looks_like_a_number_stays_a_text() -> None:
    """T2: a message id is text, also where a number could be given."""
    app, door = fake()
    signed = {**cookie(), **OWN, **FORM}
    for text in ("42", "1.0", "true", "[]"):
        fields = form(workflow="x", topic="in", message_id=text)
        await ask(app, "/act/skip", "POST", headers=signed, body=fields)
    assert [each.args["message_id"] for each in door.asked] == ["42", "1.0", "true", "[]"]


async def test_a_form_of_another_type_or_size_is_refused() -> None:
    """G10: a form is judged like any other body."""
    app, door = fake()
    signed = {**cookie(), **OWN}
    long = form(workflow="x" * bodies.BODY_BYTES_MAX)
    for headers, content, status in (
        ({**signed, **JSON}, b"{}", 415),
        ({**signed, **FORM}, long, 413),
        ({**signed, **FORM}, b"workflow=a&workflow=b", 400),
    ):
        reply = await ask(app, "/act/pause", "POST", headers=headers, body=content)
        assert reply.status == status
    assert door.asked == []
    stranger = form(code="0" * bodies.FORM_BYTES_MAX)
    reply = await ask(app, "/sign-in", "POST", headers={**OWN, **FORM}, body=stranger)
    assert reply.status == 413


async def test_a_form_takes_a_script_as_long_as_a_script_may_be() -> None:
    """G14, N: without JavaScript too, and a browser writes each line end with six characters."""
    app, door = fake()
    door.answers["deploy"] = {"new": True}
    text = "# a line\n" * (Limits().source_bytes // 9)
    fields = {"source.language": "python", "source.text": text.replace("\n", "\r\n")}
    headers = {**cookie(), **OWN, **FORM}
    reply = await ask(app, "/act/deploy", "POST", headers=headers, body=form(**fields))
    assert reply.status == 303
    assert door.asked[0].args["source"] == {"language": "python", "text": text}


async def turn() -> None:
    """Let the loop turn until nothing more can happen by itself."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_large_bodies_wait_for_each_other() -> None:
    """G10: together they never fill the channel to the host; small ones and slow ones pass them."""
    app, door = fake()
    door.gate = asyncio.Event()
    headers = {**bearer(), **JSON}
    text = b'{"workflow": "' + b"x" * 70_000 + b'"}'
    large = [
        asyncio.ensure_future(ask(app, PAUSE, "POST", headers=headers, body=text))
        for _ in range(20)
    ]
    await turn()
    assert len(door.asked) == bodies.LARGE_AT_ONCE_MAX
    small = asyncio.ensure_future(
        ask(app, PAUSE, "POST", headers=headers, body=b'{"workflow": "y"}')
    )
    await turn()
    assert door.asked[-1].args["workflow"] == "y"
    door.gate.set()
    assert {each.status for each in await asyncio.gather(*large, small)} == {200}


async def test_a_webhook_with_a_large_body_waits_its_turn_as_well() -> None:
    """G10: what is open to every sender fills nothing either."""
    app, door = fake()
    door.gate = asyncio.Event()
    text = b'"' + b"x" * 70_000 + b'"'
    sent = [
        asyncio.ensure_future(ask(app, "/hooks/a/b/c", "POST", headers=JSON, body=text))
        for _ in range(20)
    ]
    await turn()
    assert len(door.asked) == bodies.LARGE_AT_ONCE_MAX
    door.gate.set()
    assert {each.status for each in await asyncio.gather(*sent)} == {202}
