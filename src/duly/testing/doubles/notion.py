"""Notion's API on loopback, as https://developers.notion.com/reference describes it (2022-06-28).

Served are retrieve and query of a database, and create, retrieve and update of its pages. A request
without `Notion-Version`, a property that the database does not have or of another type, and a text
of more than 2,000 characters are rejected with `validation_error`. Times are cut to the minute.
"""

from __future__ import annotations

from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import write_moment
from duly.testing.doubles.shape import ANYTHING, TextOf, misfit, needed

DATABASE: Final = "d0000000-0000-4000-8000-000000000001"
TYPES: Final = {
    "Name": "title",
    "Note": "rich_text",
    "Count": "number",
    "Done": "checkbox",
    "Status": "select",
    "Tags": "multi_select",
    "Due": "date",
    "Duly key": "rich_text",
}
RICH: Final = [{"type": TextOf(4, ("text",)), "text": needed({"content": needed(TextOf(2000))})}]
CHOICE: Final = {"name": needed(TextOf(100))}
SHAPES: Final[dict[str, Any]] = {
    "title": RICH,
    "rich_text": RICH,
    "number": float,
    "checkbox": bool,
    "select": CHOICE,
    "multi_select": [CHOICE],
    "date": {"start": needed(str)},
}
PROPERTIES: Final = {name: {kind: needed(SHAPES[kind])} for name, kind in TYPES.items()}
BLOCK: Final = {"object": str, "type": str, "paragraph": {"rich_text": RICH}}
CREATE: Final = {
    "parent": needed({"database_id": needed(str)}),
    "properties": needed(PROPERTIES),
    "children": [BLOCK],
}
UPDATE: Final = {"properties": PROPERTIES, "archived": bool}
QUERY: Final = {"filter": ANYTHING, "sorts": ANYTHING, "page_size": int, "start_cursor": str}
SAID: Final = {
    "unauthorized": (401, "unauthorized"),
    "insufficient_scope": (403, "restricted_resource"),
    "unsupported_media_type": (400, "invalid_json"),
    "invalid_json": (400, "invalid_json"),
    "not_found": (404, "object_not_found"),
    "method_not_allowed": (404, "object_not_found"),
    "version": (400, "missing_version"),
}


class NotionDouble(ServiceDouble):
    """One database for each token."""

    page_max = 100

    def new_account(self) -> dict[str, Any]:
        """Return a database without pages."""
        return {"pages": [], "changes": 0}

    def effects(self, account: dict[str, Any]) -> int:
        """Count the pages that were made, and the changes of them."""
        return int(account["changes"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as Notion does."""
        status, code = SAID.get(rejected.reason, (400, "validation_error"))
        said = {"object": "error", "status": status, "code": code, "message": rejected.message}
        return ServiceReply(said, status)

    def put(self, account: str, name: str, at: str = "") -> str:
        """Let a person add a page; return its id."""
        return put_page(self.account(account), name, at)

    @route("GET", "/databases/{name}", scopes=("read",))
    def database(self, ask: ServiceAsk, name: str) -> ServiceReply:
        """Show the properties of a database."""
        _check(ask, name)
        found = {name: {"name": name, "type": kind, kind: {}} for name, kind in TYPES.items()}
        return ServiceReply({"object": "database", "id": DATABASE, "properties": found})

    @route("POST", "/databases/{name}/query", scopes=("read",), query=())
    def query(self, ask: ServiceAsk, name: str) -> ServiceReply:
        """List the pages that fit a filter."""
        _check(ask, name)
        body = self.json_of(ask, QUERY)
        given = body.get("filter")
        filters = given["and"] if given and "and" in given else [given] if given else []
        found = [each for each in ask.account["pages"] if all(_fits(each, one) for one in filters)]
        for order in body.get("sorts", []):
            if order != {"timestamp": "created_time", "direction": "ascending"}:
                raise Rejected(400, "sorts")
            found.sort(key=lambda each: str(each["created_time"]))
        at = int(body.get("start_cursor", "0"))
        size = min(body.get("page_size", 100), self.page_max)
        following = str(at + size) if at + size < len(found) else None
        more = {"object": "list", "has_more": following is not None, "next_cursor": following}
        return ServiceReply({**more, "results": found[at : at + size]})

    @route("POST", "/pages", scopes=("insert",), query=())
    def create(self, ask: ServiceAsk) -> ServiceReply:
        """Add a page to the database."""
        body = self.json_of(ask, CREATE)
        _check(ask, body["parent"]["database_id"])
        if len(body.get("children", [])) > 100:
            raise Rejected(400, "children")
        made = _put(ask.account, body["properties"])
        ask.account["changes"] += 1
        return ServiceReply(made)

    @route("GET", "/pages/{name}", scopes=("read",))
    def page(self, ask: ServiceAsk, name: str) -> ServiceReply:
        """Show a page."""
        return ServiceReply(_find(ask, name))

    @route("PATCH", "/pages/{name}", scopes=("update",), query=())
    def update(self, ask: ServiceAsk, name: str) -> ServiceReply:
        """Change properties of a page."""
        found = _find(ask, name)
        body = self.json_of(ask, UPDATE)
        found["properties"] |= _shown(body.get("properties", {}))
        found["last_edited_time"] = now()
        ask.account["changes"] += 1
        return ServiceReply(found)


def now() -> str:
    """Return the moment as Notion writes it: cut to the minute."""
    return write_moment("%Y-%m-%dT%H:%M:00.000Z")


def put_page(account: dict[str, Any], name: str, at: str = "") -> str:
    """Add a page as a person does; return its id."""
    sent = {"Name": {"title": [{"type": "text", "text": {"content": name}}]}}
    return str(_put(account, sent, at)["id"])


def _check(ask: ServiceAsk, name: str = DATABASE) -> None:
    if "notion-version" not in ask.headers:
        raise Rejected(400, "version", "Notion-Version header should be defined")
    if name != DATABASE:
        raise Rejected(404, "not_found", f"Could not find database with ID: {name}.")


def _find(ask: ServiceAsk, name: str) -> dict[str, Any]:
    _check(ask)
    found = [each for each in ask.account["pages"] if each["id"] == name]
    if not found:
        raise Rejected(404, "not_found", f"Could not find page with ID: {name}.")
    page: dict[str, Any] = found[0]
    return page


def _put(account: dict[str, Any], properties: Any, at: str = "") -> dict[str, Any]:
    number = f"a0000000-0000-4000-8000-{len(account['pages']) + 1:012}"
    made = {"object": "page", "id": number, "url": f"https://www.notion.so/{number}"}
    made |= {"created_time": at or now(), "last_edited_time": at or now()}
    empty = {name: {"type": kind, kind: _empty(kind)} for name, kind in TYPES.items()}
    account["pages"].append({**made, "properties": empty | _shown(properties)})
    page: dict[str, Any] = account["pages"][-1]
    return page


def _empty(kind: str) -> Any:
    return [] if isinstance(SHAPES[kind], list) else False if kind == "checkbox" else None


def _shown(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties as Notion shows them: each with its type, texts also as plain ones."""
    found = {}
    for name, each in properties.items():
        kind = TYPES[name]
        value = each[kind]
        if kind in ("title", "rich_text"):
            value = [{**one, "plain_text": one["text"]["content"]} for one in value]
        found[name] = {"type": kind, kind: value}
    return found


def _fits(page: dict[str, Any], given: dict[str, Any]) -> bool:
    if "timestamp" in given:
        return bool(page["created_time"] >= given["created_time"]["on_or_after"])
    name = given.get("property", "")
    kind = TYPES.get(name, "")
    if not kind or kind not in given:
        raise Rejected(400, "filter", f"Could not find property with name or id: {name}")
    ((word, wanted),) = given[kind].items()
    value = page["properties"][name][kind]
    if kind in ("title", "rich_text"):
        value = "".join(one["plain_text"] for one in value)
        return wanted in value if word == "contains" else bool(value == wanted)
    if kind == "multi_select":
        return wanted in [one["name"] for one in value]
    if kind == "select":
        value = value and value["name"]
    if misfit(wanted, float if kind == "number" else ANYTHING) is not None:
        raise Rejected(400, "filter", f"{name}: should be a {kind}")
    return bool(value == wanted)
