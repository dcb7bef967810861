"""Stripe: customers, products, prices, invoices, payments and refunds, each made once.

    [connectors.stripe]
    use = "stripe"              # then: duly secret set stripe token   (rk_live_…, sk_…)

Law 1: every change has its key as `Idempotency-Key`, which Stripe keeps for a day, and in the
       metadata of what it makes, where a list finds it for good (L5).
Law 2: a list goes on from the object that was returned last, so none is missed (K11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.json_answer import pick
from duly.connectors.key_place import KeyPlace, sent_after
from duly.connectors.rest import FIND_S, PAGES_MAX
from duly.connectors.status import Meaning
from duly.connectors.template import text_of
from duly.connectors.token_service import TokenService, list_at, number_at, text_at
from duly.errors import Refused, Transient
from duly.rules.schedule import moment
from duly.rules.value import Json

ID: Final = re.compile(r"[a-z]{2,12}_[A-Za-z0-9_]{1,250}")
FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,60}")
PAGE: Final = 100
NOTHING_YET: Final = "nothing"  # a cursor before every object
FIELDS_MAX: Final = 200
DEPTH_MAX: Final = 5
KEY_LIFETIME_S: Final = 23 * 3600  # Stripe forgets a key after at least 24 hours
META: Final = "duly_key"
KEY: Final = KeyPlace("header", "Idempotency-Key")
# What can be made, which is also found again by its metadata; lists have a few kinds more.
MADE: Final = (
    "customers",
    "invoiceitems",
    "invoices",
    "payment_intents",
    "prices",
    "products",
    "refunds",
)
LASTING: Final = ("payment_intents", "prices", "refunds")  # of these none can be deleted
LISTED: Final = (*MADE, "balance_transactions", "charges", "events", "payouts", "subscriptions")
# 402: a card was declined; no permission would change that. 409: another request with this key is
# still at work.
STATUSES: Final[Mapping[int, Meaning]] = MappingProxyType(
    {402: Meaning.REFUSED, 409: Meaning.UNKNOWN}
)


class StripeObject(TypedDict):
    """An object of Stripe: what most have, and all of it in `data`."""

    id: str
    kind: str
    created_at: str
    amount: int
    currency: str
    status: str
    customer: str
    email: str
    data: dict[str, Any]


class StripeMade(TypedDict):
    """The object that a change made."""

    id: str


class Stripe(TokenService):
    """One account; `secret` names its key, best a restricted one."""

    name = "stripe"
    home = "https://api.stripe.com/v1"

    @read
    async def list(self, kind: str, after: str | None = None) -> Page[StripeObject]:
        """List objects of a kind (`charges`, `invoices`, …), the oldest first.

        Returns a page of {id, kind, created_at, amount, currency, status, customer, email, data};
        with `after` those made since, without it the newest 100. `amount` counts the smallest unit:
        1250 and `eur` is 12.50 euros. `status` is Stripe's word: a charge is `succeeded`, `pending`
        or `failed`. `data` has the rest, such as the `name` of a customer.
        """
        if after == NOTHING_YET:
            return await self._list_all(kind)
        query: dict[str, Json] = {"limit": PAGE}
        if after is not None:
            query["ending_before"] = _id(after)
        answer = await self.fetch(f"/{_kind(kind, LISTED)}", query)
        items = [_object(each) for each in reversed(list_at(answer, "data"))]
        is_more = after is not None and pick(answer, "has_more") is True
        last = items[-1]["id"] if items else after or NOTHING_YET
        return Page(items, last_cursor=last, has_more=is_more)

    async def _list_all(self, kind: str) -> Page[StripeObject]:
        """List the oldest of all objects: there were none at the look before (K11)."""
        found: list[Any] = []
        query: dict[str, Json] = {"limit": PAGE}
        for _ in range(PAGES_MAX):
            answer = await self.fetch(f"/{_kind(kind, LISTED)}", query)
            found += list_at(answer, "data")
            if pick(answer, "has_more") is not True or not found:
                break
            query["starting_after"] = text_at(found[-1], "id")
        else:
            most = f"more than {PAGES_MAX * PAGE:,} {kind} since"
            raise Refused(f"There are {most}. Look more often, or begin without after.")
        items = [_object(each) for each in reversed(found)]
        page, last = items[:PAGE], items[PAGE - 1 : PAGE] or items[-1:]
        cursor = last[0]["id"] if last else NOTHING_YET
        return Page(page, last_cursor=cursor, has_more=len(items) > PAGE)

    @read(by_id=True)
    async def get(self, kind: str, id: str) -> StripeObject | None:  # noqa: A002
        """Read one object.

        Returns as list does, or nothing.
        """
        answer = await self.fetch_one(f"/{_kind(kind, LISTED)}/{_id(id)}")
        is_there = answer is not None and pick(answer, "deleted") is not True
        return _object(answer) if is_there else None

    @mutation(
        risk="high",
        noun="object",
        lag_s=60,
        timeout_s=80,
        idempotent=True,
        key_lifetime_s=KEY_LIFETIME_S,
        key_in="header",
        asked="exactly",
        deleted="seen",
        labels={"kind": "Kind", "fields": "Fields"},
    )
    async def create(self, call: Call, kind: str, fields: dict[str, Any]) -> StripeMade:
        """Make a customer, product, price, invoice item, invoice, payment intent or refund.

        Returns {id}.
        """
        body: dict[str, Json] = dict(write_form(fields))
        if len(body) > FIELDS_MAX:
            raise Refused(f"fields: there are more than {FIELDS_MAX}.")
        body[f"metadata[{META}]"] = call.key
        answer = await self.change(
            call,
            "POST",
            f"/{_kind(kind, MADE)}",
            body=body,
            key=KEY,
            is_form=True,
            is_idempotent=True,
            statuses=STATUSES,
        )
        (made,) = self.made(call, answer, "id")
        return {"id": made}

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look through the objects that were made since the first send for the key."""
        kind = _kind(str(call.args["kind"]), MADE)
        query: dict[str, Json] = {"limit": PAGE}
        query["created[gte]"] = int(sent_after(call).timestamp())
        alike = ""
        for _ in range(PAGES_MAX):
            answer = await self.fetch(f"/{kind}", query, timeout_s=FIND_S, is_proof=True)
            found, has_more = pick(answer, "data"), pick(answer, "has_more")
            if not isinstance(found, list) or not isinstance(has_more, bool):
                return Unsure("the answer is no list that says whether it goes on")
            for each in found:
                if text_at(each, f"metadata.{META}") == call.key:
                    return Applied({"id": text_at(each, "id")})
                if not text_at(each, f"metadata.{META}") and _is_alike(each, call.args["fields"]):
                    alike = text_at(each, "id")
            if not has_more and alike:
                return Unsure(f"{alike} is alike and has no key, so it may have been made by this")
            if not has_more:
                said = f"it is not there; a person can delete {kind}, and Stripe then lists none"
                return NotApplied() if kind in LASTING else Unsure(said)
            if not found:
                raise Transient(f"GET /{kind}: the list does not go on.")
            query["starting_after"] = text_at(found[-1], "id")
        return Unsure(f"it is not among the newest {PAGES_MAX * PAGE:,}")


def _is_alike(found: Any, fields: Json) -> bool:
    """Tell whether an object has all values that a call gave it, but for metadata."""
    given = fields.items() if isinstance(fields, dict) else ()
    plain = {name: each for name, each in given if isinstance(each, str | int)}
    return bool(plain) and all(str(pick(found, name)) == str(plain[name]) for name in plain)


def write_form(fields: Mapping[str, Any]) -> dict[str, str]:
    """Write nested fields as Stripe takes them: `items[0][price]`."""
    found: dict[str, str] = {}
    for name, value in fields.items():
        if not FIELD.fullmatch(name):
            raise Refused(f"fields: {name[:50]!r} is no name of a field.")
        _write(name, value, found, 1)
    return found


def _write(place: str, value: Any, found: dict[str, str], depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Refused(f"fields: {place[:50]} is deeper than {DEPTH_MAX}.")
    if isinstance(value, dict):
        for name, each in value.items():
            if not isinstance(name, str) or not name or {"[", "]"} & {*name}:
                raise Refused(f"fields: {place}: {str(name)[:50]!r} is no name of a field.")
            _write(f"{place}[{name}]", each, found, depth + 1)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            _write(f"{place}[{at}]", each, found, depth + 1)
    elif (text := text_of(place, value)) is not None:
        found[place] = text


def _kind(kind: str, known: tuple[str, ...]) -> str:
    if kind not in known:
        raise Refused(f"kind: {kind[:50]!r} is none of {', '.join(known)}.")
    return kind


def _id(text: str) -> str:
    if not ID.fullmatch(text):
        raise Refused(f"{text[:50]!r} is no id of an object of Stripe.")
    return text


def _object(each: Any) -> StripeObject:
    amounts = ("amount", "amount_paid", "total", "unit_amount")
    customer = pick(each, "customer")
    return {
        "id": text_at(each, "id"),
        "kind": text_at(each, "object"),
        "created_at": moment(number_at(each, "created") * 1000).isoformat().replace("+00:00", "Z"),
        "amount": next((made for name in amounts if (made := number_at(each, name))), 0),
        "currency": text_at(each, "currency"),
        "status": text_at(each, "status"),
        "customer": customer if isinstance(customer, str) else text_at(each, "customer.id"),
        "email": text_at(each, "email") or text_at(each, "receipt_email"),
        "data": each if isinstance(each, dict) else {},
    }
