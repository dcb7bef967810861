"""Sends webhooks: signed messages to one address, as Standard Webhooks describe them.

    [connectors.partner]
    use = "webhook"
    url = "https://partner.example/hooks/orders"
    key_lifetime_s = 86400      # only if the receiver says so

Law 1: the key of a call travels as `webhook-id`, and the signature covers it: the same call has the
       same id and the same body, however often it is sent.
Law 2: whether a call can be asked about is decided by the receiver. One that takes an id once
       (`key_lifetime_s`) is sent to again, one that keeps a list is asked (`verify`). About any
       other a person decides (L5).
Law 3: a webhook was taken if the receiver says so with a status; nothing is read of what it writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict

import msgspec

from duly.connectors.auth_table import read_auth
from duly.connectors.base import Applied, Call, Verdict, mutation
from duly.connectors.clock import Timed
from duly.connectors.conflict import is_alone
from duly.connectors.key_place import asked_by, deleted_by
from duly.connectors.need import Need
from duly.connectors.operation import read_verify
from duly.connectors.place import Place
from duly.connectors.rest import NOTHING, KeyPlace, Rest, Verify
from duly.connectors.status import raise_for_change
from duly.errors import AuthNeeded, ConfigError, Invalid, Refused
from duly.rules.schedule import moment
from duly.rules.url import read_url
from duly.rules.value import Json
from duly.rules.webhook import SCHEMES, HookSender, check_secret, sign

ID: Final = KeyPlace("header", "webhook-id")
STANDARD: Final = SCHEMES[HookSender.STANDARD]
EVENT_CHARS_MAX: Final = 200
SEND_S: Final = 30.0
LAG_S: Final = 60.0


class SentHook(TypedDict):
    """The result of a send: the id by which the receiver knows it."""

    id: str


class Webhook(Timed, Rest):
    """One receiver: `url` is its address, `secret` the name of the secret that signs.

    `key_lifetime_s` says that the receiver takes each id once, and for how long it remembers one.
    `verify` is a question to it, as for an operation of `http`.
    """

    name = "webhook"
    needs = (Need("url", "where webhooks are sent", "https://partner.example/hooks/orders"),)

    def __init__(
        self,
        url: str,
        *,
        secret: str = "signing",
        key_lifetime_s: float | None = None,
        verify: Mapping[str, Any] | None = None,
        lag_s: float = LAG_S,
        auth: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = NOTHING,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "webhook",
    ) -> None:
        self.name = name
        try:
            self._target = read_url(url)
        except Invalid as error:
            raise ConfigError(str(error)) from None
        if key_lifetime_s is not None and not 0 < key_lifetime_s <= math.inf:
            raise ConfigError("key_lifetime_s: write how many seconds an id is remembered.")
        super().__init__(
            self._target.origin,
            auth=None if auth is None else read_auth(auth, allow),
            headers=headers,
            allow=allow,
            ca=None if ca is None else Path(ca),
        )
        self._secret = secret
        self._secret_names = (secret, *self._secret_names)
        place = Place(f"connectors.{name}", {"verify": verify})
        found = None if verify is None else read_verify(place, ID, arguments=())
        self._asks = repr(found)
        self._look = None if found is None else partial(self._find, found)
        self._is_exact = found is not None and found.is_exact
        self.__class__ = _class_for(type(self), key_lifetime_s, found, lag_s)

    async def _send(self, call: Call, event: str, data: Mapping[str, Json]) -> SentHook:
        if not event.isprintable() or not 0 < len(event) <= EVENT_CHARS_MAX:
            raise Refused(f"event: write one line of at most {EVENT_CHARS_MAX} characters.")
        at = call.first_sent_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body = msgspec.json.encode({"type": event, "timestamp": at, "data": data})
        headers = {"Content-Type": "application/json", **self._signature(call.key, body.decode())}
        make = partial(self._request, "POST", self._target, headers, body)
        request, response = await self._change_signed(make, SEND_S)
        look, is_exact = self._look, self._is_exact
        alone = await is_alone(call, "POST", response, has_key=True, look=look, is_exact=is_exact)
        raise_for_change(response, request.shown, self.name, is_alone=alone)
        return {"id": call.key}

    async def _find(self, verify: Verify, call: Call) -> Verdict:
        return await self.find(call, verify)

    def _relies_on(self, method: str) -> Json:
        return [super()._relies_on(method), str(self._target), self._asks]

    def _signature(self, key: str, body: str) -> dict[str, str]:
        """Sign a message at this moment: a receiver refuses signatures that are old."""
        secret = self.secret(self._secret)
        try:
            check_secret(secret)
        except Invalid as error:
            said = f"{self.name}: the secret “{self._secret}” cannot sign: {error}"
            raise AuthNeeded(said, connect=self.name, secret=self._secret) from None
        at = str(int(moment(self.now_ms()).timestamp()))
        signed = sign(HookSender.STANDARD, secret, message_id=key, signed_at=at, body=body)
        return {ID.name: key, STANDARD.at_header: at, STANDARD.header: signed}


def _class_for(
    kind: type[Webhook], lifetime_s: float | None, verify: Verify | None, lag_s: float
) -> type[Webhook]:
    """Make the class whose tool has these terms; they are read off the class (law 2)."""

    @mutation(
        noun="webhook",
        lag_s=lag_s,
        key_in="header",
        asked=asked_by(verify, lifetime_s),
        deleted=deleted_by(verify),
        idempotent=lifetime_s is not None,
        key_lifetime_s=lifetime_s,
        labels={"event": "Event", "data": "Data"},
        editable=("data",),
    )
    async def send(self: Webhook, call: Call, event: str, data: dict[str, Any]) -> SentHook:
        """Send a signed message of one type, with its data.

        Returns {id}.
        """
        return await self._send(call, event, data)

    made: dict[str, Any] = {"__module__": __name__, "__doc__": kind.__doc__, "send": send}
    if verify is not None:

        async def send_happened(self: Webhook, call: Call) -> Verdict:
            """Ask the receiver for the message of this call, by its id."""
            found = await self.find(call, verify)
            return Applied({"id": call.key}) if isinstance(found, Applied) else found

        def send_tried(self: Webhook) -> dict[str, Json]:
            """Sends one webhook of the type duly.trial, without data."""
            return {"event": "duly.trial", "data": {}}

        made["send_happened"] = send.reconcile(send_happened)
        made["send_tried"] = send.trial(send_tried)
    return type(Webhook.__name__, (kind,), made)
