"""Decides about OAuth 2: sign-in, tokens, and who may refresh them (K9; RFC 6749, 7636, 8628).

Law 1: a redirect is believed only at the exact address that was asked for, with the state that was
       given. Without both, its code is not even read.
Law 2: an answer is a token only if every part of it is as the standard says. All that is not a
       clear answer is *lost*: the provider may have done what was asked.
Law 3: a refresh is claimed in the sealed value itself before it is sent, so that of all hosts one
       sends it. A claim ends by itself, and counts as a refresh without an answer.
Law 4: what is over stays over: when the provider has refused the refresh token, no host asks again
       until a person has signed in.
Law 5: a token of another account is never used, and the sign-in is over: a person has to say which
       account is meant.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from duly.errors import Invalid
from duly.rules.id_token import SignedAccount, is_identity, read_id_token
from duly.rules.value import Json, decode, encode

VERIFIER_BYTES: Final = 32  # 43 characters, as RFC 7636 recommends
STATE_BYTES: Final = 16
MARGIN_MS: Final = 60_000  # a token is renewed so long before its end: clocks differ
CLAIM_MS: Final = 60_000  # longer than any refresh takes
EXPIRES_S_MAX: Final = 10 * 366 * 86_400
GRANT_BYTES_MAX: Final = 60_000
REDIRECT_CHARS_MAX: Final = 8_000
INTERVAL_S: Final = 5  # between two questions of the device flow, unless the provider says more
INTERVAL_S_MAX: Final = 300
DEVICE_S_MAX: Final = 3_600
# Sent in a header, so no space and no control character (RFC 6750).
TOKEN: Final = re.compile(r"[\x21-\x7e]{1,7900}")
OFFLINE: Final = "offline_access"  # OpenID Connect
UNNAMED: Final = "another account"
SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,500}")


WORDS: Final = ("account", "account_name", "other")  # of a grant


class RefreshKind(StrEnum):
    """What a provider does with a refresh token that was used."""

    KEPT = "kept"  # it can be used any number of times
    ROTATED = "rotated"  # there is a new one; after a lost answer the old one works once more
    SPENT = "spent"  # using the old one again ends everything


# How many refreshes without an answer may stand before one that is sent.
UNANSWERED_MAX: Final[Mapping[RefreshKind, float]] = MappingProxyType(
    {RefreshKind.KEPT: float("inf"), RefreshKind.ROTATED: 1, RefreshKind.SPENT: 0}
)


class TokenFault(StrEnum):
    """Why there is no token."""

    REVOKED = "revoked"  # `invalid_grant`: the code or the refresh token is not valid any more
    REFUSED = "refused"  # the client, its secret, the scopes or the request were refused
    DENIED = "denied"  # the person said no
    BUSY = "busy"  # nothing was done, and it may be asked again later
    PENDING = "pending"
    SLOW_DOWN = "slow_down"
    EXPIRED = "expired"  # the time to sign in on another device is over
    LOST = "lost"  # there is no clear answer
    WRONG_TYPE = "wrong_type"  # a token that is no bearer token
    OTHER_PLACE = "other_place"  # the redirect came to another address
    OTHER_STATE = "other_state"  # the redirect belongs to no sign-in of ours
    OTHER_PROVIDER = "other_provider"  # the redirect says that another provider sent it
    OTHER_ACCOUNT = "other_account"  # a refresh was answered with a token of another account


ERRORS: Final[Mapping[str, TokenFault]] = MappingProxyType(
    {
        "invalid_grant": TokenFault.REVOKED,
        "access_denied": TokenFault.DENIED,
        "authorization_declined": TokenFault.DENIED,  # of Microsoft
        "authorization_pending": TokenFault.PENDING,
        "slow_down": TokenFault.SLOW_DOWN,
        "expired_token": TokenFault.EXPIRED,
        "temporarily_unavailable": TokenFault.BUSY,
        "server_error": TokenFault.LOST,
    }
)
BUSY_STATUSES: Final = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """What a provider has granted, and how far a refresh of it has come: one sealed secret (A5)."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: int | None = None  # ms since 1970; None: it is not known to end
    renew_at: int | None = None
    scopes: tuple[str, ...] = ()
    claimed_until: int | None = None  # a host refreshes it
    unanswered: int = 0  # refreshes that were sent and not answered
    is_over: bool = False  # the provider has refused it
    account: str = ""  # what its account is compared by; empty: the provider does not say
    account_name: str = ""
    other: str = ""  # the account with whose token a refresh was answered; then it is over

    @property
    def signed(self) -> SignedAccount:
        """The account that signed in."""
        return SignedAccount(self.account, self.account_name)

    @property
    def text(self) -> str:
        """The value of the secret."""
        return encode({**asdict(self), "scopes": list(self.scopes)}, limit_bytes=GRANT_BYTES_MAX)


def read_grant(text: str) -> TokenGrant | None:
    """Read the value of a secret; None if it is no grant."""
    try:
        found = decode(text)
        if not isinstance(found, dict) or found.keys() - TokenGrant.__dataclass_fields__.keys():
            return None
        scopes = found.get("scopes", [])
        numbers = [found.get(each) for each in ("expires_at", "renew_at", "claimed_until")]
        is_sound = (
            _is_token(found.get("access_token"))
            and (found.get("refresh_token", "") == "" or _is_token(found["refresh_token"]))
            and isinstance(scopes, list)
            and all(isinstance(each, str) for each in scopes)
            and all(each is None or type(each) is int for each in numbers)
            and type(found.get("unanswered", 0)) is int
            and type(found.get("is_over", False)) is bool
            and all(isinstance(found.get(each, ""), str) for each in WORDS)
        )
        fields: dict[str, Any] = found
        if is_sound:
            fields["scopes"] = tuple(fields.get("scopes", ()))
        return TokenGrant(**fields) if is_sound else None
    except Invalid:
        return None


def tokens_in(text: str) -> tuple[str, ...]:
    """Return the tokens in the value of a secret, which are secret each by itself."""
    grant = read_grant(text) if text.startswith('{"access_token":') else None
    found = () if grant is None else (grant.access_token, grant.refresh_token)
    return tuple(each for each in found if each)


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """What an answer of the provider says: a grant, or why there is none."""

    grant: TokenGrant | None = None
    fault: TokenFault | None = None
    other: str = ""  # the account whose token it is, where that is the fault


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a person types on another device, and how the provider is asked meanwhile."""

    code: str = field(repr=False)
    user_code: str
    url: str
    ends_at: int
    interval_s: int


@dataclass(frozen=True, slots=True)
class OAuthTicket:
    """What a sign-in needs to end well; it is sealed while a person agrees elsewhere."""

    connector: str
    state: str
    verifier: str = field(repr=False)
    redirect: str
    scopes: tuple[str, ...]
    ends_at: int  # ms since 1970
    device: str = field(default="", repr=False)
    interval_s: int = 0  # between two questions about the device

    @property
    def text(self) -> str:
        """The ticket as it is sealed."""
        return encode({**asdict(self), "scopes": list(self.scopes)}, limit_bytes=GRANT_BYTES_MAX)


def read_ticket(text: str) -> OAuthTicket | None:
    """Read a ticket that was opened; None if it is none."""
    try:
        found = decode(text)
    except Invalid:
        return None
    names = OAuthTicket.__dataclass_fields__.keys()
    if not isinstance(found, dict) or found.keys() != names:
        return None
    fields: dict[str, Any] = found
    return OAuthTicket(**{**fields, "scopes": tuple(fields["scopes"])})


# -- Signing in -----------------------------------------------------------------------------------


def make_word(random: bytes) -> str:
    """Make a state or a verifier of random bytes."""
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636)."""
    return make_word(sha256(verifier.encode()).digest())


def authorize_query(
    client_id: str, redirect: str, scopes: Iterable[str], state: str, verifier: str
) -> tuple[tuple[str, str], ...]:
    """Return the fields of the address where a person agrees."""
    return (
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", redirect),
        ("scope", " ".join(scopes)),
        ("state", state),
        ("code_challenge", challenge_of(verifier)),
        ("code_challenge_method", "S256"),
    )


def read_redirect(given: str, *, redirect: str, state: str, authorize_url: str) -> str | TokenFault:
    """Return the code that a redirect brings, or why there is none (law 1).

    A provider that says who it is (RFC 9207) must be the one of `authorize_url`: else its code
    would be sent to another one.
    """
    place, _, query = given.partition("?")
    if len(given) > REDIRECT_CHARS_MAX or place != redirect or urlsplit(given).fragment:
        return TokenFault.OTHER_PLACE
    pairs = parse_qsl(query, keep_blank_values=True)
    fields = dict(pairs)
    if len(fields) != len(pairs):
        return TokenFault.OTHER_STATE
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return TokenFault.OTHER_STATE
    if "iss" in fields and _origin(fields["iss"]) != _origin(authorize_url):
        return TokenFault.OTHER_PROVIDER
    if "error" in fields:
        return ERRORS.get(fields["error"], TokenFault.REFUSED)
    code = fields.get("code", "")
    return code if TOKEN.fullmatch(code) else TokenFault.LOST


def form(fields: Mapping[str, str]) -> bytes:
    """Write the body of a request to the provider."""
    return urlencode({name: value for name, value in fields.items() if value}).encode()


# -- Answers --------------------------------------------------------------------------------------


def judge_answer(
    status: int,
    body: bytes,
    *,
    asked_at: int,
    asked: Iterable[str],
    client_id: str,
    before: TokenGrant | None = None,
) -> TokenAnswer:
    """Decide what an answer of the token endpoint says (law 2).

    An answer to a refresh that names no account is of the account of before.
    """
    found = _fields(body)
    if (fault := _fault(status, found)) is not None:
        return TokenAnswer(fault=fault)
    kind = found.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        return TokenAnswer(fault=TokenFault.WRONG_TYPE)
    token, refresh = found.get("access_token"), found.get("refresh_token")
    lifetime_s = _seconds(found["expires_in"]) if found.get("expires_in") is not None else None
    scopes = _scopes(found.get("scope"))
    known = SignedAccount() if before is None else before.signed
    signed: SignedAccount | None = known
    if found.get("id_token") is not None:
        signed = read_id_token(found["id_token"], client_id)
    is_sound = (
        _is_token(token)
        and signed is not None
        and (refresh is None or _is_token(refresh))
        and (found.get("expires_in") is None or lifetime_s is not None)
        and scopes is not None
    )
    if not is_sound or signed is None:
        return TokenAnswer(fault=TokenFault.LOST)
    if signed.is_other(known):
        return TokenAnswer(fault=TokenFault.OTHER_ACCOUNT, other=signed.name or UNNAMED)
    kept = "" if before is None else before.refresh_token
    ends = renew = None
    if lifetime_s is not None:
        ends = asked_at + lifetime_s * 1000
        renew = max(ends - MARGIN_MS, asked_at + lifetime_s * 500)
    granted = scopes or (tuple(asked) if before is None else before.scopes)
    made = TokenGrant(str(token), str(refresh or kept), ends, renew, granted)
    return TokenAnswer(replace(made, account=signed.id, account_name=signed.name))


def judge_device(status: int, body: bytes, *, asked_at: int) -> DeviceCode | TokenFault:
    """Decide what an answer of the device endpoint says."""
    found = _fields(body)
    if (fault := _fault(status, found)) is not None:
        return fault
    code, shown = found.get("device_code"), found.get("user_code")
    url = found.get("verification_uri") or found.get("verification_url")
    lifetime_s, interval_s = _seconds(found.get("expires_in")), INTERVAL_S
    if found.get("interval") is not None:
        interval_s = min(_seconds(found["interval"]) or INTERVAL_S, INTERVAL_S_MAX)
    is_sound = all(isinstance(each, str) and each.isprintable() for each in (code, shown, url))
    if not is_sound or not _is_token(code) or lifetime_s is None:
        return TokenFault.LOST
    if not str(url).startswith(("https://", "http://")):
        return TokenFault.LOST
    ends = asked_at + min(lifetime_s, DEVICE_S_MAX) * 1000
    return DeviceCode(str(code), str(shown)[:100], str(url), ends, interval_s)


def next_interval(fault: TokenFault, interval_s: int) -> int | None:
    """Return when the provider is asked again for a device; None if not at all (RFC 8628)."""
    match fault:
        case TokenFault.PENDING:
            return interval_s
        case TokenFault.SLOW_DOWN:
            return min(interval_s + INTERVAL_S, INTERVAL_S_MAX)
        case TokenFault.BUSY | TokenFault.LOST:
            return min(interval_s * 2, INTERVAL_S_MAX)
    return None


def missing_scopes(grant: TokenGrant, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that were asked for and not granted.

    `offline_access` asks for a refresh token, and others for a name; not every answer names them.
    """
    has = {*grant.scopes, *([OFFLINE] if grant.refresh_token else [])}
    return tuple(each for each in wanted if each not in has and not is_identity(each))


def respell(scopes: Iterable[str], known: Iterable[str], base: str) -> tuple[str, ...]:
    """Spell scopes as they are asked for, where an answer puts `base` before them (Microsoft)."""
    spelled = {each.removeprefix(base).lower(): each for each in known}
    found = (spelled.get(each.removeprefix(base).lower(), each) for each in scopes)
    return tuple(dict.fromkeys(found))


# -- Refreshing -----------------------------------------------------------------------------------


class TokenStep(StrEnum):
    """What comes next for a call that needs a token."""

    USE = "use"
    WAIT = "wait"
    SEND = "send"
    PERSON = "person"


def decide(grant: TokenGrant, now: int, kind: RefreshKind, *, rejected: str = "") -> TokenStep:
    """Decide what to do with a grant; `rejected` is a token that the service has just refused."""
    is_rejected = grant.access_token == rejected
    if grant.is_over:
        return TokenStep.PERSON
    if not is_rejected and (grant.renew_at is None or now < grant.renew_at):
        return TokenStep.USE
    is_usable = not is_rejected and grant.expires_at is not None and now < grant.expires_at
    # A claim that lies too far ahead was made by a clock that was wrong.
    if grant.claimed_until is not None and 0 < grant.claimed_until - now <= CLAIM_MS:
        return TokenStep.USE if is_usable else TokenStep.WAIT
    if grant.refresh_token and grant.unanswered <= UNANSWERED_MAX[kind]:
        return TokenStep.SEND
    return TokenStep.USE if is_usable else TokenStep.PERSON


def claim(grant: TokenGrant, now: int) -> TokenGrant:
    """Return the grant while a host refreshes it (law 3)."""
    return replace(grant, claimed_until=now + CLAIM_MS, unanswered=grant.unanswered + 1)


def settle(claimed: TokenGrant, answer: TokenAnswer) -> TokenGrant:
    """Return the grant after a refresh."""
    if answer.grant is not None:
        return answer.grant
    free = replace(claimed, claimed_until=None)
    if answer.fault is TokenFault.REVOKED:
        return replace(free, is_over=True)
    if answer.fault is TokenFault.OTHER_ACCOUNT:
        return replace(free, is_over=True, other=answer.other)
    if answer.fault in (TokenFault.LOST, TokenFault.WRONG_TYPE):
        return free
    return replace(free, unanswered=claimed.unanswered - 1)


# -- Within ---------------------------------------------------------------------------------------


def _fields(body: bytes) -> dict[str, Json]:
    try:
        found = decode(body.decode())
    except (Invalid, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _fault(status: int, found: Mapping[str, Json]) -> TokenFault | None:
    """Return why an answer grants nothing; some providers say it with status 200."""
    if status in BUSY_STATUSES:
        return TokenFault.SLOW_DOWN if found.get("error") == "slow_down" else TokenFault.BUSY
    error = found.get("error")
    if isinstance(error, str) and status < 500:
        return ERRORS.get(error, TokenFault.REFUSED)
    return None if status == 200 and found and error is None else TokenFault.LOST


def _origin(url: str) -> tuple[str, str]:
    try:
        found = urlsplit(url)
    except ValueError:
        return "", ""
    return found.scheme.lower(), found.netloc.lower()


def _is_token(value: object) -> bool:
    return isinstance(value, str) and TOKEN.fullmatch(value) is not None


def _seconds(value: object) -> int | None:
    """Read a duration; some providers write it as a text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 12:
        value = int(value)
    return value if type(value) is int and 0 < value <= EXPIRES_S_MAX else None


def _scopes(value: object) -> tuple[str, ...] | None:
    """Read the scopes that were granted: empty if the answer does not say, None if it is wrong."""
    if value is None:
        return ()
    found = re.split(r"[ ,]+", value.strip()) if isinstance(value, str) else [""]
    found = [] if found == [""] and isinstance(value, str) else found
    return tuple(found) if all(SCOPE.fullmatch(each) for each in found) else None
