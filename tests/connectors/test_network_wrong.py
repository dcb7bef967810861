"""Connectors and services that are wrong about one thing: each fails for its own reason.

Each has its counterpart, which differs in that one thing and passes: the same connector on a better
service, or a more careful connector on the same one.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest

import duly
from duly.connectors.rest import KeyPlace, Paging, Rest, Verify
from duly.errors import NotSent, Refused, UnknownOutcome
from duly.testing import ExamFailed, WebReply, examine, examine_network, look_at_disk
from tests.connectors.post_office import HOST
from tests.connectors.shop import Shop
from tests.connectors.test_network_exam import count_orders
from tests.connectors.wrong_shops import (
    Bare,
    Crowd,
    Edited,
    Forgetful,
    Lagging,
    Renaming,
    Unique,
    UniqueLagging,
)

KEY = KeyPlace("header", "Idempotency-Key")
PAGES = Paging(items="orders", cursor="next", parameter="cursor")
ALL = Verify("/orders", match="key", items="orders", paging=PAGES)
REPLIES = (
    WebReply("302 Found", "Location: orders\r\n", is_done=True),
    WebReply("302 Found", "Location: /elsewhere\r\n"),
    WebReply("409 No"),
    WebReply("503 No", is_done=True),
)
LOST = r"the answer is lost after 0 of \d+ bytes: "


# -- Connectors -----------------------------------------------------------------------------------


class Plain(Rest):
    """It works; the others differ from it in one thing."""

    name = "plain"

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        return await self.change(call, "POST", "/orders", body={"item": item}, key=KEY)

    @duly.mutation(lag_s=5)
    async def order(self, call: duly.Call, item: str) -> Any:
        return await self.dispatch(call, item)

    @order.reconcile
    async def order_happened(self, call: duly.Call) -> Any:
        return await self.find(call, ALL)


class Careful(Plain):
    """What it does not find it does not deny."""

    async def order_happened(self, call: duly.Call) -> Any:
        found: Any = await self.find(call, ALL)
        is_found = isinstance(found, duly.Applied)
        return found if is_found else duly.Unsure("the search may lag, or the key be gone")


class Retrying(Plain):
    """Its client tries again by itself when it has no good answer."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome:
            return await super().dispatch(call, item)


class Reusing(Plain):
    """Its client keeps connections; one that ends in silence was stale, so it takes a fresh one."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "answered" in str(error) or "took longer" in str(error):
                raise
            return await super().dispatch(call, item)


class Eager(Plain):
    """It believes a search that may lag."""


class FirstPage(Plain):
    """It looks at the first page alone."""

    async def order_happened(self, call: duly.Call) -> Any:
        page = await self.list_page("/orders", PAGES)
        keys = [each["key"] for each in page.items]
        return duly.Applied() if call.key in keys else duly.NotApplied()


class Beginning(Plain):
    """Compares the beginning of a key."""

    async def order_happened(self, call: duly.Call) -> Any:
        found: Any = await self.find(call, ALL)
        page = await self.list_page("/orders", PAGES, after="4")
        is_like = any(str(each["key"]).startswith(call.key[:8]) for each in page.items)
        return duly.Applied() if is_like else found


class Redirected(Plain):
    """Takes a redirect for a yes, as a form in a browser does."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "redirect" in str(error):
                return {}
            raise


class Known(Plain):
    """Takes a conflict for "I have it already", also in the first send."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "answered 409" in str(error):
                return {}
            raise


class Looking(Plain):
    """Asks at once after a conflict, as an operation with a verify request does."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        more: Any = {"body": {"item": item}, "key": KEY, "look": self.order_happened}
        return await self.change(call, "POST", "/orders", **more)


class LookingCareful(Looking, Careful):
    """Asks at once after a conflict, and denies nothing."""


class Trusting(LookingCareful):
    """Takes what its search does not find for a no, and asks at once after a conflict."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            found = (
                await self.order_happened(call) if "answered 409" in str(error) else duly.Applied()
            )
            if isinstance(found, duly.Applied):
                raise
            raise Refused(str(error)) from error


class Denying(Plain):
    """Takes a conflict for a refusal, since it has sent the call once."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "answered 409" in str(error):
                raise Refused(str(error)) from error
            raise


class ByColumn(Plain):
    """It looks for its key in a column, and does not ask whether the column is there."""

    async def order_happened(self, call: duly.Call) -> Any:
        answer: Any = await self.fetch("/orders", is_proof=True)
        keys = [each.get("key") for each in answer["orders"]]
        return duly.Applied() if call.key in keys else duly.NotApplied()


class ByMark(Plain):
    """It writes a mark into the text, and looks for it there."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        return await super().dispatch(call, f"{item} <!-- duly:{call.key} -->")

    async def order_happened(self, call: duly.Call) -> Any:
        answer: Any = await self.fetch("/orders", is_proof=True)
        is_there = any(f"duly:{call.key} " in str(each["item"]) for each in answer["orders"])
        return duly.Applied() if is_there else duly.NotApplied()


class Certain5xx(Plain):
    """It takes a server error for a refusal."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "answered 503" in str(error):
                raise Refused(str(error)) from error
            raise


class Impatient(Plain):
    """It takes the end of its time for "not sent"."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "took longer" in str(error):
                raise NotSent(str(error)) from error
            raise


class Following(Plain):
    """Its client follows redirects, and sends the change once more."""

    url = ""

    def __init__(self, url: str, **more: Any) -> None:
        super().__init__(url, **more)
        object.__setattr__(self, "url", url)

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        return await self.in_thread(self._post, f"{self.url}/orders", call, item)

    def _post(self, url: str, call: duly.Call, item: str, left: int = 3) -> Any:
        place = urlsplit(url)
        way = http.client.HTTPConnection(str(place.hostname), place.port, timeout=0.3)
        try:
            head = {"Idempotency-Key": call.key, "Content-Type": "application/json"}
            way.request("POST", place.path, json.dumps({"item": item}), head)
            answer = way.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnknownOutcome(str(error)) from error
        finally:
            way.close()
        where = answer.headers.get("Location")
        if where is not None and left:
            return self._post(urljoin(url, where), call, item, left - 1)
        if answer.status != 201:
            raise UnknownOutcome(f"answered {answer.status}")
        try:
            return json.loads(said)
        except ValueError as error:
            raise UnknownOutcome("it makes no sense") from error


class Staying(Plain):
    """When its time is over it waits for the answer all the same, and counts it."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        task = asyncio.ensure_future(
            asyncio.to_thread(_post_and_wait, self.url_of(call), call, item)
        )
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(task)
        return task.result()

    def url_of(self, call: duly.Call) -> str:
        return str(getattr(self, "_url_given", ""))


def _post_and_wait(url: str, call: duly.Call, item: str) -> Any:
    place = urlsplit(url)
    way = http.client.HTTPConnection(str(place.hostname), place.port)
    try:
        head = {"Idempotency-Key": call.key, "Content-Type": "application/json"}
        way.request("POST", f"{place.path}/orders", json.dumps({"item": item}), head)
        answer = way.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise UnknownOutcome(f"answered {answer.status}")
        return json.loads(said)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnknownOutcome(str(error)) from error
    finally:
        way.close()


class Blocking(Plain):
    """It blocks in a thread without a limit of time, which outlives its call."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        return await self.in_thread(
            _post_and_wait, str(getattr(self, "_url_given", "")), call, item
        )


# -- The exam -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wrong:
    """A connector on a service that fails, how, and the pair beside it that passes."""

    kind: type[Plain]
    service: type[Shop]
    says: str
    passes: tuple[type[Plain], type[Shop]]


DENIED = "reconcile said NotApplied, and it was done"
WRONG = {
    "a redirect that is a yes": Wrong(
        Redirected,
        Forgetful,
        "answers 302 Found, and does nothing: it answered, and nothing was done",
        (Plain, Forgetful),
    ),
    "a conflict that is a yes": Wrong(
        Known,
        Forgetful,
        "answers 409 No, and does nothing: it answered, and nothing was done",
        (Plain, Forgetful),
    ),
    "a conflict with a copy of itself": Wrong(
        Denying,
        Unique,
        "a proxy sends the request twice: it said refused .*, and it was done",
        (Looking, Unique),
    ),
    "a conflict and a search that lags": Wrong(
        Trusting,
        UniqueLagging,
        "a proxy sends the request twice: it said refused .*, and it was done",
        (LookingCareful, UniqueLagging),
    ),
    "a hidden retry": Wrong(
        Retrying,
        Forgetful,
        "answers 503 No, after it did it: there were 2 changes",
        (Plain, Forgetful),
    ),
    "a connection that was kept": Wrong(
        Reusing, Forgetful, f"{LOST}there were 2 changes", (Plain, Forgetful)
    ),
    "a search that lags": Wrong(Eager, Lagging, DENIED, (Careful, Lagging)),
    "the first page alone": Wrong(FirstPage, Crowd, DENIED, (Plain, Crowd)),
    "an id that the server changed": Wrong(Plain, Renaming, DENIED, (Careful, Renaming)),
    "a column of keys that is gone": Wrong(ByColumn, Bare, DENIED, (ByColumn, Forgetful)),
    "a text that a person edited": Wrong(ByMark, Edited, DENIED, (ByMark, Forgetful)),
    "a server error that is no refusal": Wrong(
        Certain5xx,
        Forgetful,
        "answers 503 No, after it did it: it said refused .*, and it was done",
        (Plain, Forgetful),
    ),
    "a time that was over": Wrong(
        Impatient,
        Forgetful,
        "the server is silent: it said not sent .*, and it was done",
        (Plain, Forgetful),
    ),
    "a redirect that is followed": Wrong(
        Following,
        Forgetful,
        "answers 302 Found, after it did it: there were 2 changes",
        (Plain, Forgetful),
    ),
    "an answer that came late": Wrong(
        Staying,
        Forgetful,
        r"a byte at a time: its time was over, and it went on for .* and more \(.*task",
        (Plain, Forgetful),
    ),
    "a thread that stays": Wrong(
        Blocking,
        Forgetful,
        r"the server is silent: its time was over, and it went on for .* and more \(.*thread",
        (Plain, Forgetful),
    ),
}


def take_exam(kind: type[Plain], service: type[Shop], folder: Path) -> None:
    is_crowd = issubclass(service, Crowd)

    def make(here: Path, port: int) -> Plain:
        made = kind(f"http://{HOST}:{port}/{here.name}", allow=[HOST])
        object.__setattr__(made, "_url_given", f"http://{HOST}:{port}/{here.name}")
        return made

    with service(folder) as shop:
        orders = count_orders(shop)
        examine_network(
            make,
            "order",
            {"item": "tea"},
            server=(HOST, shop.port),
            effects=lambda here: orders(here) - 4 * is_crowd,
            folder=folder,
            replies=REPLIES,
        )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    monkeypatch.setattr("duly.testing.network.END_S", 0.5)


def test_there_are_at_least_twelve_of_them() -> None:
    """Each is another connector or another service."""
    assert len({(each.kind, each.service) for each in WRONG.values()}) == len(WRONG) >= 12


@pytest.mark.parametrize("wrong", WRONG)
def test_each_fails_for_its_own_reason(tmp_path: Path, wrong: str) -> None:
    """L4, L5, L13: the exam names the fault at which it was found."""
    case = WRONG[wrong]
    with pytest.raises(ExamFailed, match=case.says):
        take_exam(case.kind, case.service, tmp_path)


@pytest.mark.parametrize("pair", sorted({each.passes for each in WRONG.values()}, key=str))
def test_what_differs_in_that_one_thing_passes(
    tmp_path: Path, pair: tuple[type[Plain], type[Shop]]
) -> None:
    """L4, L5: so it was that thing, and nothing else."""
    take_exam(*pair, tmp_path)


def test_the_beginning_of_a_key_is_not_the_key(tmp_path: Path) -> None:
    """L5: the exam asks about a call that was never sent, beside one with a key much like it."""
    with (
        Crowd(tmp_path) as shop,
        pytest.raises(ExamFailed, match="took the change of another key for its own"),
    ):
        examine(
            lambda here: Beginning(f"{shop.url}/{here.name}", allow=[HOST]),
            "order",
            {"item": "tea"},
            effects=lambda here: len(shop.orders(here.name)) - 4,
            folder=tmp_path,
            look=look_at_disk,
        )
