"""Notion: pages of databases, made and changed once.

    [connectors.notion]
    use = "notion"              # then: duly secret set notion token   (ntn_…)

Law 1: each database has a text property for keys (`Duly key`). The key of the call that made a page
       is its first word, the key of the call that changed the page last is its second.
Law 2: a change keeps, before it is sent, what stood there. If that still stands there it did not
       happen; if a third call wrote there, a person decides (L5, L14).
Law 3: values are plain; their types are the database's own, and are read before each change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.json_answer import pick
from duly.connectors.notion_text import (
    read_properties,
    write_blocks,
    write_filter,
    write_properties,
    write_text,
)
from duly.connectors.rest import FIND_S, PAGES_MAX, READ_S
from duly.connectors.token_service import TokenService, list_at, text_at
from duly.errors import NotSent, Refused, Transient
from duly.rules.value import Json

ID: Final = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,12}Z")
PAGE: Final = 100
KEY_PROPERTY: Final = "Duly key"
HEADERS: Final[Mapping[str, str]] = MappingProxyType({"Notion-Version": "2022-06-28"})


class NotionPage(TypedDict):
    """A page of a database: its values by the names of the properties."""

    id: str
    url: str
    created_at: str
    edited_at: str
    values: dict[str, Any]


class NotionMade(TypedDict):
    """The page that a change made or changed."""

    id: str
    url: str


class Notion(TokenService):
    """One integration; `key_property` is the text property of its databases for keys."""

    name = "notion"
    home = "https://api.notion.com/v1"
    standing = HEADERS

    def __init__(
        self,
        url: str = "",
        *,
        key_property: str = KEY_PROPERTY,
        secret: str = "token",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
    ) -> None:
        super().__init__(url, secret=secret, allow=allow, ca=ca, name=name)
        self._key_property = key_property

    def _relies_on(self, method: str) -> Json:
        """Return the account and the property of keys (K10)."""
        return [super()._relies_on(method), self._key_property]

    # -- Reads ------------------------------------------------------------------------------------

    @read
    async def query(
        self, database: str, where: dict[str, Any] | None = None, after: str | None = None
    ) -> Page[NotionPage]:
        """List the pages of a database, the oldest first; `where={"Status": "Open"}`.

        Returns a page of {id, url, created_at, edited_at, values}; with `after` those made since,
        once more the last ones. In `values` a date is the text of its start (`2026-03-01`, or with
        a time), a choice its name, several a list; what is empty is nothing, a text is empty.
        """
        place = _id("database", database)
        filters: list[Json] = []
        if where:
            filters = write_filter(where, await self._types(place))
        if after is not None:
            if not TIME.fullmatch(after):
                raise Refused(f"after is {after[:50]!r}, which is no cursor of pages.")
            since: Json = {"on_or_after": after}
            filters.append({"timestamp": "created_time", "created_time": since})
        found, is_more = await self._since(place, filters)
        last = found[-1]["created_at"] if found else after
        return Page(found, last_cursor=last, has_more=is_more)

    @read(by_id=True)
    async def get(self, id: str) -> NotionPage | None:  # noqa: A002
        """Read the values of one page.

        Returns {id, url, created_at, edited_at, values}, or nothing.
        """
        answer = await self.fetch_one(f"/pages/{_id('id', id)}")
        return None if answer is None else self._page_of(answer)

    # -- Changes ----------------------------------------------------------------------------------

    @mutation(
        noun="page",
        lag_s=120,
        key_in="field",
        asked="by_search",
        deleted="unseen",
        labels={"database": "Database", "values": "Values", "text": "Text"},
        editable=("text",),
    )
    async def create(
        self, call: Call, database: str, values: dict[str, Any], text: str = ""
    ) -> NotionMade:
        """Add a page to a database, with a text of plain paragraphs.

        Returns {id, url}.
        """
        place = _id("database", database)
        try:
            types = await self._types(place)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        properties = write_properties(values, types) | self._key(call.key, types)
        body: dict[str, Json] = {"parent": {"database_id": place}, "properties": properties}
        if text:
            body["children"] = write_blocks(text)
        answer = await self.change(call, "POST", "/pages", body=body)
        made, url = self.made(call, answer, "id", "url")
        return {"id": made, "url": url}

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look for the page whose first key is this one."""
        body: Json = {
            "filter": {"property": self._key_property, "rich_text": {"contains": call.key}},
            "page_size": PAGE,
        }
        path = f"/databases/{call.args['database']}/query"
        answer = await self.ask(path, body, timeout_s=FIND_S, is_proof=True)
        found = pick(answer, "results")
        if pick(answer, "object") != "list" or not isinstance(found, list):
            return Unsure("the answer is no list")
        for each in found:
            if self._keys_of(each)[:1] == [call.key]:
                return Applied({"id": text_at(each, "id"), "url": text_at(each, "url")})
        if any(call.key not in self._keys_of(each) for each in found):
            return Unsure("a page was found, and it does not show the key")
        return NotApplied() if pick(answer, "has_more") is False else Unsure("there are more")

    @create.trial
    def create_tried(self) -> Mapping[str, Json] | None:
        """Adds one page to a database that you name."""
        return None

    @mutation(
        noun="page",
        lag_s=120,
        key_in="field",
        asked="exactly",
        deleted="seen",
        labels={"id": "Page", "values": "Values"},
    )
    async def update(self, call: Call, id: str, values: dict[str, Any]) -> NotionMade:  # noqa: A002
        """Change values of a page.

        Returns {id, url}.
        """
        path = f"/pages/{_id('id', id)}"
        try:
            page = await self.fetch_one(path, timeout_s=READ_S)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        if page is None:
            raise Refused(f"id: there is no page {id}.")
        properties = pick(page, "properties")
        named = properties.items() if isinstance(properties, dict) else ()
        types = {name: text_at(each, "type") for name, each in named}
        before = self._keys_of(page)
        words = f"{before[0] if before else '-'} {call.key}"
        made = write_properties(values, types) | self._key(words, types)
        await call.keep({"keys": [*before]})
        answer = await self.change(call, "PATCH", path, body={"properties": made})
        found, url = self.made(call, answer, "id", "url")
        return {"id": found, "url": url}

    @update.reconcile
    async def update_happened(self, call: Call) -> Verdict:
        """Look which call changed the page last."""
        if not isinstance(call.handle, dict):
            return NotApplied()
        path = f"/pages/{call.args['id']}"
        page = await self.fetch_one(path, timeout_s=FIND_S, is_proof=True)
        if page is None:
            return Unsure("the page is gone")
        properties = pick(page, "properties")
        if not isinstance(properties, dict) or self._key_property not in properties:
            return Unsure("the page does not show the property of keys")
        now = self._keys_of(page)
        if now[1:] == [call.key]:
            return Applied({"id": text_at(page, "id"), "url": text_at(page, "url")})
        if now == call.handle.get("keys"):
            return NotApplied()
        return Unsure("another call changed the page since")

    # -- Within -----------------------------------------------------------------------------------

    async def _types(self, database: str) -> dict[str, str]:
        """Ask for the properties of a database and their types."""
        answer = await self.fetch_one(f"/databases/{database}", timeout_s=READ_S)
        properties = pick(answer, "properties")
        if not isinstance(properties, dict):
            raise Refused(f"database: there is no {database}, or it is not shared with Duly.")
        return {name: text_at(each, "type") for name, each in properties.items()}

    def _key(self, words: str, types: Mapping[str, str]) -> dict[str, Json]:
        """Write the property of keys; a database without it is refused, with what to do."""
        if types.get(self._key_property) != "rich_text":
            raise Refused(
                f"The database has no text property {self._key_property!r}. Add it, so that a page"
                " is found again after a lost answer."
            )
        return {self._key_property: {"rich_text": write_text(words)}}

    def _keys_of(self, page: Any) -> list[str]:
        properties = pick(page, "properties")
        own = properties.get(self._key_property) if isinstance(properties, dict) else None
        found = read_properties({self._key_property: own})[self._key_property]
        return found.split() if isinstance(found, str) else []

    async def _since(self, database: str, filters: Sequence[Json]) -> tuple[list[NotionPage], bool]:
        """Read a page of the oldest, and more while all are of one minute (K11)."""
        order: list[Json] = [{"timestamp": "created_time", "direction": "ascending"}]
        body: dict[str, Json] = {"sorts": order, "page_size": PAGE}
        if filters:
            body["filter"] = {"and": list(filters)}
        found: list[NotionPage] = []
        for _ in range(PAGES_MAX):
            answer = await self.ask(f"/databases/{database}/query", body)
            found += [self._page_of(each) for each in list_at(answer, "results")]
            following = text_at(answer, "next_cursor")
            # A cursor names a minute: it only moves on where the last minute is another one.
            if not following or found[0]["created_at"] != found[-1]["created_at"]:
                return found, bool(following)
            body["start_cursor"] = following
        raise Refused(f"More than {PAGES_MAX * PAGE:,} pages were made in one minute. Say where.")

    def _page_of(self, each: Any) -> NotionPage:
        values = read_properties(pick(each, "properties"))
        return {
            "id": text_at(each, "id"),
            "url": text_at(each, "url"),
            "created_at": text_at(each, "created_time"),
            "edited_at": text_at(each, "last_edited_time"),
            "values": {name: each for name, each in values.items() if name != self._key_property},
        }


def _id(name: str, text: str) -> str:
    if not ID.fullmatch(text):
        raise Refused(f"{name}: {text[:50]!r} is no id of Notion. Its address has it.")
    return text
