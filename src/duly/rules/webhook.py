"""Webhooks: a message from outside that proves who sent it (G12).

Law 1  A signature covers the raw body, and what else its sender signs: the id, the time. One that
       was made more than five minutes ago, or that far ahead, proves nothing.
Law 2  An address with a key in it proves that the sender was told the address, and nothing about
       the body. Its key is made from the same secret and does not show it.
Law 3  The message id comes from what is signed, or is made from the body: a delivery that is
       repeated is the same event, and one that is replayed is no other.
Law 4  How a sender signs is a row of `SCHEMES`. A message that is refused costs the same work,
       whether a hook is open or not.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from duly.errors import Invalid
from duly.rules.value import Json

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
AWAY_S_MAX: Final = 300  # between the sender's clock and ours
SIGNED_AT_CHARS_MAX: Final = 12  # seconds since 1970, in digits
KEY_CHARS: Final = 40  # of the address; 160 bits
SIGNATURES_MAX: Final = 10  # a sender that changes its secret sends two
SECRET_CHARS_MIN: Final = 16  # of a secret that a sender gave
SECRET_CHARS_MAX: Final = 500
TITLE_CHARS_MAX: Final = 200
TITLES: Final = ("title", "subject", "type", "action")  # what of a payload says what it is
# What a sender that signs nothing may call the id of its message.
IDS: Final = ("webhook-id", "idempotency-key", "x-github-delivery")
CHALLENGE: Final = "url_verification"  # Slack asks whether an address belongs to its owner


class HookSender(StrEnum):
    """Who sends, which says how a message is signed."""

    STANDARD = "standard"
    GITHUB = "github"
    SLACK = "slack"
    STRIPE = "stripe"


GIVES_SECRET: Final = (HookSender.SLACK, HookSender.STRIPE)  # the others take one that we make


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a sender signs.

    `signed` lists what is signed: "id", "at", "body", and text between them. Each signature stands
    in `header` behind `mark`, apart from others by `between`. The time stands in a header of its
    own, or in the same one behind `at_mark`; without either the sender signs none. The id stands in
    `id_header`, which is signed, or in the field `id_field` of the body.
    """

    header: str
    signed: tuple[str, ...]
    mark: str
    between: str = " "
    is_hex: bool = True
    is_key_encoded: bool = False
    at_header: str = ""
    at_mark: str = ""
    id_header: str = ""
    id_field: str = ""


# https://www.standardwebhooks.com; "Validating webhook deliveries" of GitHub, which signs the body
# alone; "Verifying requests from Slack"; "Resolve webhook signature verification" of Stripe.
SCHEMES: Final[Mapping[HookSender, Scheme]] = {
    HookSender.STANDARD: Scheme(
        header="webhook-signature",
        signed=("id", ".", "at", ".", "body"),
        mark="v1,",
        is_hex=False,
        is_key_encoded=True,
        at_header="webhook-timestamp",
        id_header="webhook-id",
    ),
    HookSender.GITHUB: Scheme(header="x-hub-signature-256", signed=("body",), mark="sha256="),
    HookSender.SLACK: Scheme(
        header="x-slack-signature",
        signed=("v0:", "at", ":", "body"),
        mark="v0=",
        at_header="x-slack-request-timestamp",
        id_field="event_id",
    ),
    HookSender.STRIPE: Scheme(
        header="stripe-signature",
        signed=("at", ".", "body"),
        mark="v1=",
        between=",",
        at_mark="t=",
        id_field="id",
    ),
}
# What of the head of a request the host looks at.
HOOK_HEADERS: Final = tuple(
    sorted(
        {*IDS}
        | {each.header for each in SCHEMES.values()}
        | {each.at_header for each in SCHEMES.values() if each.at_header}
    )
)


def write_secret(secret: bytes) -> str:
    """Write a secret as Standard Webhooks do."""
    return PREFIX + base64.b64encode(secret).decode()


DECOY: Final = write_secret(bytes(SECRET_BYTES))  # what a message is compared with in vain (law 4)


def check_secret(secret: object) -> str:
    """Return a secret that a sender gave, or refuse it; what it says is not repeated."""
    is_fine = isinstance(secret, str) and secret.isascii() and secret.isprintable()
    if not is_fine or not SECRET_CHARS_MIN <= len(str(secret)) <= SECRET_CHARS_MAX:
        facts = {"least": SECRET_CHARS_MIN, "most": SECRET_CHARS_MAX, "of": "printable"}
        raise Invalid(code="wrong_length", path="secret", facts=facts)
    return str(secret)


def name_secret(workflow: str, topic: str, sender: HookSender) -> str:
    """Return the name under which the secret of a hook is kept."""
    end = "" if sender is HookSender.STANDARD else f"@{sender}"
    return f"{workflow}/{topic}{end}"


def find_sender(headers: Mapping[str, str]) -> HookSender:
    """Tell by whom a message says that it is signed; without a signature by a standard sender."""
    found = (sender for sender, scheme in SCHEMES.items() if scheme.header in headers)
    return next(found, HookSender.STANDARD)


def sign(sender: HookSender, secret: str, *, message_id: str, signed_at: str, body: str) -> str:
    """Return the signature of a message, with its mark."""
    scheme = SCHEMES[sender]
    given = {"id": message_id, "at": signed_at, "body": body}
    signed = "".join(given.get(each, each) for each in scheme.signed)
    key = _decode(secret) if scheme.is_key_encoded else secret.encode()
    made = hmac.new(key, signed.encode(), sha256)
    text = made.hexdigest() if scheme.is_hex else base64.b64encode(made.digest()).decode()
    return f"{scheme.mark}{text}"


def is_signed(
    sender: HookSender, secret: str, headers: Mapping[str, str], body: str, now_ms: int
) -> bool:
    """Tell whether one of the signatures is right, and its time is near (law 1)."""
    scheme = SCHEMES[sender]
    given = headers.get(scheme.header, "").split(scheme.between)[: SIGNATURES_MAX + 1]
    parts = [each.strip() for each in given]
    signed_at = headers.get(scheme.at_header, "")
    if scheme.at_mark:
        times = [each.removeprefix(scheme.at_mark) for each in parts if _has(each, scheme.at_mark)]
        signed_at = times[0] if len(times) == 1 else ""
    message_id = headers.get(scheme.id_header, "")
    wanted = sign(sender, secret, message_id=message_id, signed_at=signed_at, body=body).encode()
    # All of them are compared, and the time is looked at last (law 4).
    found = [hmac.compare_digest(wanted, each.encode()) for each in parts]
    has_time = bool(scheme.at_header or scheme.at_mark)
    has_id = not scheme.id_header or bool(message_id)
    return any(found) and has_id and (not has_time or _is_near(signed_at, now_ms))


def _has(part: str, mark: str) -> bool:
    return part.startswith(mark)


def _is_near(signed_at: str, now_ms: int) -> bool:
    if not signed_at.isascii() or not signed_at.isdigit() or len(signed_at) > SIGNED_AT_CHARS_MAX:
        return False
    return abs(int(signed_at) - now_ms // 1000) <= AWAY_S_MAX


def url_key(secret: str) -> str:
    """Return the key of the address that goes with a secret (law 2)."""
    return hmac.new(_decode(secret), b"url", sha256).hexdigest()[:KEY_CHARS]


def is_key(secret: str, key: str) -> bool:
    """Tell whether this is the key of the address."""
    return hmac.compare_digest(url_key(secret).encode(), key.encode())


def id_of(body: str) -> str:
    """Make a message id of a body, for a sender that gives none (law 3)."""
    return f"sha256-{sha256(body.encode()).hexdigest()}"


def find_id(
    sender: HookSender, headers: Mapping[str, str], payload: Json, body: str, *, is_keyed: bool
) -> str:
    """Return the message id of what was sent (law 3).

    One that came to a secret address is signed by no sender, so that each of its headers counts.
    """
    if is_keyed:
        return next(filter(None, map(headers.get, IDS)), None) or id_of(body)
    scheme = SCHEMES[sender]
    given = payload.get(scheme.id_field) if isinstance(payload, dict) else None
    in_body = given if isinstance(given, str) else ""
    return headers.get(scheme.id_header, "") or in_body or id_of(body)


def is_challenge(sender: HookSender, payload: Json) -> bool:
    """Tell whether a sender only asks whether the address is right, before it sends events."""
    is_slack = sender is HookSender.SLACK
    return is_slack and isinstance(payload, dict) and payload.get("type") == CHALLENGE


def title_of(payload: Json, message_id: str) -> str:
    """Return what a person recognises the message by."""
    given = payload if isinstance(payload, dict) else {}
    for name in TITLES:
        text = given.get(name)
        if isinstance(text, str) and text.strip():
            return " ".join(text.split())[:TITLE_CHARS_MAX]
    return f"Webhook {message_id}"[:TITLE_CHARS_MAX]


def _decode(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
