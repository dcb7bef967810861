"""Connectors on the kit that were broken on purpose: the exam fails each for its own reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.rest import KeyPlace, Rest, Verify
from duly.errors import NotSent, UnknownOutcome
from duly.testing import ExamFailed, examine, look_at_disk
from tests.connectors.shop import Shop
from tests.connectors.test_http import count_orders

KEY = KeyPlace("header", "Idempotency-Key")
FIND = Verify("/orders", match="key", query={"key": "{key}"}, items="orders")


class Orders(Rest):
    """It works; the others differ from it in one thing."""

    name = "orders"
    place: KeyPlace | None = KEY
    question = FIND

    async def send(self, call: duly.Call, item: str) -> Any:
        return await self.change(call, "POST", "/orders", body={"item": item}, key=self.place)

    @duly.mutation
    async def order(self, call: duly.Call, item: str) -> Any:
        return await self.send(call, item)

    @order.reconcile
    async def order_happened(self, call: duly.Call) -> Any:
        return await self.find(call, self.question)


class Retrying(Orders):
    async def send(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().send(call, item)
        except UnknownOutcome:
            return await super().send(call, item)


class Certain(Orders):
    async def send(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().send(call, item)
        except UnknownOutcome as error:
            raise NotSent(str(error)) from error


class Silent(Orders):
    async def send(self, call: duly.Call, item: str) -> Any:
        try:
            return await super().send(call, item)
        except (NotSent, UnknownOutcome):
            return None


class Keyless(Orders):
    place = None


class Lookalike(Orders):
    async def order_happened(self, call: duly.Call) -> Any:
        found: Any = await self.fetch("/orders")
        items = [each["item"] for each in found["orders"]]
        return duly.Applied() if call.args["item"] in items else duly.NotApplied()


BROKEN = {
    Retrying: "there were 2 changes",
    Certain: "it said not sent .*and it was done",
    Silent: "it answered, and nothing was done",
    Keyless: "reconcile said NotApplied, and it was done",
    Lookalike: "reconcile took the change of another key for its own",
}


def take_exam(kind: type[Orders], folder: Path) -> None:
    with Shop(folder) as shop:
        shop.forgets_keys = True
        examine(
            lambda here: kind(f"{shop.url}/{here.name}", allow=["127.0.0.1"]),
            "order",
            {"item": "tea"},
            effects=count_orders(shop),
            folder=folder,
            modules=["duly.connectors.transport"],
            look=look_at_disk,
        )


def test_the_one_that_works_passes(tmp_path: Path) -> None:
    """L5: also where the service forgets keys, since it is asked before anything is sent again."""
    take_exam(Orders, tmp_path / "exam")


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_connector_fails_for_its_own_reason(tmp_path: Path, kind: type[Orders]) -> None:
    """L4, L5: a retry of its own, a wrong certainty, a swallowed error, no key, a look-alike."""
    with pytest.raises(ExamFailed, match=BROKEN[kind]):
        take_exam(kind, tmp_path / "exam")
