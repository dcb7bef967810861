"""Webhooks: a message from outside that proves who sent it (G12).

Law 1  A signature covers the id, the time and the raw body, as Standard Webhooks say. A message
       that was signed more than five minutes ago, or that far ahead, proves nothing.
Law 2  An address with a key in it proves that the sender was told the address, and nothing about
       the body. Its key is made from the same secret and does not show it.
Law 3  The message id comes from the sender, or is made from the body: a delivery that is repeated
       is the same event.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from hashlib import sha256
from typing import Final

from duly.rules.value import Json

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
AWAY_S_MAX: Final = 300  # between the sender's clock and ours
SIGNED_AT_CHARS_MAX: Final = 12  # seconds since 1970, in digits
KEY_CHARS: Final = 40  # of the address; 160 bits
SIGNATURES_MAX: Final = 10  # a sender that changes its secret sends two
TITLE_CHARS_MAX: Final = 200
TITLES: Final = ("title", "subject", "type")  # what of a payload says what it is


def write_secret(secret: bytes) -> str:
    """Write a secret as Standard Webhooks do."""
    return PREFIX + base64.b64encode(secret).decode()


def sign(secret: str, message_id: str, signed_at: str, body: str) -> str:
    """Return the signature of a message."""
    signed = f"{message_id}.{signed_at}.{body}".encode()
    made = hmac.new(_bytes(secret), signed, sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}"


def is_signed(
    secret: str, *, message_id: str, signed_at: str, signature: str, body: str, now_ms: int
) -> bool:
    """Tell whether one of the signatures is right, and not too old (law 1)."""
    if not signed_at.isascii() or not signed_at.isdigit() or len(signed_at) > SIGNED_AT_CHARS_MAX:
        return False
    if abs(int(signed_at) - now_ms // 1000) > AWAY_S_MAX:
        return False
    wanted = sign(secret, message_id, signed_at, body).encode()
    given = signature.split(" ")[:SIGNATURES_MAX]
    return any([hmac.compare_digest(wanted, each.encode()) for each in given])  # noqa: C419  # all


def url_key(secret: str) -> str:
    """Return the key of the address that goes with a secret (law 2)."""
    return hmac.new(_bytes(secret), b"url", sha256).hexdigest()[:KEY_CHARS]


def is_key(secret: str, key: str) -> bool:
    """Tell whether this is the key of the address."""
    return hmac.compare_digest(url_key(secret).encode(), key.encode())


def id_of(body: str) -> str:
    """Make a message id of a body, for a sender that gives none (law 3)."""
    return f"sha256-{sha256(body.encode()).hexdigest()}"


def title_of(payload: Json, message_id: str) -> str:
    """Return what a person recognises the message by."""
    given = payload if isinstance(payload, dict) else {}
    for name in TITLES:
        text = given.get(name)
        if isinstance(text, str) and text.strip():
            return " ".join(text.split())[:TITLE_CHARS_MAX]
    return f"Webhook {message_id}"[:TITLE_CHARS_MAX]


def _bytes(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
