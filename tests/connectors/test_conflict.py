"""Whose is what a conflict speaks of: the table of `conflict.py`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, Call, NotApplied, Unsure, Verdict
from duly.connectors.conflict import Theirs, find_own, is_alone
from duly.connectors.response import HttpResponse
from duly.connectors.s3 import S3
from duly.errors import Refused, Transient, UnknownOutcome
from tests.connectors.shop import Shop, status
from tests.connectors.test_http import connect, with_create
from tests.connectors.test_rest import call as http_call

AT = datetime(2026, 1, 1, tzinfo=UTC)
SENT = Call("shop.order", {}, "k1", "w", 1, AT)
OURS, NONE, OTHERS = Applied({"id": 7}), NotApplied(), Unsure("another is there")
THEIRS = Theirs("a release of another is there")
LOST = Transient("the server is silent")

# method, status, whether a key was sent, what an exact look finds (None: no way to look), is it
# alone?
TABLE: list[tuple[str, int, bool, Verdict | Transient | None, bool]] = [
    ("POST", 409, False, None, True),  # no proxy may repeat it, and the service knows no key
    ("PATCH", 412, False, None, True),
    ("POST", 409, True, None, False),  # "this key is being worked on"
    ("PUT", 409, False, None, False),  # a proxy may repeat it
    ("DELETE", 412, False, None, False),
    ("POST", 422, True, None, True),  # the request itself is wrong
    ("POST", 422, False, None, True),
    ("PUT", 422, True, None, False),  # a copy may meet what the first request did
    ("DELETE", 422, False, None, False),
    ("POST", 409, True, OURS, False),
    ("POST", 422, True, OURS, False),
    ("POST", 409, True, LOST, False),
    ("POST", 422, True, LOST, False),
    ("POST", 409, True, NONE, False),  # the service may still work on the first copy
    ("PATCH", 412, True, NONE, False),
    ("POST", 409, True, THEIRS, True),
    ("POST", 422, True, NONE, True),
    ("POST", 412, True, OTHERS, False),  # the question could not tell
    ("POST", 422, True, OTHERS, False),
    ("POST", 422, True, THEIRS, True),
    ("PATCH", 412, True, THEIRS, True),
    ("PUT", 412, True, THEIRS, False),
    ("PUT", 409, True, NONE, False),
    ("PUT", 412, True, OTHERS, False),
    ("PUT", 422, True, NONE, True),
    ("PUT", 400, True, OURS, True),  # no conflict: the look is not asked
]


@pytest.mark.parametrize(("method", "code", "has_key", "found", "expected"), TABLE)
async def test_a_conflict_is_a_no_only_where_nothing_of_the_call_is_in_the_way(
    method: str, code: int, has_key: bool, found: Verdict | Transient | None, expected: bool
) -> None:
    """L4, K2: a copy that a proxy sent, or a key that is being worked on, may be."""

    async def look(call: Call) -> Verdict:
        assert code != 400
        if isinstance(found, Transient):
            raise found
        assert found is not None
        return found

    asked: dict[str, Any] = {"look": None if found is None else look, "is_exact": True}
    response = HttpResponse(code)
    assert await is_alone(SENT, method, response, has_key=has_key, **asked) is expected
    for later in (replace(SENT, attempt=2), replace(SENT, sent_at=AT + timedelta(seconds=9))):
        assert not await is_alone(later, method, response, has_key=has_key, **asked)


async def test_a_422_that_says_that_it_exists_is_a_conflict_like_any() -> None:
    """L4: the first copy may have made it, and a replica that is asked may be behind."""

    async def look(call: Call) -> Verdict:
        return NONE

    said = b'{"errors": [{"resource": "Release", "code": "already_exists"}]}'
    for body, is_no in ((said, False), (b'{"errors": [{"code": "invalid"}]}', True)):
        response = HttpResponse(422, body=body)
        found = await is_alone(SENT, "POST", response, has_key=True, look=look, is_exact=True)
        assert found is is_no
        assert await is_alone(SENT, "POST", response, has_key=True) is is_no


@pytest.mark.parametrize("code", [409, 412, 422])
@pytest.mark.parametrize("verdict", [NONE, OTHERS, OURS])
async def test_a_search_never_makes_a_conflict_a_no(code: int, verdict: Verdict) -> None:
    """L4, L6: its index may be behind what a copy of the request has just made."""

    async def look(call: Call) -> Verdict:
        return verdict

    for method in ("POST", "PATCH", "PUT", "DELETE"):
        assert not await is_alone(SENT, method, HttpResponse(code), has_key=True, look=look)


async def test_what_is_in_the_way_of_a_precondition_is_ours_anothers_or_unknown() -> None:
    """L4: only what is certainly of another refuses."""

    async def find(verdict: Verdict | Transient) -> Applied:
        async def look(call: Call) -> Verdict:
            if isinstance(verdict, Transient):
                raise verdict
            return verdict

        return await find_own(SENT, look, "PUT x: 412")

    assert await find(OURS) == OURS
    with pytest.raises(Refused, match="of another is there"):
        await find(THEIRS)
    for each in (NONE, LOST, OTHERS):
        with pytest.raises(UnknownOutcome):
            await find(each)


async def test_an_operation_asks_its_service_after_a_conflict(tmp_path: Path) -> None:
    """L4, L5: it is refused only if a question about exactly this call finds nothing."""
    with Shop(tmp_path) as shop:
        found, asked = connect(shop, with_create()), http_call(item="tea")
        shop.next(status(409, is_done=True))
        with pytest.raises(UnknownOutcome, match="409"):
            await found.create_order(asked, item="tea")
        assert isinstance(await found.create_order_happened(asked), Applied)
        for number in (409, 422):
            shop.next(status(number))
            with pytest.raises(UnknownOutcome, match=str(number)):  # the list may be behind
                await found.create_order(http_call("k2", item="milk"), item="milk")
        exact = {"path": "/by-key/{key}", "match": "key"}
        found = connect(shop, with_create(verify=exact))
        shop.next(status(409))
        with pytest.raises(UnknownOutcome, match="409"):  # it may be at work on the first copy
            await found.create_order(http_call("k3", item="milk"), item="milk")
        shop.next(status(422))
        with pytest.raises(Refused, match="422"):
            await found.create_order(http_call("k4", item="milk"), item="milk")


async def test_an_object_without_a_version_is_of_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """L4: a page that stands before the bucket has no etag, and says nothing about the object."""
    found = S3("https://objects.example", "invoices")
    headers: list[tuple[str, str]] = []

    async def answer(*given: object) -> tuple[HttpResponse, str]:
        return HttpResponse(200, tuple(headers)), "HEAD x"

    monkeypatch.setattr(found, "_ask", answer)
    asked = replace(SENT, args={"key": "a.txt", "file": {"size": 1}})
    assert type(await found.put_happened(asked)) is Unsure
    headers.append(("etag", '"7"'))
    assert isinstance(await found.put_happened(asked), Theirs)


async def test_what_is_gone_after_a_delete_may_be_gone_by_it(tmp_path: Path) -> None:
    """L4: a copy of the request meets nothing; the settings may say that this is a yes."""
    gone = {"method": "DELETE", "path": "/nothing/{id}", "arguments": {"id": "string"}}
    tools = {"a": {**gone, "key": "none"}}
    tools["b"] = {**gone, "key": "none", "statuses": {"404": "done"}}
    with Shop(tmp_path) as shop:
        found = connect(shop, tools)
        with pytest.raises(UnknownOutcome, match="404"):
            await found.a(http_call(id="x"), id="x")
        await found.b(http_call(id="x"), id="x")
