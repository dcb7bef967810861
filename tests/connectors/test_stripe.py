"""Stripe: one key makes one object, by its header for a day and by its metadata for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.registry import Registry
from duly.connectors.stripe import Stripe, write_form
from duly.errors import AuthNeeded, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.testing.doubles.base import Mishap, PlannedMishap
from duly.testing.doubles.stripe import StripeDouble
from tests.connectors.service_exam import TOKEN, happened, reach, send, take_exam

pytestmark = pytest.mark.anyio

CUSTOMER: dict[str, Any] = {
    "kind": "customers",
    "fields": {"name": "Ada", "address": {"city": "London"}, "metadata": {"order": 7}},
}

REFUND: dict[str, Any] = {"kind": "refunds", "fields": {"charge": "ch_1"}}


@pytest.fixture(scope="module")
def desk() -> Iterator[StripeDouble]:
    with StripeDouble() as made:
        yield made


@pytest.fixture
def stripe(desk: StripeDouble) -> Any:
    desk.accounts.clear()
    desk.give_token(TOKEN)
    return reach(desk, Stripe)


def test_a_change_passes_the_exam_for_the_network(
    desk: StripeDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    report = take_exam(desk, Stripe, "create", REFUND, tmp_path, monkeypatch)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


async def test_an_object_is_made_once(desk: StripeDouble, stripe: Any) -> None:
    """L5: the key is a header and stands in the metadata."""
    made = await send(stripe, "create", **CUSTOMER)
    assert await send(stripe, "create", **CUSTOMER) == made
    (kept,) = desk.account(TOKEN)["customers"]
    assert kept["metadata"] == {"order": "7", "duly_key": "k1"}
    assert kept["address"] == {"city": "London"}
    assert await happened(stripe, "create", **CUSTOMER) == Applied(made)
    # A customer who was deleted is in no list; of a refund there is none that could be deleted.
    assert isinstance(await happened(stripe, "create", "k2", **CUSTOMER), Unsure)
    refund: dict[str, Any] = {"kind": "refunds", "fields": {}}
    assert await happened(stripe, "create", "k2", **refund) == NotApplied()
    found = await stripe.get("customers", made["id"])
    assert (found["kind"], found["data"]["name"]) == ("customer", "Ada")
    assert await stripe.get("customers", "cus_9999") is None


async def test_a_refund_whose_key_was_edited_away_is_left_to_a_person(
    desk: StripeDouble, stripe: Any
) -> None:
    """L5: when Stripe has forgotten the key, it would be paid back twice."""
    await send(stripe, "create", **REFUND)
    desk.account(TOKEN)["refunds"][0]["metadata"].clear()
    assert isinstance(await happened(stripe, "create", **REFUND), Unsure)
    other = {**REFUND, "fields": {"charge": "ch_2"}}
    assert await happened(stripe, "create", **other) == NotApplied()


async def test_it_is_found_among_many(
    desk: StripeDouble, stripe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "page_max", 3)
    made = await send(stripe, "create", **CUSTOMER)
    for _ in range(10):
        desk.put(TOKEN)
    assert await happened(stripe, "create", **CUSTOMER) == Applied(made)
    other = await happened(stripe, "create", "k2", **CUSTOMER)
    assert isinstance(other, Unsure)
    assert "delete" in other.reason
    monkeypatch.setattr("duly.connectors.stripe.PAGES_MAX", 2)
    assert isinstance(await happened(stripe, "create", **CUSTOMER), Unsure)


async def test_no_object_is_missed(
    desk: StripeDouble, stripe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: a list goes on from what was returned last."""
    monkeypatch.setattr(desk, "page_max", 3)
    first = desk.put(TOKEN)
    after = (await stripe.list("customers")).names["last_cursor"]
    assert after == first
    wanted = [desk.put(TOKEN) for _ in range(8)]
    seen, has_more = [], True
    while has_more:
        page = await stripe.list("customers", after=after)
        seen += [each["id"] for each in page.items]
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert seen == wanted


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ({"status": 409}, UnknownOutcome),
        ({"status": 402}, Refused),
        ({"status": 403}, PermissionDenied),
        ({"status": 429}, Transient),
        ({"status": 500}, UnknownOutcome),
        ({"status": 200, "body": {}}, UnknownOutcome),
    ],
)
async def test_a_status_is_understood(
    desk: StripeDouble, stripe: Any, plan: dict[str, Any], error: type[Exception]
) -> None:
    """L4: 402 is a card that was declined, 409 another request with the key that is at work."""
    desk.plan(PlannedMishap(Mishap.STATUS, **plan))
    with pytest.raises(error):
        await send(stripe, "create", **CUSTOMER)


async def test_what_stripe_would_refuse_is_refused(desk: StripeDouble, stripe: Any) -> None:
    for kind, fields in (
        ("accounts", {}),
        ("customers", {"nothing": 1}),
        ("customers", {"a b": 1}),
        ("customers", {"name": "x" * 5001}),
        ("customers", {"metadata": {"a[b]": 1}}),
        ("refunds", {"charge": "ch_2"}),
    ):
        with pytest.raises(Refused):
            await send(stripe, "create", kind=kind, fields=fields)
    with pytest.raises(Refused, match="no id"):
        await stripe.get("customers", "../x")
    desk.give_token("reader", ("read",))
    with pytest.raises(PermissionDenied):
        await send(reach(desk, Stripe, "reader"), "create", **CUSTOMER)
    with pytest.raises(AuthNeeded):
        await send(reach(desk, Stripe, "none"), "create", **CUSTOMER)


def test_fields_become_a_form() -> None:
    made = write_form({"items": [{"price": "p", "quantity": 2}], "paid": True, "none": None})
    assert made == {"items[0][price]": "p", "items[0][quantity]": "2", "paid": "true"}
    deep: Any = {}
    for _ in range(6):
        deep = {"a": deep or 1}
    with pytest.raises(Refused, match="deeper than 5"):
        write_form(deep)


def test_a_key_is_forgotten_before_stripe_forgets_it() -> None:
    """L5: after 23 hours the list is asked, and nothing is sent again unasked."""
    tool = Registry([Stripe()]).catalog.find("stripe.create")
    assert (tool.idempotent, tool.key_lifetime_s, tool.reconciles) == (True, 23 * 3600, True)
