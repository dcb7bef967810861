"""Reads out of the settings how a service is told who asks, and where its users sign in (K9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, cast

from duly.connectors.auth import Auth
from duly.connectors.oauth import Provider, RefreshKind
from duly.connectors.place import Place

PROVIDER: Final = (
    *("authorize_url", "token_url", "device_url", "client_id", "client_secret"),
    *("client_secret_in", "scopes", "scopes_of", "scope_base", "refresh", "more", "warning"),
)
AUTH_KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "bearer": (),
        "basic": ("user",),
        "header": ("name",),
        "query": ("name",),
        "oauth": PROVIDER,
    }
)
SECRET_PLACES: Final = ("body", "basic")


def read_auth(table: object, allow: Sequence[str] = ()) -> Auth:
    """Read how a service is told who asks; `allow` names hosts that may be private."""
    place = Place("auth", table)
    kind = place.word("type", tuple(AUTH_KINDS))
    place.only(("type", "secret", "headers", *AUTH_KINDS[kind]))
    headers = _read_headers(place, kind)
    if kind == "oauth":
        provider = _read_provider(place, allow)
        return Auth("oauth", place.text("secret", "token"), provider=provider, headers=headers)
    names = [each for each in AUTH_KINDS[kind] if each != "user" or each in place.table]
    more = {name: place.text(name) for name in names}
    if kind == "header":
        place.header("name", more["name"])
    known = cast('Literal["bearer", "basic", "header", "query"]', kind)
    name, user = more.get("name", ""), more.get("user", "")
    return Auth(known, place.text("secret", "token"), name, user, headers=headers)


def _read_headers(place: Place, kind: str) -> Mapping[str, str]:
    """Read the further headers that are secret: the name of each, and of its secret."""
    found = place.texts("headers")
    own = place.table.get("name", "") if kind == "header" else "authorization"
    seen = {str(own).lower()} if kind != "query" else set()
    for name in found:
        place.inner("headers").header(name, name)
        if name.lower() in seen:
            place.inner("headers").refuse(name, "this header is sent already. Leave it out.")
        seen.add(name.lower())
    return found


def _read_provider(place: Place, allow: Sequence[str]) -> Provider:
    """Read where users of a service sign in."""
    secret_in = place.word("client_secret_in", SECRET_PLACES, "body")
    by_capability = place.inner("scopes_of")
    return Provider(
        authorize_url=place.text("authorize_url"),
        token_url=place.text("token_url"),
        device_url=_optional(place, "device_url"),
        client_id=place.text("client_id"),
        secret=_optional(place, "client_secret"),
        secret_in=cast('Literal["body", "basic"]', secret_in),
        scopes=place.list_texts("scopes"),
        of_capability={str(each): by_capability.list_texts(each) for each in by_capability.table},
        scope_base=_optional(place, "scope_base"),
        refresh=RefreshKind(place.word("refresh", [*RefreshKind], RefreshKind.ROTATED)),
        more=place.texts("more"),
        warning=_optional(place, "warning"),
        allow=tuple(allow),
    )


def _optional(place: Place, key: str) -> str:
    return place.text(key) if key in place.table else ""
