"""A sign of life to a service outside, which tells a person when it stops (B9, K3).

    [channels.alive]
    use = "heartbeat"
    url = "https://hc.example.com/***"      # then: duly secret set channels alive.key

Law 1  It goes out over the transport of the connectors: names are judged by their addresses, and
       no redirect is followed.
Law 2  It says nothing but that the host is well. A `***` in the URL stands for the secret `key`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from duly.bus.asking import ChannelLink
from duly.connectors.transport import HIDDEN, Credentials, HttpRequest, Transport
from duly.errors import AuthNeeded, ConfigError, Invalid, NotSent, Refused, Transient
from duly.rules.url import read_host, read_url

BEAT_S: Final = 20.0
EVERY_S: Final = 300
EVERY_S_MIN: Final = 10
EVERY_S_MAX: Final = 86_400
SUCCESS: Final = 2


@runtime_checkable
class BeatingChannel(Protocol):
    """A channel that carries no text, and a sign of life every so often."""

    name: str
    every_s: int
    problem: str | None

    def bind(self, link: ChannelLink) -> None:
        """Take what the host gives."""

    async def beat(self) -> None:
        """Give the sign; raise if it was not taken."""


class HeartbeatChannel:
    """Asks for one URL every `every_s` seconds while the host is well."""

    kind = "heartbeat"

    def __init__(
        self,
        url: str,
        *,
        every_s: int = EVERY_S,
        method: Literal["GET", "POST"] = "GET",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "heartbeat",
    ) -> None:
        self.name = name
        self.problem: str | None = None
        try:
            self._url = read_url(url)
            hosts = [read_host(each, path="allow") for each in allow]
        except Invalid as error:
            raise ConfigError(code=error.code, subject=error.subject, facts=error.facts) from None
        if type(every_s) is not int or not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
            facts = {"given": every_s, "least": EVERY_S_MIN, "most": EVERY_S_MAX}
            raise ConfigError(code="out_of_range", subject="every_s", facts=facts)
        if method not in ("GET", "POST"):
            choice = {"given": method, "known": ("GET", "POST")}
            raise ConfigError(code="not_one_of", subject="method", facts=choice)
        self.every_s = every_s
        self._method = method
        self._link: ChannelLink | None = None
        self._transport = Transport(allow=hosts, ca=None if ca is None else Path(ca))

    def bind(self, link: ChannelLink) -> None:
        """Take the secrets of the host."""
        self._link = link

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Refuse: it carries no text."""
        raise Refused(f"The channel {self.name} gives signs of life, and carries no text.")

    async def beat(self) -> None:
        """Ask for the URL once."""
        if self._link is None:
            raise NotSent(f"The channel {self.name} belongs to no open host.")
        credentials = None
        if HIDDEN in self._url.path:
            key = self._link.find_secret("key")
            if key is None:
                raise AuthNeeded(
                    f"The channel {self.name} has no key. Set it as the secret {self.name}.key of"
                    " channels."
                )
            credentials = Credentials(self._url.origin, path=key)
        request = HttpRequest(self._method, self._url, credentials=credentials)
        if self._method == "GET":
            way = self._transport.read(request, timeout_s=BEAT_S, may_ask=lambda url: False)
        else:
            way = self._transport.change(request, timeout_s=BEAT_S)
        response = await way
        if response.status // 100 != SUCCESS:
            raise Transient(f"{request.shown}: the server answered {response.status}.")
