"""Webhooks: a message from outside that proves who sent it (G12).

Law 1  A signature covers the raw body, and what else its sender signs: the id, the time. One that
       was made more than five minutes ago, or that far ahead, proves nothing.
Law 2  An address with a key in it proves that the sender was told the address, and nothing about
       the body. Its key is made from the same secret and does not show it.
Law 3  The message id comes from what is signed, or is made from the body: a delivery that is
       repeated is the same event, and one that is replayed is no other. Only of what came to a
       secret address the owner of the hook may say where its id stands, or that each is new.
Law 4  How a sender signs is a row of `SCHEMES`. A message that is refused costs the same work,
       whether a hook is open or not.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

import msgspec

from duly.errors import Invalid, short
from duly.rules.shown import visible
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
VALUE_CHARS_MAX: Final = 80  # of one field in a title
FIELDS_TOLD_MAX: Final = 2  # of a payload that does not say what it is
FIELD: Final = re.compile(r"\{([^{}]{1,80})\}")  # in the template of a title
TEMPLATE_FIELDS_MAX: Final = 10
NOT_TOLD: Final = re.compile(
    "|".join(("token", "secret", "passw", "key", "signature", "hash")), re.IGNORECASE
)
ID_DIGITS_SHOWN: Final = 8  # of a message id that was made from a body
ID_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}")  # of the header or field that has an id
# What a sender that signs nothing may call the id of its message.
IDS: Final = ("webhook-id", "idempotency-key", "x-github-delivery")
DIGEST: Final = "sha256-"  # so begins an id that was made from a body
ID_HEADER: Final = "x-"  # so begin the names of other headers that may have an id
ID_HEADERS_MAX: Final = 50  # of these, of one message
HOOKS: Final = "hooks"  # the "connector" of their secrets; each has the name `workflow/topic`
TEST_ID: Final = "test-1"  # of the post that tries a webhook
CHALLENGE: Final = "url_verification"  # Slack asks whether an address belongs to its owner


class HookSender(StrEnum):
    """Who sends, which says how a message is signed."""

    STANDARD = "standard"
    GITHUB = "github"
    SLACK = "slack"
    STRIPE = "stripe"


class IdFrom(StrEnum):
    """Where the id of a message stands that came to a secret address."""

    BODY = "body"  # the same body is the same event
    POST = "post"  # each post is an event of its own
    HEADER = "header"
    FIELD = "field"


class HookFault(StrEnum):
    """Why a post was refused, for the owner of the webhook; its sender is told less."""

    NOT_OPEN = "not_open"
    WRONG_KEY = "wrong_key"
    WRONG_SIGNATURE = "wrong_signature"
    NO_ID = "no_id"
    NOT_TAKEN = "not_taken"  # it proved who sent it, and can be no event
    WRONG_TYPE = "wrong_type"  # this and the next three are those of `UnreadFault`
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    TOO_FAST = "too_fast"


class UnreadFault(StrEnum):
    """Why a post was refused before it was read."""

    WRONG_TYPE = "wrong_type"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    TOO_FAST = "too_fast"


POSTS_MAX: Final = 1_000_000  # that were refused unread, in one sum


@dataclass(frozen=True, slots=True)
class HookTerms:
    """What the owner of a hook has said: where an id stands, and how a title is written."""

    id_from: IdFrom = IdFrom.BODY
    id_name: str = ""
    title: str = ""


USUAL: Final = HookTerms()
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
    return f"{DIGEST}{sha256(body.encode()).hexdigest()}"


def find_id(sender: HookSender, headers: Mapping[str, str], payload: Json, body: str) -> str:
    """Return the message id of what a sender has signed (law 3)."""
    scheme = SCHEMES[sender]
    given = payload.get(scheme.id_field) if isinstance(payload, dict) else None
    in_body = given if isinstance(given, str) else ""
    return headers.get(scheme.id_header, "") or in_body or id_of(body)


def find_chosen(
    terms: HookTerms, headers: Mapping[str, str], payload: Json, body: str, fresh: str
) -> str:
    """Return the id of what came to a secret address, as its owner has chosen (law 3).

    No sender signs it, so that each of its headers counts: one of the usual ones is its id, also
    where each post is new. `fresh` is an id that was never used. A message without the id that it
    should have is refused: taken as a repeat or as a new one, it could be lost, or twice.
    """
    if terms.id_from is IdFrom.HEADER:
        found: Json = headers.get(terms.id_name)
    elif terms.id_from is IdFrom.FIELD:
        found = _field(payload, terms.id_name)
    else:
        made = id_of(body) if terms.id_from is IdFrom.BODY else fresh
        return next(filter(None, map(headers.get, IDS)), None) or made
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        facts = {"place": str(terms.id_from), "name": terms.id_name}
        raise Invalid(code="hook_id_missing", path=terms.id_name, facts=facts)
    return str(found)


def check_terms(sender: HookSender, id_from: object, id_name: str, title: str) -> HookTerms:
    """Return what the owner of a hook has said, or refuse what cannot be meant."""
    if id_from not in tuple(IdFrom):
        facts: dict[str, Json] = {"given": short(id_from), "known": [*map(str, IdFrom)]}
        raise Invalid(code="not_one_of", path="id_from", facts=facts)
    chosen = IdFrom(str(id_from))
    if chosen is not IdFrom.BODY and sender is not HookSender.STANDARD:
        raise Invalid(code="hook_id_signed", path="id_from", facts={"sender": str(sender)})
    is_named = chosen in (IdFrom.HEADER, IdFrom.FIELD)
    name = id_name.lower() if chosen is IdFrom.HEADER else id_name
    if is_named and not name:
        raise Invalid(code="missing", path="id_name", facts={"of": f"id_from {chosen}"})
    is_header = name.startswith(ID_HEADER) or name in IDS
    if name and (ID_NAME.fullmatch(name) is None or (chosen is IdFrom.HEADER and not is_header)):
        facts = {"given": short(id_name), "headers": [*IDS], "begin": ID_HEADER}
        raise Invalid(code="hook_id_name", path="id_name", facts=facts)
    fields = FIELD.findall(title)
    is_plain = title.isprintable() and len(title) <= TITLE_CHARS_MAX
    if title and (not is_plain or not 0 < len(fields) <= TEMPLATE_FIELDS_MAX):
        facts = {"limit": TITLE_CHARS_MAX, "fields": TEMPLATE_FIELDS_MAX}
        raise Invalid(code="hook_title", path="title", facts=facts)
    return HookTerms(chosen, name if is_named else "", title)


def write_kept(secret: str, terms: HookTerms) -> str:
    """Write what is kept of a hook: its secret, and behind a line end what its owner has said."""
    if terms == USUAL:
        return secret
    return f"{secret}\n{msgspec.json.encode(asdict(terms)).decode()}"


def read_kept(kept: str) -> tuple[str, HookTerms]:
    """Read what is kept of a hook."""
    secret, _, terms = kept.partition("\n")
    return secret, msgspec.json.decode(terms, type=HookTerms) if terms else USUAL


def secret_of(connector: str, kept: str) -> str:
    """Return what of a kept secret is secret; of a hook its owner's words are not."""
    return read_kept(kept)[0] if connector == HOOKS else kept


def example_of(id_from: str, id_name: str, title: str) -> tuple[dict[str, str], dict[str, Json]]:
    """Return the headers and the body of a post that a webhook with these terms takes.

    >>> example_of("field", "order", "{order}: {customer.name}")
    ({}, {'order': 'test-1', 'customer': {'name': 'test'}})
    >>> example_of("header", "x-order", "")
    ({'x-order': 'test-1'}, {'title': 'Test'})
    """
    payload: dict[str, Json] = {}
    if id_from == IdFrom.FIELD:
        _place(payload, id_name, TEST_ID)
    for name in FIELD.findall(title):
        _place(payload, name, "test")
    headers = {id_name: TEST_ID} if id_from == IdFrom.HEADER else {}
    return headers, payload or {"title": "Test"}


def _place(payload: dict[str, Json], name: str, value: str) -> None:
    """Write a field where `_field` finds it; one that is there stays."""
    if _field(payload, name) is not None:
        return
    *parents, last = name.split(".")
    inner = payload
    for each in parents:
        below = inner.setdefault(each, {})
        if not isinstance(below, dict):  # a text stands there: found by its whole name too
            payload[name] = value
            return
        inner = below
    inner[last] = value


def is_challenge(sender: HookSender, payload: Json) -> bool:
    """Tell whether a sender only asks whether the address is right, before it sends events."""
    is_slack = sender is HookSender.SLACK
    return is_slack and isinstance(payload, dict) and payload.get("type") == CHALLENGE


def title_of(payload: Json, message_id: str, template: str = "") -> str:
    """Return what a person recognises the message by: one line, without a hidden character.

    >>> title_of({"name": "Ada", "wish": "a bike"}, "1", "{name}: {wish}")
    'Ada: a bike'
    >>> title_of({"name": "Ada", "wish": "a bike"}, "1")
    'name: Ada, wish: a bike'
    >>> title_of({}, "sha256-311bc8a2ff")
    'Webhook 311bc8a2'
    """
    given = payload if isinstance(payload, dict) else {}
    if any(_told(given, name) for name in FIELD.findall(template)):
        return _one_line(FIELD.sub(lambda found: _told(given, found[1]), template))
    for name in TITLES:
        if isinstance(given.get(name), str) and (text := _told(given, name, TITLE_CHARS_MAX)):
            return _one_line(text)
    told = [
        f"{name}: {text}"
        for name in given
        if not NOT_TOLD.search(name) and (text := _told(given, name))
    ]
    if told:
        return _one_line(", ".join(told[:FIELDS_TOLD_MAX]))
    made = message_id.removeprefix(DIGEST)
    return _one_line(f"Webhook {made[:ID_DIGITS_SHOWN] if made != message_id else made}")


def _one_line(text: str) -> str:
    """Write a text on one line; what could not be seen of it is spelled out."""
    return visible(" ".join(text.split())).strip()[:TITLE_CHARS_MAX] or "Webhook"


def _told(payload: Json, name: str, most_chars: int = VALUE_CHARS_MAX) -> str:
    """Write a field for a title; nothing, if it is no text and no number."""
    found = _field(payload, name)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return ""
    text = " ".join(str(found).split())
    return text if len(text) <= most_chars else f"{text[: most_chars - 1]}…"


def _field(payload: Json, name: str) -> Json:
    """Find a field by its name, or by names with points between."""
    found = payload
    if isinstance(found, dict) and name in found:
        return found[name]
    for each in name.split("."):
        found = found.get(each) if isinstance(found, dict) else None
    return found


def _decode(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
