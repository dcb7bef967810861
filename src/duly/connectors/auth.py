"""How a service is told who asks, and with which token (K9)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from duly.connectors.base import Connector
from duly.connectors.oauth import Client, FreshTokens, Provider
from duly.connectors.transport import Credentials, HttpRequest, Transport, check_header
from duly.errors import AuthNeeded, ConfigError, Refused
from duly.rules.oauth import missing_scopes, read_grant
from duly.rules.value import Json


@dataclass(frozen=True, slots=True)
class Auth:
    """How a service is told who asks; the secret itself is in the host (A5).

    `name` is the header or the field of the query, `user` the user name of `basic`; without it the
    secret holds both, as `user:password`. With `oauth` the secret is what `provider` granted, and
    the host keeps it fresh (K9). `headers` are further ones, each with the name of its own secret.
    """

    kind: Literal["bearer", "basic", "header", "query", "oauth"]
    secret: str = "token"
    name: str = ""
    user: str = ""
    provider: Provider | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if (self.kind == "oauth") != (self.provider is not None):
            raise ConfigError("auth: oauth needs a provider, and no other kind has one.")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets it needs."""
        of_client = "" if self.provider is None else self.provider.secret
        own = (self.secret, of_client) if of_client else (self.secret,)
        return tuple(dict.fromkeys((*own, *self.headers.values())))

    @property
    def known(self) -> list[Json]:
        """As whom a service is asked (K10)."""
        more: list[Json] = [[name, secret] for name, secret in self.headers.items()]
        return [self.kind, self.name, self.user, self.secret, *more]

    def dress(self, owner: Connector, origin: str) -> Credentials:
        """Return what a connector sends; a secret that cannot be sent asks a person (A5)."""
        found = self._checked(owner, self.secret, lambda value: self.credentials(origin, value))
        more = {
            name: self._checked(owner, secret, partial(_in_header, origin, name)).headers[name]
            for name, secret in self.headers.items()
        }
        return replace(found, headers={**found.headers, **more})

    def _checked(
        self, owner: Connector, secret: str, make: Callable[[str], Credentials]
    ) -> Credentials:
        try:
            found = make(owner.secret(secret))
            for name, value in found.headers.items():
                check_header(name, value)
        except Refused as error:
            raise AuthNeeded(
                f"{owner.name}: the secret “{secret}” cannot be sent: {error}",
                connect=owner.name,
                secret=secret,
            ) from None
        return found

    def credentials(self, origin: str, value: str) -> Credentials:
        """Return what is sent, for this origin alone (K4)."""
        match self.kind:
            case "bearer":
                return Credentials(origin, {"Authorization": f"Bearer {value}"})
            case "basic":
                whole = f"{self.user}:{value}" if self.user else value
                if ":" not in whole:
                    raise Refused("without a user in the settings it is USER:PASSWORD")
                pair = base64.b64encode(whole.encode()).decode()
                return Credentials(origin, {"Authorization": f"Basic {pair}"})
            case "header":
                return Credentials(origin, {self.name: value})
            case "query":
                return Credentials(origin, query={self.name: value})
            case "oauth":
                grant = read_grant(value)
                token = "" if grant is None else grant.access_token
                return Credentials(origin, {"Authorization": f"Bearer {token}"})


def _in_header(origin: str, name: str, value: str) -> Credentials:
    return Credentials(origin, {name: value})


class SignIn:
    """The sign-in of a connector at a provider; it does nothing where there is none."""

    def __init__(self, owner: Connector, auth: Auth | None, ca: Path | None) -> None:
        self._owner = owner
        self._auth = auth
        self._ca = ca
        self._tokens: FreshTokens | None = None

    async def fresh(self, rejected: str = "") -> None:
        """Return when there is a token that can be used, and that was not refused."""
        owner, auth = self._owner, self._auth
        if auth is None or auth.provider is None or owner._keeper is None:
            return
        value = owner.secret(auth.secret)
        if self._tokens is None:
            self._tokens = FreshTokens(owner.name, auth.secret, self._client, owner._keeper)
        await self._tokens.fresh(value, rejected=rejected)

    def require(self, capability: str) -> None:
        """Refuse a call whose scopes were not granted; nothing of it has left (K9)."""
        owner, auth = self._owner, self._auth
        if auth is None or auth.provider is None:
            return
        grant = read_grant(owner.secret(auth.secret))
        wanted = auth.provider.of_capability.get(capability, ())
        # A grant without scopes was made by hand: the service decides.
        missing = missing_scopes(grant, wanted) if grant is not None and grant.scopes else ()
        if missing:
            raise AuthNeeded(
                f"{owner.name}: you have not allowed {owner.name}.{capability} yet. The scope that"
                f" is missing: {', '.join(missing)}. Sign in once more: duly connect {owner.name}",
                connect=owner.name,
                secret=auth.secret,
            )

    async def anew(self, request: HttpRequest) -> bool:
        """Get another token than the one that was refused; false where none is refreshed."""
        auth, sent = self._auth, request.credentials
        if auth is None or auth.provider is None or self._owner._keeper is None or sent is None:
            return False
        await self.fresh(sent.headers["Authorization"].removeprefix("Bearer "))
        return True

    @property
    def provider(self) -> Provider | None:
        """Where the connector signs in; None if it does not."""
        return None if self._auth is None else self._auth.provider

    @property
    def secret(self) -> str:
        """The name of the secret that holds what was granted."""
        return "" if self._auth is None else self._auth.secret

    def client(self, provider: Provider) -> Client:
        """Return the client that asks a provider, with the secret it has there."""
        secret = self._owner.secret(provider.secret) if provider.secret else ""
        return Client(provider, Transport(allow=provider.allow, ca=self._ca), secret)

    def _client(self) -> Client:
        assert self.provider is not None
        return self.client(self.provider)
