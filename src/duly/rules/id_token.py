"""Reads which account a sign-in is of, out of what the provider says with a token (K9).

    read_id_token(answer["id_token"], client_id)     # SignedAccount("3f…", "ada@example.com")

Law 1: an id token is believed only as a part of the answer of the token endpoint. It came from
       there over TLS, so its signature is not looked at (OpenID Connect Core 3.1.3.7).
Law 2: it must be for this client and name its issuer and its subject, or the whole answer is none.
Law 3: accounts are compared by issuer and subject. The name is for people, and proves nothing.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from duly.errors import Invalid
from duly.rules.value import Json, canonical, decode

ID_TOKEN_CHARS_MAX: Final = 16_000
NAME_CHARS_MAX: Final = 200
NAMES: Final = ("email", "preferred_username", "upn", "name")
# Scopes by which a provider says who signed in; what Duly may do does not depend on them.
IDENTITY: Final = frozenset({"openid", "profile", "email", "userinfo.email"})


@dataclass(frozen=True, slots=True)
class SignedAccount:
    """The account that signed in: what it is compared by, and what people call it."""

    id: str = ""  # empty: the provider does not say
    name: str = ""

    def is_other(self, before: SignedAccount) -> bool:
        """Tell whether this is not known to be the account of before, which was known."""
        return bool(before.id) and self.id != before.id


def is_identity(scope: str) -> bool:
    """Tell whether a scope is there to say who signed in; Google writes an address before it."""
    return scope.rpartition("/")[2] in IDENTITY


def read_id_token(text: object, client_id: str) -> SignedAccount | None:
    """Return the account that an id token names; None if it is none of this client (law 2)."""
    if not isinstance(text, str) or len(text) > ID_TOKEN_CHARS_MAX or text.count(".") != 2:
        return None
    claims = _claims(text.split(".")[1])
    issuer, subject, audience = (claims.get(each) for each in ("iss", "sub", "aud"))
    receivers = audience if isinstance(audience, list) else [audience]
    if not (isinstance(issuer, str) and issuer and isinstance(subject, str) and subject):
        return None
    if client_id not in receivers:
        return None
    # Google has written its own name with and without https.
    whose: Json = [issuer.removeprefix("https://"), subject]
    return SignedAccount(sha256(canonical(whose)).hexdigest(), _name(claims))


def _claims(part: str) -> dict[str, Json]:
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        found = decode(data.decode())
    except (binascii.Error, ValueError, Invalid):
        return {}
    return found if isinstance(found, dict) else {}


def _name(claims: dict[str, Json]) -> str:
    names = (claims.get(each) for each in NAMES)
    fit = (each for each in names if isinstance(each, str) and each and each.isprintable())
    return next(fit, "")[:NAME_CHARS_MAX]
