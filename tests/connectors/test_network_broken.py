"""Connectors that are wrong about one thing of the network: each fails for its own reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.rest import KeyPlace, Paging, Rest, Verify
from duly.errors import Refused, UnknownOutcome
from duly.testing import ExamFailed, WebReply, examine, examine_network, look_at_disk
from tests.connectors.post_office import HOST
from tests.connectors.shop import Shop
from tests.connectors.test_network_exam import count_orders

KEY = KeyPlace("header", "Idempotency-Key")
PAGES = Paging(items="orders", cursor="next", parameter="cursor")
ALL = Verify("/orders", match="key", items="orders", paging=PAGES)


class Busy(Rest):
    """It works, in a shop with many orders of others; the rest differ from it in one thing."""

    name = "busy"

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        return await self.change(call, "POST", "/orders", body={"item": item}, key=KEY)

    @duly.mutation(lag_s=5)
    async def order(self, call: duly.Call, item: str) -> Any:
        return await self.dispatch(call, item)

    @order.reconcile
    async def order_happened(self, call: duly.Call) -> Any:
        return await self.find(call, ALL)


class FirstPage(Busy):
    """Looks at the first page alone, and the order is on the third."""

    async def order_happened(self, call: duly.Call) -> Any:
        page = await self.list_page("/orders", PAGES)
        keys = [each["key"] for each in page.items]
        return duly.Applied() if call.key in keys else duly.NotApplied()


class Beginning(Busy):
    """Compares the beginning of a key."""

    async def order_happened(self, call: duly.Call) -> Any:
        found: Any = await self.find(call, ALL)
        page = await self.list_page("/orders", PAGES, after="4")
        keys = [str(each["key"]) for each in page.items]
        is_like = any(each.startswith(call.key[:8]) for each in keys)
        return duly.Applied() if is_like else found


class Redirected(Busy):
    """Takes a redirect for a yes, as a form in a browser does."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "redirect" in str(error):
                return {}
            raise


class Known(Busy):
    """Takes "conflict" for "I have it already", also in the first send."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except Refused as error:
            if "409" in str(error):
                return {}
            raise


class Certain500(Busy):
    """Takes a server error for a refusal."""

    async def dispatch(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().dispatch(call, item)
        except UnknownOutcome as error:
            if "answered 500" in str(error):
                raise Refused(str(error)) from error
            raise


BROKEN: dict[type[Busy], str] = {
    FirstPage: "reconcile said NotApplied, and it was done",
    Redirected: "answers 302 Found, and does nothing: it answered, and nothing was done",
    Known: "answers 409 No, and does nothing: it answered, and nothing was done",
    Certain500: "answers 500 No, after it did it: it said refused .*, and it was done",
}
REPLIES = (
    WebReply("302 Found", "Location: /elsewhere\r\n"),
    WebReply("409 No"),
    WebReply("500 No", is_done=True),
)


class Crowd(Shop):
    """A shop in which others order too: four orders stand before those of the exam."""

    def orders(self, space: str = "a") -> list[dict[str, Any]]:
        place = self.folder / space
        place.mkdir(parents=True, exist_ok=True)
        for number in range(4):
            other = place / f"{number + 1:04}.json"
            if not other.exists():
                other.write_text(
                    json.dumps({"item": "milk", "id": number, "key": f"other-{number}"})
                )
        return super().orders(space)


def take_exam(kind: type[Busy], folder: Path) -> None:
    with Crowd(folder) as shop:
        orders = count_orders(shop)
        examine_network(
            lambda here, port: kind(f"http://{HOST}:{port}/{here.name}", allow=[HOST]),
            "order",
            {"item": "tea"},
            server=(HOST, shop.port),
            effects=lambda here: orders(here) - 4,
            folder=folder,
            replies=REPLIES,
        )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)


def test_the_one_that_works_passes(tmp_path: Path) -> None:
    """L5: the order is found on the third page."""
    take_exam(Busy, tmp_path)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_connector_fails_for_its_own_reason(tmp_path: Path, kind: type[Busy]) -> None:
    """L4, L5, K2: one page of three, a redirect, a conflict, a server error."""
    with pytest.raises(ExamFailed, match=BROKEN[kind]):
        take_exam(kind, tmp_path)


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
