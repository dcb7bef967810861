"""Signs in at OAuth providers and keeps access tokens fresh (K9, H12).

    GOOGLE = Provider(
        authorize_url="https://accounts.google.com/o/oauth2/v2/auth",
        token_url="https://oauth2.googleapis.com/token",
        client_id="…",
        scopes=("https://www.googleapis.com/auth/calendar.events",),
        refresh=RefreshKind.KEPT,
    )

Law 1: tokens, codes and the client's secret go to the origin of the token URL alone (K4), over the
       transport of every connector: one connection, no redirect, nothing repeated (K2, K3).
Law 2: a refresh is claimed in the store before it is sent, by exchanging the sealed value for one
       that says so. Of all hosts one wins; the others wait for what it writes (H12).
Law 3: a refresh belongs to no call. A call that ends meanwhile does not end it, so that its answer
       is not lost.
Law 4: no error and no log line holds a word of an answer: it may be a token (A5).
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import Context
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote_plus

from duly.connectors.reach import within
from duly.connectors.transport import Credentials, HttpRequest, Transport, add_query
from duly.errors import (
    AuthNeeded,
    ConfigError,
    ConnectorError,
    Invalid,
    NotFound,
    NotSent,
    Refused,
    StoreError,
    UnknownOutcome,
)
from duly.rules.oauth import (
    CLAIM_MS,
    DeviceCode,
    TokenAnswer,
    TokenFault,
    TokenGrant,
    TokenStep,
    authorize_query,
    claim,
    decide,
    form,
    judge_answer,
    judge_device,
    missing_scopes,
    next_interval,
    read_grant,
    read_redirect,
    respell,
    settle,
)
from duly.rules.oauth import (
    RefreshKind as RefreshKind,
)
from duly.rules.url import Url, read_url

ASK_S: Final = 20.0  # for one request to the provider; a claim lasts longer
LOOK_S: Final = 0.5  # between two looks at what another host refreshes
ROUNDS_MAX: Final = round(2 * CLAIM_MS / 1000 / LOOK_S)
WRITES_MAX: Final = 5
FORM: Final = "application/x-www-form-urlencoded"
DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})
NO_SCOPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

log = logging.getLogger("duly.oauth")

SAID: Final[Mapping[TokenFault, str]] = MappingProxyType(
    {
        TokenFault.REVOKED: "the provider no longer accepts this sign-in",
        TokenFault.REFUSED: "the provider refused the client id, its secret or the scopes",
        TokenFault.DENIED: "access was denied on the page of the provider",
        TokenFault.BUSY: "the provider is busy; nothing was done",
        TokenFault.PENDING: "the person has not agreed yet",
        TokenFault.SLOW_DOWN: "the provider is asked too often",
        TokenFault.EXPIRED: "the time to sign in is over",
        TokenFault.LOST: "the provider gave no clear answer",
        TokenFault.WRONG_TYPE: "the provider gave a token that is no bearer token",
        TokenFault.OTHER_PLACE: "the address is not the one that the provider was to return to",
        TokenFault.OTHER_STATE: "the address belongs to another sign-in",
        TokenFault.OTHER_PROVIDER: "the address comes from another provider",
        TokenFault.OTHER_ACCOUNT: "the provider gave a token of another account, which is not used",
    }
)


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a service lets its users sign in, and as which client it is asked.

    `more` are fields that the provider wants in the authorize URL. `secret` is the name of the
    connector's secret that is the client's secret, if it has one; `secret_in` is where it travels.
    `allow` names hosts that may be private and may be asked without TLS. `scopes` are always asked
    for; those of `of_capability` only when a workflow may use that capability (`read`, `send`).
    `warning` is what a person must know before they sign in. Answers may name a scope with
    `scope_base` before it, and in other letters.
    """

    authorize_url: str
    token_url: str
    client_id: str
    scopes: tuple[str, ...] = ()
    device_url: str = ""
    secret: str = ""
    secret_in: Literal["body", "basic"] = "body"
    refresh: RefreshKind = RefreshKind.ROTATED
    more: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    allow: tuple[str, ...] = ()
    of_capability: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NO_SCOPES)
    warning: str = ""
    scope_base: str = ""

    def __post_init__(self) -> None:
        token = self._read("token_url")
        self._read("authorize_url")
        if self.device_url and self._read("device_url").origin != token.origin:
            raise ConfigError("device_url: it has another origin than token_url.")
        taken = {name for name, _ in authorize_query("", "", (), "", "")}
        if taken & self.more.keys():
            raise ConfigError(f"more: {min(taken & self.more.keys())} is set by Duly.")

    def _read(self, name: str) -> Url:
        try:
            found = read_url(getattr(self, name), path=name)
        except Invalid as error:
            raise ConfigError(str(error)) from None
        if found.scheme != "https" and found.host not in self.allow:
            raise ConfigError(f"{name}: {found.shown} has no TLS. Write https.")
        return found

    def authorize(self, redirect: str, *, state: str, verifier: str) -> str:
        """Return the address at which a person agrees; PKCE is always used."""
        fields = authorize_query(self.client_id, redirect, self.scopes, state, verifier)
        url = add_query(self._read("authorize_url"), [*fields, *self.more.items()])
        return str(url)


class Client:
    """Asks one provider; `secret` is the client's secret, if it has one."""

    def __init__(self, provider: Provider, transport: Transport, secret: str = "") -> None:
        self.provider = provider
        self._transport = transport
        self._secret = secret

    async def finish(
        self, given: str, *, redirect: str, state: str, verifier: str, now: int
    ) -> tuple[TokenGrant, tuple[str, ...]]:
        """Exchange the code of a redirect; return the grant and the scopes that it lacks."""
        authorize_url = self.provider.authorize_url
        code = read_redirect(given, redirect=redirect, state=state, authorize_url=authorize_url)
        if isinstance(code, TokenFault):
            raise Refused(f"There is no sign-in: {SAID[code]}.")
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        return self._granted(await self._token(fields, now))

    async def begin_device(self, *, now: int) -> DeviceCode:
        """Ask for a code that a person types on another device."""
        if not self.provider.device_url:
            raise Refused("The provider offers no sign-in on another device.")
        fields = {"scope": " ".join(self.provider.scopes)}
        status, body = await self._ask(self.provider.device_url, fields)
        found = judge_device(status, body, asked_at=now)
        if isinstance(found, TokenFault):
            raise Refused(f"There is no sign-in: {SAID[found]}.")
        return found

    async def finish_device(
        self,
        device: DeviceCode,
        *,
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
    ) -> tuple[TokenGrant, tuple[str, ...]]:
        """Ask until the person has agreed, as slowly as the provider wants."""
        interval_s: int | None = device.interval_s
        fields = {"grant_type": DEVICE, "device_code": device.code}
        answer = TokenAnswer(fault=TokenFault.EXPIRED)
        while interval_s is not None:
            await sleep(interval_s)
            if now() >= device.ends_at:
                answer = TokenAnswer(fault=TokenFault.EXPIRED)
                break
            try:
                answer = await self._token(fields, now())
            except (NotSent, UnknownOutcome):
                answer = TokenAnswer(fault=TokenFault.LOST)
            interval_s = None if answer.fault is None else next_interval(answer.fault, interval_s)
        return self._granted(answer)

    async def look_at_device(self, code: str, interval_s: int, *, now: int) -> TokenGrant | int:
        """Ask once whether the person has agreed; return in how many seconds to ask again."""
        fields = {"grant_type": DEVICE, "device_code": code}
        try:
            answer = await self._token(fields, now)
        except (NotSent, UnknownOutcome):
            answer = TokenAnswer(fault=TokenFault.LOST)
        wait_s = None if answer.fault is None else next_interval(answer.fault, interval_s)
        return self._granted(answer)[0] if wait_s is None else wait_s

    async def refresh(self, grant: TokenGrant, *, now: int) -> TokenAnswer:
        """Ask for a new access token, once."""
        fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
        try:
            return await self._token(fields, now, grant)
        except NotSent:
            return TokenAnswer(fault=TokenFault.BUSY)
        except UnknownOutcome:
            return TokenAnswer(fault=TokenFault.LOST)

    def _granted(self, answer: TokenAnswer) -> tuple[TokenGrant, tuple[str, ...]]:
        if answer.grant is None:
            assert answer.fault is not None
            raise Refused(f"There is no sign-in: {SAID[answer.fault]}.")
        return answer.grant, missing_scopes(answer.grant, self.provider.scopes)

    async def _token(
        self, fields: Mapping[str, str], now: int, before: TokenGrant | None = None
    ) -> TokenAnswer:
        status, body = await self._ask(self.provider.token_url, fields)
        provider = self.provider
        asked = provider.scopes
        answer = judge_answer(
            status, body, asked_at=now, asked=asked, client_id=provider.client_id, before=before
        )
        if answer.grant is None or not provider.scope_base:
            return answer
        known = (*asked, *chain.from_iterable(provider.of_capability.values()))
        scopes = respell(answer.grant.scopes, known, provider.scope_base)
        return replace(answer, grant=replace(answer.grant, scopes=scopes))

    async def _ask(self, to: str, fields: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a form to the provider, once (law 1)."""
        provider, own = self.provider, self._secret
        headers = {}
        if own and provider.secret_in == "basic":
            pair = f"{quote_plus(provider.client_id)}:{quote_plus(own)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        in_body = "" if headers else own
        body = form({**fields, "client_id": provider.client_id, "client_secret": in_body})
        url = read_url(to)
        request = HttpRequest(
            "POST",
            url,
            {"Content-Type": FORM, "Accept": "application/json"},
            body,
            Credentials(url.origin, headers),
        )
        response = await self._transport.change(request, timeout_s=ASK_S)
        return response.status, response.body


@dataclass(frozen=True, slots=True)
class KeptSecret:
    """A secret of the store, and the seal under which it lies there."""

    value: str = field(repr=False)
    sealed: str = field(repr=False)


class Keeper(Protocol):
    """What keeps secrets in the store, sealed; the host brings it."""

    def now_ms(self) -> int:
        """Return the wall clock."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        """Start a task beside the caller."""

    async def read_kept(self, connector: str, name: str) -> KeptSecret:
        """Read a secret from the store; NotFound if there is none."""

    async def swap(self, connector: str, name: str, before: KeptSecret, value: str) -> bool:
        """Replace a secret if it still lies under that seal; tell whether it did."""


class FreshTokens:
    """The tokens of one connection: fresh, and refreshed by one host at a time (law 2)."""

    def __init__(
        self, connector: str, name: str, client: Callable[[], Client], keeper: Keeper
    ) -> None:
        self._connector = connector
        self._name = name
        self._client = client
        self._keeper = keeper
        self._flight: asyncio.Future[None] | None = None

    def read(self, value: str) -> TokenGrant:
        """Read the value of the secret."""
        grant = read_grant(value)
        if grant is None:
            raise self._needs("its secret is no sign-in")
        return grant

    async def fresh(self, value: str, *, rejected: str = "") -> None:
        """Return when the store has a token that can be used; `value` is what is known of it."""
        kind = self._client().provider.refresh
        grant = self.read(value)
        if decide(grant, self._keeper.now_ms(), kind, rejected=rejected) is TokenStep.USE:
            return
        if self._flight is None or self._flight.done():
            self._flight = asyncio.get_running_loop().create_future()
            work = self._fly(self._flight, rejected)
            # Outside of the call, which would take its tasks along when it ends (law 3).
            Context().run(self._keeper.spawn, work, f"duly refresh {self._connector}")
        try:
            async with asyncio.timeout(within(2 * CLAIM_MS / 1000)):
                await asyncio.shield(self._flight)
        except TimeoutError:
            said = "nothing was sent: its token is still being refreshed"
            raise NotSent(f"{self._connector}: {said}.") from None

    async def _fly(self, flight: asyncio.Future[None], rejected: str) -> None:
        try:
            await self._renew(rejected)
        except ConnectorError as error:
            flight.set_exception(error)
        except StoreError as error:
            said = f"{self._connector}: nothing was sent: its token could not be read ({error})"
            flight.set_exception(NotSent(said))
        except BaseException:
            flight.set_exception(NotSent(f"{self._connector}: nothing was sent: no token."))
            raise
        else:
            flight.set_result(None)
        finally:
            if flight.done():
                flight.exception()  # it is no mistake if no call waits for it any more

    async def _renew(self, rejected: str) -> None:
        """Refresh, or wait for the host that does."""
        client, keeper = self._client(), self._keeper
        for _ in range(ROUNDS_MAX):
            try:
                kept = await keeper.read_kept(self._connector, self._name)
            except NotFound:
                raise self._needs("it is not signed in") from None
            grant, now = self.read(kept.value), keeper.now_ms()
            match decide(grant, now, client.provider.refresh, rejected=rejected):
                case TokenStep.USE:
                    return
                case TokenStep.PERSON:
                    raise self._needs(_why(grant))
                case TokenStep.WAIT:
                    await keeper.sleep(LOOK_S)
                    continue
            claimed = claim(grant, now)
            if not await keeper.swap(self._connector, self._name, kept, claimed.text):
                continue
            try:
                answer = await client.refresh(grant, now=now)
            except ConnectorError:  # it never left, so it is no refresh without an answer
                await self._write(claimed, settle(claimed, TokenAnswer(fault=TokenFault.BUSY)))
                raise
            if await self._write(claimed, settle(claimed, answer)):
                self._say(answer, grant)
                return
            # The answer is about a sign-in that is not the one of now.
        raise NotSent(f"{self._connector}: nothing was sent: another host refreshes its token.")

    async def _write(self, claimed: TokenGrant, after: TokenGrant) -> bool:
        """Write what came of a refresh, unless a person has signed in anew meanwhile; tell it."""
        for left in reversed(range(WRITES_MAX)):
            try:
                kept = await self._keeper.read_kept(self._connector, self._name)
                # The seal may be another one, under another key; the claim is still ours.
                if kept.value != claimed.text:
                    return kept.value == after.text  # written, and the answer was lost
                if await self._keeper.swap(self._connector, self._name, kept, after.text):
                    return True
            except NotFound:
                return False
            except StoreError:
                if not left:
                    raise
                await self._keeper.sleep(LOOK_S)
        return False

    def _say(self, answer: TokenAnswer, before: TokenGrant) -> None:
        """Raise what a refresh without a token means for a call; nothing of it has left."""
        if answer.grant is not None:
            lost = missing_scopes(answer.grant, before.scopes)
            if lost:
                log.warning("%s: no longer granted: %s", self._connector, ", ".join(lost))
            return
        assert answer.fault is not None
        said = SAID[answer.fault]
        if answer.other:
            said = say_other(before.account_name, answer.other)
        if answer.fault in (
            TokenFault.BUSY,
            TokenFault.SLOW_DOWN,
            TokenFault.LOST,
            TokenFault.PENDING,
        ):
            raise NotSent(f"{self._connector}: nothing was sent: {said}.")
        raise self._needs(said)

    def _needs(self, why: str) -> AuthNeeded:
        return AuthNeeded(
            f"{self._connector}: {why}. Sign in again, and set its secret “{self._name}”.",
            connect=self._connector,
            secret=self._name,
        )


def say_other(before: str, other: str) -> str:
    """Say that a refresh was answered with a token of another account."""
    whose = f", and not of {before}" if before else ""
    return f"the provider gave a token of {other}{whose}; it is not used"


def _why(grant: TokenGrant) -> str:
    if grant.other:
        return say_other(grant.account_name, grant.other)
    if grant.is_over:
        return SAID[TokenFault.REVOKED]
    if not grant.refresh_token:
        return "its token is no longer valid, and there is none to refresh it with"
    return "the answer to a refresh was lost, and the old token must not be used again"
