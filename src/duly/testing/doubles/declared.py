"""The doubles of the declared services, in one: each route as the page of its service says.

Linear: linear.app/developers/graphql. Todoist: developer.todoist.com/api/v1. Trello and Jira:
developer.atlassian.com. Discord: discord.com/developers/docs. HubSpot: developers.hubspot.com.
Outlook: learn.microsoft.com/graph. Fields that a service does not know are rejected.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceReply, route
from duly.testing.doubles.microsoft import MicrosoftRoutes
from duly.testing.doubles.shape import ANYTHING, TextOf, misfit, needed

UUID = TextOf(36)
GRAPHQL = {"query": needed(str), "variables": needed(ANYTHING)}
ISSUE = {"id": UUID, "teamId": needed(str), "title": needed(str), "description": str}
COMMENT = {"id": UUID, "issueId": needed(str), "body": needed(str)}
ADD = {"content": needed(str), "description": str, "project_id": str, "priority": int}
COMMAND = {"type": needed(str), "uuid": needed(UUID), "temp_id": UUID, "args": needed(ANYTHING)}
CARD = {"idList": needed(str), "name": needed(TextOf(16_384)), "desc": TextOf(16_384)}
MESSAGE = {
    "content": needed(TextOf(2000)),
    "nonce": TextOf(25),
    "enforce_nonce": bool,
    "allowed_mentions": {"parse": [str]},
    "embeds": [{"footer": {"text": needed(TextOf(2048))}}],
}
PARAGRAPH = {"type": str, "content": [{"type": str, "text": needed(TextOf(32_767))}]}
ADF = {"type": needed(str), "version": needed(int), "content": needed([PARAGRAPH])}
JIRA = {
    "project": needed({"key": needed(str)}),
    "issuetype": needed({"name": needed(str)}),
    "summary": needed(TextOf(255)),
    "labels": [TextOf(255)],
    "description": ADF,
}
PROPERTY = {"key": needed(str), "value": needed(ANYTHING)}
DEAL = dict.fromkeys(("dealname", "dealstage", "pipeline", "amount", "duly_key"), str)
CONTACT = dict.fromkeys(("email", "firstname", "lastname", "company", "phone", "duly_key"), str)


class DeclaredDesk(MicrosoftRoutes):
    """Every service, one account for each token."""

    def new_account(self) -> dict[str, Any]:
        """Return an account in which nothing was made."""
        return {"made": [], **self.new_mailbox()}

    def effects(self, account: dict[str, Any]) -> int:
        """Count what was made."""
        return len(account["made"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a rejection of the sign-in as Microsoft does, another plainly."""
        return self.said_of_sign_in(rejected) or super().rejection(rejected)

    def token_of(self, headers: Mapping[str, str]) -> str:
        """Return the token: behind the last blank, or the password of a pair."""
        kind, _, rest = headers.get("authorization", "").rpartition(" ")
        if kind == "Basic":
            return base64.b64decode(rest).decode().partition(":")[2]
        return rest

    def _made(self, ask: ServiceAsk, **more: Any) -> dict[str, Any]:
        made = {**more, "id": more.get("id") or f"n{len(ask.account['made']) + 1}"}
        ask.account["made"].append(made)
        return made

    @route("POST", "/linear/graphql", query=())
    def linear(self, ask: ServiceAsk) -> ServiceReply:
        """Answer a query, or make an issue or a comment with its own id, once."""
        body = self.json_of(ask, GRAPHQL)
        query, variables = body["query"], body["variables"]
        name = "issue" if "issue" in query else "comment"
        if query.startswith("mutation"):
            given = variables["input"]
            if (why := misfit(given, ISSUE if name == "issue" else COMMENT)) is not None:
                return ServiceReply({"errors": [{"message": why}], "data": None})
            if any(each["id"] == given["id"] for each in ask.account["made"]):
                return ServiceReply({"errors": [{"message": "Entity exists"}], "data": None})
            made = self._made(ask, **given, url="https://linear.app/x", identifier="T-1")
            return ServiceReply({"data": {f"{name}Create": {"success": True, name: made}}})
        wanted = variables.get("key_uuid")
        nodes = [each for each in ask.account["made"] if wanted in (None, each["id"])]
        more = {"endCursor": None, "hasNextPage": False}
        return ServiceReply({"data": {f"{name}s": {"nodes": nodes, "pageInfo": more}}})

    @route("POST", "/todoist/sync", query=())
    def todoist(self, ask: ServiceAsk) -> ServiceReply:
        """Execute a command, each uuid once."""
        (command,) = json.loads(self.form_of(ask, {"commands": needed(str)})["commands"])
        if (why := misfit(command, COMMAND)) is not None:
            raise Rejected(400, "invalid", why)
        uuid = command["uuid"]
        shape = ADD if command["type"] == "item_add" else {"id": needed(str)}
        if (why := misfit(command["args"], shape)) is not None:
            return ServiceReply({"sync_status": {uuid: {"error_code": 20, "error": why}}})
        if not any(each["uuid"] == uuid for each in ask.account["made"]):
            self._made(ask, uuid=uuid, **command["args"])
        return ServiceReply({"sync_status": {uuid: "ok"}, "temp_id_mapping": {uuid: "n1"}})

    @route("GET", "/todoist/tasks", query=("project_id", "cursor"))
    def tasks(self, ask: ServiceAsk) -> ServiceReply:
        """List the open tasks, 50 on a page unless it is said."""
        page, following = _page(ask, ask.account["made"], "cursor", 50)
        return ServiceReply({"results": page, "next_cursor": following})

    @route("POST", "/trello/cards", query=())
    def trello(self, ask: ServiceAsk) -> ServiceReply:
        """Add a card."""
        return ServiceReply(self._made(ask, **self.json_of(ask, CARD), url="https://trello.com/c"))

    @route("GET", "/trello/boards/{board}/cards", query=("filter", "since", "fields", "limit"))
    def cards(self, ask: ServiceAsk, board: str) -> ServiceReply:
        """List the cards of a board."""
        return ServiceReply(ask.account["made"])

    @route("POST", "/discord/channels/{channel}/messages", query=())
    def discord(self, ask: ServiceAsk, channel: str) -> ServiceReply:
        """Send a message."""
        return ServiceReply(self._made(ask, **self.json_of(ask, MESSAGE), channel_id=channel))

    @route("GET", "/discord/channels/{channel}/messages", query=("limit", "after"))
    def messages(self, ask: ServiceAsk, channel: str) -> ServiceReply:
        """List messages, the newest first."""
        return ServiceReply(ask.account["made"][::-1])

    @route("POST", "/jira/rest/api/3/issue", query=())
    def jira(self, ask: ServiceAsk) -> ServiceReply:
        """Open an issue."""
        fields = self.json_of(ask, {"fields": needed(JIRA)})["fields"]
        return ServiceReply(self._made(ask, fields=fields, key="T-1"), 201)

    @route("GET", "/jira/rest/api/3/search/jql", query=("jql", "fields", "nextPageToken"))
    def search(self, ask: ServiceAsk) -> ServiceReply:
        """Find issues by a label, 50 on a page."""
        label = ask.query["jql"].rpartition(" = ")[2].strip('"')
        found = [each for each in ask.account["made"] if label in each["fields"]["labels"]]
        page, following = _page(ask, found, "nextPageToken", 50)
        more = {"isLast": True} if following is None else {"nextPageToken": following}
        return ServiceReply({"issues": page, **more})

    @route("POST", "/jira/rest/api/3/issue/{issue}/comment", query=())
    def jira_comment(self, ask: ServiceAsk, issue: str) -> ServiceReply:
        """Write a comment."""
        body = self.json_of(ask, {"body": needed(ADF), "properties": [PROPERTY]})
        return ServiceReply(self._made(ask, **body), 201)

    @route(
        "GET", "/jira/rest/api/3/issue/{issue}/comment", query=("expand", "orderBy", "maxResults")
    )
    def jira_comments(self, ask: ServiceAsk, issue: str) -> ServiceReply:
        """List the comments."""
        return ServiceReply({"comments": ask.account["made"], "total": len(ask.account["made"])})

    @route("POST", "/hubspot/crm/v3/objects/{kind}", query=())
    def hubspot(self, ask: ServiceAsk, kind: str) -> ServiceReply:
        """Add a contact or a deal; the key is unique."""
        if kind not in ("contacts", "deals"):
            raise Rejected(404, "not_found")
        shape = CONTACT if kind == "contacts" else DEAL
        body = self.json_of(ask, {"properties": needed(shape)})
        key = body["properties"]["duly_key"]
        if any(each["properties"]["duly_key"] == key for each in ask.account["made"]):
            raise Rejected(409, "CONFLICT")
        return ServiceReply(self._made(ask, **body), 201)

    @route("GET", "/hubspot/crm/v3/objects/{kind}/{key}", query=("idProperty", "properties"))
    def contact(self, ask: ServiceAsk, kind: str, key: str) -> ServiceReply:
        """Show a contact or a deal by a unique property."""
        name = ask.query["idProperty"]
        found = [each for each in ask.account["made"] if each["properties"][name] == key]
        if not found:
            raise Rejected(404, "not_found")
        return ServiceReply(found[0])

    @route("GET", "/hubspot/crm/v3/objects/contacts", query=("limit", "after"))
    def contacts(self, ask: ServiceAsk) -> ServiceReply:
        """List contacts, at most a hundred on a page."""
        page, following = _page(ask, ask.account["made"], "after", 100)
        more = {} if following is None else {"paging": {"next": {"after": following}}}
        return ServiceReply({"results": page, **more})


def _page(ask: ServiceAsk, found: list[Any], name: str, size: int) -> tuple[list[Any], str | None]:
    """Return a page behind a cursor, and the cursor of the next."""
    at = int(ask.query.get(name) or 0)
    end = at + min(int(ask.query.get("limit", size)), size)
    return found[at:end], str(end) if end < len(found) else None
