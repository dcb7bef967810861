"""Stripe's API on loopback, as https://docs.stripe.com/api describes it.

Served are create, retrieve and list of customers and refunds, retrieve and list of charges, which
other programs make, and idempotent requests
(https://docs.stripe.com/api/idempotent_requests): the first answer to a key is repeated, also if it
was an error, and another request under the same key is rejected. Bodies are forms; a parameter that
Stripe does not know is rejected.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import wall_ms

FORM: Final = "application/x-www-form-urlencoded"
KINDS: Final = {
    "charges": ("charge", "ch"),
    "customers": ("customer", "cus"),
    "refunds": ("refund", "re"),
}
KNOWN: Final = {
    "customers": frozenset({"name", "email", "description", "phone", "address", "metadata"}),
    "refunds": frozenset({"charge", "amount", "reason", "metadata"}),
}
TEXT_CHARS_MAX: Final = 5000
META_CHARS_MAX: Final = 500
LISTED: Final = ("limit", "starting_after", "ending_before", "created[gte]")
SAID: Final = {
    "unauthorized": (401, "invalid_request_error", "Invalid API Key provided"),
    "insufficient_scope": (403, "invalid_request_error", "The key has not the permissions"),
    "not_found": (404, "invalid_request_error", "No such object"),
    "idempotency": (400, "idempotency_error", "Keys can only be used with the same parameters"),
}


class StripeDouble(ServiceDouble):
    """One account for each key."""

    page_max = 100

    def new_account(self) -> dict[str, Any]:
        """Return an account in which nothing was made."""
        return {"charges": [], "customers": [], "refunds": [], "answers": {}}

    def effects(self, account: dict[str, Any]) -> int:
        """Count what was made."""
        return len(account["customers"]) + len(account["refunds"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as Stripe does."""
        fallback = (400, "invalid_request_error", rejected.message)
        status, kind, message = SAID.get(rejected.reason, fallback)
        return ServiceReply({"error": {"type": kind, "message": message}}, status)

    def put(self, account: str, kind: str = "customers", **fields: Any) -> str:
        """Let another program make an object; return its id."""
        return str(_put(self.account(account), kind, fields)["id"])

    @route("POST", "/{kind}", scopes=("write",), query=())
    def create(self, ask: ServiceAsk, kind: str) -> ServiceReply:
        """Make an object, once for each key."""
        if kind not in KNOWN:
            raise Rejected(404, "not_found")
        if ask.content_type != FORM:
            raise Rejected(400, "parameter", "The body must be a form.")
        key = ask.headers.get("idempotency-key", "")
        if len(key) > 255:
            raise Rejected(400, "parameter", "Idempotency-Key is longer than 255 characters")
        known: dict[str, tuple[bytes, ServiceReply]] = ask.account["answers"]
        if key in known:
            body, reply = known[key]
            if body != ask.body:
                raise Rejected(400, "idempotency")
            return ServiceReply(reply.body, reply.status, {"Idempotent-Replayed": "true"})
        fields = _read(kind, ask.body)
        if kind == "refunds" and fields.get("charge") != "ch_1":
            raise Rejected(400, "parameter", "No such charge")
        reply = ServiceReply(_put(ask.account, kind, fields))
        if key:
            known[key] = (ask.body, reply)
        return reply

    @route("GET", "/{kind}", scopes=("read", "write"), query=LISTED)
    def objects(self, ask: ServiceAsk, kind: str) -> ServiceReply:
        """List objects, the newest first."""
        if kind not in KINDS:
            raise Rejected(404, "not_found")
        least = int(ask.query.get("created[gte]", 0))
        found = [each for each in ask.account[kind][::-1] if each["created"] >= least]
        size = min(int(ask.query.get("limit", 10)), self.page_max)
        ids = [each["id"] for each in found]
        for name in ("starting_after", "ending_before"):
            if ask.query.get(name) not in (None, *ids):
                raise Rejected(400, "parameter", f"No such object: {ask.query[name]}")
        begin, end = 0, len(found)
        if "starting_after" in ask.query:
            begin = ids.index(ask.query["starting_after"]) + 1
        if "ending_before" in ask.query:
            end = ids.index(ask.query["ending_before"])
            begin = max(0, end - size)
            return _listed(kind, found[begin:end], is_more=begin > 0)
        return _listed(kind, found[begin : begin + size], is_more=begin + size < end)

    @route("GET", "/{kind}/{number}", scopes=("read", "write"))
    def get(self, ask: ServiceAsk, kind: str, number: str) -> ServiceReply:
        """Show one object."""
        found = [each for each in ask.account.get(kind, []) if each["id"] == number]
        if not found:
            raise Rejected(404, "not_found")
        return ServiceReply(found[0])


def _listed(kind: str, page: list[dict[str, Any]], *, is_more: bool) -> ServiceReply:
    more = {"object": "list", "url": f"/v1/{kind}", "has_more": is_more}
    return ServiceReply({**more, "data": page})


def _read(kind: str, body: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for place, value in parse_qsl(body.decode(), keep_blank_values=True):
        name, _, inner = place.partition("[")
        if name not in KNOWN[kind]:
            raise Rejected(400, "parameter", f"Received unknown parameter: {name}")
        if len(value) > (META_CHARS_MAX if name == "metadata" else TEXT_CHARS_MAX):
            raise Rejected(400, "parameter", f"Invalid string: {name} is too long")
        if inner:
            fields.setdefault(name, {})[inner.removesuffix("]")] = value
        else:
            fields[name] = value
    return fields


def _put(account: dict[str, Any], kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    name, prefix = KINDS[kind]
    number = f"{prefix}_{len(account[kind]) + 1:04}"
    made = {"id": number, "object": name, "created": wall_ms() // 1000, "metadata": {}, **fields}
    account[kind].append(made)
    return made
