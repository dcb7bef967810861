"""Tokens: what a program or a browser shows to be let in over HTTP (G4, G6).

Law 1  A token is shown once, when it is made. What is kept of it finds its row (`id`) and proves
       the rest (`digest`); neither of them lets a caller in.
Law 2  A token has one scope, a name that the acts done with it are written down under, and an end
       or none. A device is a token that a browser keeps in a cookie.
Law 3  A link signs one browser in, once, within a minute by the wall clock and by the one that is
       never set. It is worth nothing once the token that made it is revoked or over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from duly.errors import Invalid, short
from duly.rules.schedule import DAY_MS
from duly.rules.verb import Scope

ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
LINK_MS: Final = 60_000
LINKS_MAX: Final = 20  # that can be used at one moment
DEVICE_DAYS: Final = 30
DAYS_MAX: Final = 3650
NAME_CHARS_MAX: Final = 80
_TOKEN: Final = re.compile(
    rf"duly_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})", re.ASCII
)


class TokenKind(StrEnum):
    """Who keeps a token: a program, or a browser."""

    TOKEN = "token"
    DEVICE = "device"


@dataclass(frozen=True, slots=True)
class OpenLink:
    """A link that was not used yet: the digest of its code, what it gives, by whom, until when.

    `made_at` and `until_ms` are of the wall clock, `until_tick_ms` of the one that is never set.
    """

    digest: str
    scope: Scope
    made_by: str
    made_at: int
    until_tick_ms: int

    @property
    def until_ms(self) -> int:
        """When its minute ends by the wall clock."""
        return self.made_at + LINK_MS

    def fits(self, code: str) -> bool:
        """Tell whether this is its code, in a time that does not say how much of it is."""
        return compare_digest(self.digest, digest(code))

    def is_over(self, now_ms: int, tick_ms: int) -> bool:
        """Tell whether its minute is over by either clock: one of them may be set back (law 3)."""
        return now_ms >= self.until_ms or tick_ms >= self.until_tick_ms

    def is_of_holder(self, actor: str, made_at: int) -> bool:
        """Tell whether a token made it: one of that name that was there when it was made."""
        return actor == self.made_by and made_at <= self.made_at

    @property
    def is_by_token(self) -> bool:
        """Tell whether a token made it, and not a user of the machine."""
        return is_token(self.made_by)


def write_token(row_id: str, secret: str) -> str:
    """Write a token as a program keeps it."""
    return f"duly_{row_id}_{secret}"


def read_token(text: str) -> tuple[str, str] | None:
    """Return the id of a token's row and its secret part; None if it is no token."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found[1], found[2])


def digest(secret: str) -> str:
    """Return what is kept of a secret that has enough chance in it to need no salt."""
    return sha256(secret.encode()).hexdigest()


def is_proven(secret: str, kept: str) -> bool:
    """Tell whether a secret is the one that was kept, in a time that does not say how much is."""
    return compare_digest(digest(secret), kept)


def is_over(expires_at: int | None, now_ms: int) -> bool:
    """Tell whether a token has ended."""
    return expires_at is not None and now_ms >= expires_at


def actor_of(kind: TokenKind, name: str) -> str:
    """Return whom an act is written down under (G5)."""
    return f"{kind}:{name}"


def is_token(actor: str) -> bool:
    """Tell whether an act was done with a token, and not by a user of the machine."""
    return actor.startswith(tuple(f"{kind}:" for kind in TokenKind))


def check_name(name: object) -> str:
    """Return the name of a token, or refuse it."""
    is_text = isinstance(name, str) and name.strip() == name and name.isprintable()
    if not is_text or not 1 <= len(str(name)) <= NAME_CHARS_MAX:
        facts = {"least": 1, "most": NAME_CHARS_MAX, "of": "printable"}
        raise Invalid(code="wrong_length", path="name", facts=facts)
    return str(name)


def check_scope(scope: object) -> Scope:
    """Return a scope, or name those there are."""
    if scope not in tuple(Scope):
        facts = {"given": short(scope), "known": [*map(str, Scope)]}
        raise Invalid(code="not_one_of", path="scope", facts=facts)
    return Scope(str(scope))


def end_of(days: object, now_ms: int) -> int | None:
    """Return when a token ends that lasts so many days; none lasts until it is revoked."""
    if days is None:
        return None
    if type(days) is not int or not 1 <= days <= DAYS_MAX:
        facts = {"given": short(days), "least": 1, "most": DAYS_MAX}
        raise Invalid(code="out_of_range", path="days", facts=facts)
    return now_ms + days * DAY_MS
