"""A web service that knows its user by one token: the base of the connectors for such services.

Law: the class says where the service is and how the token travels; the settings say the name of
the secret, and a url only where the service is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from duly.connectors.auth import Auth
from duly.connectors.base import Call
from duly.connectors.json_answer import pick
from duly.connectors.response import HttpResponse
from duly.connectors.rest import NOTHING, Rest
from duly.connectors.transport import HttpRequest, Transport
from duly.errors import UnknownOutcome
from duly.rules.url import Url
from duly.rules.value import Json


class PatientTransport(Transport):
    """A way to a service that says a rate limit in words, or without the time it lasts (K8)."""

    def __init__(
        self, busy_s: int, words: tuple[bytes, ...], allow: Collection[str], ca: Path | None
    ) -> None:
        super().__init__(allow=allow, ca=ca)
        self._busy_s = busy_s
        self._words = words

    async def change(
        self,
        request: HttpRequest,
        *,
        timeout_s: float,
        until: Callable[[bytearray], bool] | None = None,
    ) -> HttpResponse:
        """Send a change, once."""
        found = await super().change(request, timeout_s=timeout_s, until=until)
        return self._with_wait(found)

    async def read(
        self,
        request: HttpRequest,
        *,
        timeout_s: float,
        may_ask: Callable[[Url], bool] | None = None,
        until: Callable[[bytearray], bool] | None = None,
    ) -> HttpResponse:
        """Ask."""
        found = await super().read(request, timeout_s=timeout_s, may_ask=may_ask, until=until)
        return self._with_wait(found)

    def _with_wait(self, response: HttpResponse) -> HttpResponse:
        """Return a response with the time to wait, where it is a rate limit and says none."""
        is_said = response.status == 403 and any(each in response.body for each in self._words)
        is_limit = response.status == 429 or is_said
        has_time = response.header("retry-after") or response.header("x-ratelimit-remaining") == "0"
        if not is_limit or has_time or not self._busy_s:
            return response
        return replace(response, headers=(*response.headers, ("retry-after", str(self._busy_s))))


class TokenService(Rest):
    """One account of a service; `secret` names its token."""

    home: ClassVar[str]
    standing: ClassVar[Mapping[str, str]] = NOTHING  # headers of every request
    busy_s: ClassVar[int] = 0  # how long a rate limit lasts, where the answer does not say it
    busy_words: ClassVar[tuple[bytes, ...]] = ()  # a 403 with one of these is a rate limit

    def __init__(
        self,
        url: str = "",
        *,
        secret: str = "token",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
    ) -> None:
        self.name = name or type(self).name
        trusted = None if ca is None else Path(ca)
        super().__init__(
            url or type(self).home,
            auth=Auth("bearer", secret=secret),
            headers=type(self).standing,
            allow=allow,
            ca=trusted,
            transport=PatientTransport(self.busy_s, self.busy_words, allow, trusted),
        )

    def made(self, call: Call, answer: Json, *places: str) -> list[Any]:
        """Return what a change answers at these places; without one of them it is unknown (L4)."""
        found = [pick(answer, each) for each in places]
        for place, value in zip(places, found, strict=True):
            if not isinstance(value, str | int):
                said = f"the answer says nothing at {place!r}, so it may not have been done"
                raise UnknownOutcome(f"{call.tool}: {said}.")
        return found


def text_at(value: Any, path: str) -> str:
    """Return the text at a path; empty if there is none."""
    found = pick(value, path)
    return found if isinstance(found, str) else ""


def number_at(value: Any, path: str) -> int:
    """Return the whole number at a path; 0 if there is none."""
    found = pick(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def list_at(value: Any, path: str) -> list[Any]:
    """Return the list at a path; empty if there is none."""
    found = pick(value, path)
    return found if isinstance(found, list) else []


def texts_at(value: Any, path: str, inner: str = "") -> list[str]:
    """Return the texts of a list, or those at a path in each of its items."""
    found = (pick(each, inner) for each in list_at(value, path))
    return [each for each in found if isinstance(each, str)]


def cut_page(items: list[Any], place: str, after: str | None, size: int) -> tuple[list[Any], bool]:
    """Cut a list in the order of its times so that the next page can begin at its last time (K11).

    What has the time `after` was returned before and comes once more. So that the list goes on, it
    does not count, and all items of the last time are on the page.
    """
    seen = sum(1 for each in items if after is not None and each[place] <= after)
    end = seen + size
    while 0 < end < len(items) and items[end][place] == items[end - 1][place]:
        end += 1
    return items[:end], end < len(items)
