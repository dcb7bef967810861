"""What the connectors for Google share: the sign-in, scopes, and how requests are made (K9).

    [connectors.gmail]
    use = "gmail"
    client_id = "123-abc.apps.googleusercontent.com"    # then: duly connect gmail

Law 1: each connector signs in for itself, and asks for the scopes of the capabilities that some
       workflow may use. A call whose scope is missing is not sent; a person is asked to sign in.
Law 2: what a change made is found again by its key alone: an id, a header, a column or a property
       that is made from it (L5).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

from duly.connectors.auth import Auth
from duly.connectors.base import SEND_S, Call
from duly.connectors.conflict import Look, is_alone
from duly.connectors.json_answer import pick
from duly.connectors.need import Need
from duly.connectors.oauth import Provider, RefreshKind
from duly.connectors.response import BODY_BYTES_MAX
from duly.connectors.rest import FIND_S, NO_STATUSES, NOTHING, Rest
from duly.connectors.status import Meaning, raise_for_change
from duly.connectors.template import flatten
from duly.connectors.transport import Transport, add_query
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.value import Json

AUTHORIZE: Final = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN: Final = "https://oauth2.googleapis.com/token"
SCOPE: Final = "https://www.googleapis.com/auth/"
# By these Google says which account signed in; nothing of the account can be read with them.
WHO: Final = ("openid", f"{SCOPE}userinfo.email")
# Without these Google gives no refresh token, or none the second time.
OFFLINE: Final = MappingProxyType({"access_type": "offline", "prompt": "consent"})
WARNING: Final = (
    "While your application is in “Testing” in the Google console, Google ends each sign-in after"
    " 7 days, and you have to sign in again. An internal application of a Workspace, or one that is"
    " “In production”, has no such end."
)
CLIENT_NEED: Final = Need(
    "client_id", "the client id of your own application", "123-abc.apps.googleusercontent.com"
)
JSON_TYPE: Final = "application/json"
MARK_CHARS: Final = 40


class Google(Rest):
    """One account of one service of Google; `url` is another place of all of it, for a double."""

    home: ClassVar[str]
    base_path: ClassVar[str]
    scopes: ClassVar[Mapping[str, tuple[str, ...]]]  # of each capability
    needs: ClassVar[tuple[Need, ...]] = (CLIENT_NEED,)

    def __init__(
        self,
        client_id: str,
        *,
        url: str = "",
        secret: str = "sign_in",
        client_secret: str = "client_secret",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self.name = name or type(self).name
        if not client_id or not client_id.isascii() or not client_id.isprintable():
            raise ConfigError("client_id: write the client id of your application.")
        place = url.rstrip("/")
        provider = Provider(
            authorize_url=f"{place}/o/oauth2/v2/auth" if place else AUTHORIZE,
            token_url=f"{place}/token" if place else TOKEN,
            client_id=client_id,
            scopes=WHO,
            of_capability=self.scopes_of(),
            secret=client_secret,
            refresh=RefreshKind.KEPT,
            more=OFFLINE,
            allow=tuple(allow),
            warning=WARNING,
        )
        trusted = None if ca is None else Path(ca)
        super().__init__(
            f"{place or self.home}{self.base_path}",
            auth=Auth("oauth", secret=secret, provider=provider),
            allow=allow,
            ca=trusted,
            transport=Transport(allow=frozenset(allow), ca=trusted, body_bytes_max=body_bytes_max),
        )

    def scopes_of(self) -> Mapping[str, tuple[str, ...]]:
        """Return the scopes of each capability, in full."""
        return MappingProxyType(
            {name: tuple(f"{SCOPE}{each}" for each in found) for name, found in self.scopes.items()}
        )

    def require(self, capability: str) -> None:
        """Refuse a call whose scope was not granted (law 1)."""
        self._sign_in.require(capability)

    async def look(self, path: str, query: Mapping[str, Json] = NOTHING) -> Any:
        """Ask what there is, for a proof: fresh, and from the place itself; None if nothing is."""
        return await self.fetch_one(path, query, timeout_s=FIND_S, is_proof=True)

    async def look_before(self, path: str, query: Mapping[str, Json] = NOTHING) -> Any:
        """Ask what a change depends on; if that fails for now, nothing of the change was sent."""
        try:
            return await self.fetch_one(path, query)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error

    async def change_at(
        self,
        call: Call,
        method: str,
        path: str,
        body: Json | bytes,
        *,
        query: Mapping[str, Json] = NOTHING,
        headers: Mapping[str, str] = NOTHING,
        statuses: Mapping[int, Meaning] = NO_STATUSES,
        look: Look | None = None,
        is_exact: bool = False,
        origin_path: str = "",
        timeout_s: float = SEND_S,
    ) -> Any:
        """Send a change once; `origin_path` is a path beside the base, for uploads.

        `look` is asked after a conflict if it `is_exact`: for one thing, and not in a list.
        """
        url = self._at(path)
        if origin_path:
            url = replace(url, path=origin_path)
        url = add_query(url, flatten(query))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Content-Type": JSON_TYPE, **headers}
        make = partial(self._request, method, url, head, data)
        request, response = await self._change_signed(make, timeout_s, statuses)
        alone = await is_alone(
            call, method, response, has_key=True, own=statuses, look=look, is_exact=is_exact
        )
        raise_for_change(response, request.shown, self.name, is_alone=alone, own=statuses)
        return await self.read_json(response, request.shown, is_change=True)


def mark_of(key: str) -> str:
    """Return the mark of a call: it tells calls apart, and does not tell the key."""
    return sha256(f"duly google {key}".encode()).hexdigest()[:MARK_CHARS]


def made(call: Call, answer: Json, place: str = "id") -> str:
    """Return the id that a change answers; without one it is unknown what was done (L4)."""
    found = pick(answer, place)
    if not isinstance(found, str) or not found:
        said = "the answer names nothing that was made, so it may not have been done"
        raise UnknownOutcome(f"{call.tool}: {said}.")
    return found


def text_at(value: Any, path: str) -> str:
    """Return the text at a path; empty if there is none."""
    found = pick(value, path)
    return found if isinstance(found, str) else ""


def list_at(value: Any, path: str) -> list[Any]:
    """Return the list at a path; empty if there is none."""
    found = pick(value, path)
    return found if isinstance(found, list) else []


def one_segment(text: str, what: str) -> str:
    """Return an id that goes into a path, or refuse it: it never becomes another path."""
    is_plain = text.isascii() and text.isprintable() and 0 < len(text) <= 1024
    if not is_plain or any(each in text for each in "/?#% \\") or set(text) == {"."}:
        raise Refused(f"{what}: {text[:80]!r} cannot be an id.")
    return text
