"""Services that need no code: each is a file of operations for the connector `http`.

    [connectors.tasks]
    use = "linear"              # then: duly secret set tasks token

Law 1: a file says of every change where its key travels and how it is found again; it is read as
       the operations of `http` are, with the same checks (K1).
Law 2: settings add operations to those of the file, or replace one by its name; nothing else of the
       file can be changed but the place of the service.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final

from duly.connectors.http import Http
from duly.connectors.need import Need
from duly.connectors.rest import NOTHING
from duly.errors import ConfigError

MICROSOFT: Final = "https://login.microsoftonline.com/common"
GRAPH: Final = "https://graph.microsoft.com/"


def read_file(service: str) -> dict[str, Any]:
    """Read the file of a service."""
    text = (files(__package__) / f"{service}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


class DeclaredService(Http):
    """A service by its file; `operations` are more of them."""

    _service: ClassVar[str]
    needs: ClassVar[tuple[Need, ...]] = ()

    def __init__(
        self,
        url: str = "",
        *,
        user: str = "",
        client_id: str = "",
        operations: Mapping[str, Any] = NOTHING,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
    ) -> None:
        table = read_file(type(self)._service)
        for key, value in (("url", url), ("user", user), ("client_id", client_id)):
            is_asked = any(each.name == key for each in self.needs)
            if is_asked and not value:
                raise ConfigError(f"{key}: it is missing. Write {key} = …")
        super().__init__(
            url or table["url"],
            operations={**table["operations"], **operations},
            auth=self._auth(table, user, client_id),
            headers=table.get("headers", NOTHING),
            allow=allow,
            ca=ca,
            name=name or type(self)._service,
        )

    def _auth(self, table: Mapping[str, Any], user: str, client_id: str) -> Mapping[str, Any]:
        """Return how the service is told who asks."""
        found: dict[str, Any] = dict(table["auth"])
        return {**found, "user": user} if found["type"] == "basic" else found


class Discord(DeclaredService):
    """A bot of Discord."""

    _service = "discord"


class Hubspot(DeclaredService):
    """A private app of HubSpot."""

    _service = "hubspot"


class Jira(DeclaredService):
    """A site of Jira Cloud, as one of its users."""

    _service = "jira"
    needs = (
        Need("url", "the address of the site", "https://acme.atlassian.net"),
        Need("user", "the address of the account", "ada@acme.com"),
    )


class Linear(DeclaredService):
    """A workspace of Linear."""

    _service = "linear"


class OutlookAccount(DeclaredService):
    """A mailbox and a calendar of Microsoft 365 or Outlook.com.

    `login` is where its users sign in: `https://login.microsoftonline.com/TENANT` for an app
    registration that is for one organisation alone.
    """

    _service = "outlook"
    needs = (Need("client_id", "the id of your app registration", "11111111-2222-…"),)

    def __init__(
        self,
        url: str = "",
        *,
        client_id: str = "",
        login: str = MICROSOFT,
        operations: Mapping[str, Any] = NOTHING,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
    ) -> None:
        self._login = login.rstrip("/")
        more: dict[str, Any] = {"operations": operations, "allow": allow, "ca": ca, "name": name}
        super().__init__(url, client_id=client_id, **more)

    def _auth(self, table: Mapping[str, Any], user: str, client_id: str) -> Mapping[str, Any]:
        """Return where Microsoft lets its users sign in; the least scopes of each tool."""
        place = f"{self._login}/oauth2/v2.0"
        return {
            **table["auth"],
            "client_id": client_id,
            "authorize_url": f"{place}/authorize",
            "token_url": f"{place}/token",
            "device_url": f"{place}/devicecode",
            "scope_base": GRAPH,
        }


class Todoist(DeclaredService):
    """An account of Todoist."""

    _service = "todoist"


class Trello(DeclaredService):
    """An account of Trello."""

    _service = "trello"
