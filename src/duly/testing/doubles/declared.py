"""The doubles of the declared services, in one: each route as the page of its service says.

- Linear: linear.app/developers/graphql; its mistakes come with the status 200. No length is said.
- Todoist: developer.todoist.com/api/v1#tag/Sync; the lengths: todoist.com/help, usage limits.
- Trello: developer.atlassian.com/cloud/trello/rest/api-group-cards and api-group-boards; how a
  token travels: developer.atlassian.com/cloud/trello/guides/rest-api/authorization.
- Discord: discord.com/developers/docs/resources/message; `Bot`: docs/reference#authentication.
- Jira: developer.atlassian.com/cloud/jira/platform/rest/v3, the groups Issues, Issue comments and
  Issue search; no text of a document is empty: cloud/jira/platform/apis/document/nodes/text; its
  scopes: cloud/jira/platform/scopes-for-oauth-2-3LO-and-forge-apps.
- HubSpot: developers.hubspot.com/docs/reference/api/crm/objects; the length of a property:
  knowledge.hubspot.com, property field types.
- Outlook: learn.microsoft.com/graph, in `microsoft`.

A token that is not spelled as its service wants, a missing scope (or permission of a bot), another
content type, an unknown field and a text that is too long are rejected.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceReply, route
from duly.testing.doubles.microsoft import MicrosoftRoutes
from duly.testing.doubles.shape import ANYTHING, TextOf, misfit, needed

UUID = TextOf(36)
GRAPHQL = {"query": needed(str), "variables": needed(ANYTHING)}
ISSUE = {"id": UUID, "teamId": needed(str), "title": needed(str), "description": str}
COMMENT = {"id": UUID, "issueId": needed(str), "body": needed(str)}
ADD = {
    "content": needed(TextOf(500)),
    "description": TextOf(16_383),
    "project_id": str,
    "priority": int,
}
COMMAND = {"type": needed(str), "uuid": needed(UUID), "temp_id": UUID, "args": needed(ANYTHING)}
CARD = {"idList": needed(str), "name": needed(TextOf(16_384)), "desc": TextOf(16_384)}
MESSAGE = {
    "content": needed(TextOf(2000)),
    "nonce": TextOf(25),
    "enforce_nonce": bool,
    "allowed_mentions": {"parse": [str]},
    "embeds": [{"footer": {"text": needed(TextOf(2048))}}],
}
PARAGRAPH = {"type": str, "content": [{"type": str, "text": needed(TextOf(32_767, chars_min=1))}]}
ADF = {"type": needed(str), "version": needed(int), "content": needed([PARAGRAPH])}
JIRA = {
    "project": needed({"key": needed(str)}),
    "issuetype": needed({"name": needed(str)}),
    "summary": needed(TextOf(255, chars_min=1, is_line=True)),
    "labels": [TextOf(255)],
    "description": ADF,
}
PROPERTY = {"key": needed(str), "value": needed(ANYTHING)}
VALUE = TextOf(65_536)
DEAL = dict.fromkeys(("dealname", "dealstage", "pipeline", "amount", "duly_key"), VALUE)
CONTACT = dict.fromkeys(("email", "firstname", "lastname", "company", "phone", "duly_key"), VALUE)
# How the token stands in the header Authorization, service by service.
SPELLINGS: Final = MappingProxyType(
    {
        "linear": r"(?:Bearer )?(\S+)",  # a key of a person comes alone
        "todoist": r"Bearer (\S+)",
        "trello": r'OAuth oauth_consumer_key="\w+", oauth_token="(\S+)"',
        "discord": r"Bot (\S+)",
        "jira": r"Basic (\S+)",
        "hubspot": r"Bearer (\S+)",
        "outlook": r"Bearer (\S+)",
    }
)
LINES: Final = MappingProxyType(
    {"discord": "Bot {}", "trello": 'OAuth oauth_consumer_key="key", oauth_token="{}"'}
)
TODOIST_READS: Final = ("data:read", "data:read_write")
DISCORD_SENDS: Final = ("SEND_MESSAGES",)
DISCORD_READS: Final = ("READ_MESSAGE_HISTORY",)
JIRA_WRITES: Final = ("write:jira-work",)
JIRA_READS: Final = ("read:jira-work",)


def secret_line(service: str, token: str) -> str:
    """Return the secret of a service: the token, or the whole line of the header it stands in."""
    return LINES.get(service, "{}").format(token)


class DeclaredDesk(MicrosoftRoutes):
    """Every service, one account for each token."""

    def new_account(self) -> dict[str, Any]:
        """Return an account in which nothing was made."""
        lists = [
            {"id": own, "name": name, "closed": False}
            for own, name in (("l", "To do"), ("l2", "Done"))
        ]
        return {"made": [], "lists": lists, **self.new_mailbox()}

    def effects(self, account: dict[str, Any]) -> int:
        """Count what was made."""
        return len(account["made"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a rejection of the sign-in as Microsoft does, another plainly."""
        return self.said_of_sign_in(rejected) or super().rejection(rejected)

    def token_of(self, headers: Mapping[str, str]) -> str:
        """Return the whole header; which part is the token depends on the service."""
        return headers.get("authorization", "")

    def answer(self, ask: ServiceAsk) -> ServiceReply:
        """Find the token where the service of the path wants it, then do what is asked."""
        return super().answer(replace(ask, token=_token(ask.path.split("/")[1], ask.token)))

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
        is_change = query.startswith("mutation")
        self.account_of(ask.token, ("write", f"{name}s:create") if is_change else ("read",))
        if is_change:
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
        adds = ("task:add",) if command["type"] == "item_add" else ()
        self.account_of(ask.token, ("data:read_write", *adds))
        shape = ADD if command["type"] == "item_add" else {"id": needed(str)}
        if (why := misfit(command["args"], shape)) is not None:
            return ServiceReply({"sync_status": {uuid: {"error_code": 20, "error": why}}})
        if not any(each["uuid"] == uuid for each in ask.account["made"]):
            self._made(ask, uuid=uuid, **command["args"])
        return ServiceReply({"sync_status": {uuid: "ok"}, "temp_id_mapping": {uuid: "n1"}})

    @route("GET", "/todoist/tasks", query=("project_id", "cursor"), scopes=TODOIST_READS)
    def tasks(self, ask: ServiceAsk) -> ServiceReply:
        """List the open tasks, 50 on a page unless it is said; one that was completed is not."""
        done = {each["id"] for each in ask.account["made"] if "content" not in each}
        tasks = [each for each in ask.account["made"] if "content" in each]
        found = [each for each in tasks if each["id"] not in done]
        page, following = _page(ask, found, "cursor", 50)
        return ServiceReply({"results": page, "next_cursor": following})

    @route("POST", "/trello/cards", query=(), scopes=("write",))
    def trello(self, ask: ServiceAsk) -> ServiceReply:
        """Add a card."""
        return ServiceReply(self._made(ask, **self.json_of(ask, CARD), url="https://trello.com/c"))

    @route(
        "GET",
        "/trello/boards/{board}/cards",
        query=("filter", "since", "fields", "limit"),
        scopes=("read",),
    )
    def cards(self, ask: ServiceAsk, board: str) -> ServiceReply:
        """List the cards of a board."""
        return ServiceReply(ask.account["made"])

    @route("GET", "/trello/boards/{board}/lists", query=("filter", "fields"), scopes=("read",))
    def lists(self, ask: ServiceAsk, board: str) -> ServiceReply:
        """List the lists of a board."""
        return ServiceReply(ask.account["lists"])

    @route("POST", "/discord/channels/{channel}/messages", query=(), scopes=DISCORD_SENDS)
    def discord(self, ask: ServiceAsk, channel: str) -> ServiceReply:
        """Send a message."""
        return ServiceReply(self._made(ask, **self.json_of(ask, MESSAGE), channel_id=channel))

    @route(
        "GET",
        "/discord/channels/{channel}/messages",
        query=("limit", "after"),
        scopes=DISCORD_READS,
    )
    def messages(self, ask: ServiceAsk, channel: str) -> ServiceReply:
        """List messages, the newest first."""
        return ServiceReply(ask.account["made"][::-1])

    @route("POST", "/jira/rest/api/3/issue", query=(), scopes=JIRA_WRITES)
    def jira(self, ask: ServiceAsk) -> ServiceReply:
        """Open an issue."""
        fields = self.json_of(ask, {"fields": needed(JIRA)})["fields"]
        return ServiceReply(self._made(ask, fields=fields, key="T-1"), 201)

    @route(
        "GET",
        "/jira/rest/api/3/search/jql",
        query=("jql", "fields", "nextPageToken"),
        scopes=JIRA_READS,
    )
    def search(self, ask: ServiceAsk) -> ServiceReply:
        """Find issues by a label, 50 on a page."""
        label = ask.query["jql"].rpartition(" = ")[2].strip('"')
        found = [each for each in ask.account["made"] if label in each["fields"]["labels"]]
        page, following = _page(ask, found, "nextPageToken", 50)
        more = {"isLast": True} if following is None else {"nextPageToken": following}
        return ServiceReply({"issues": page, **more})

    @route("POST", "/jira/rest/api/3/issue/{issue}/comment", query=(), scopes=JIRA_WRITES)
    def jira_comment(self, ask: ServiceAsk, issue: str) -> ServiceReply:
        """Write a comment."""
        body = self.json_of(ask, {"body": needed(ADF), "properties": [PROPERTY]})
        return ServiceReply(self._made(ask, **body), 201)

    @route(
        "GET",
        "/jira/rest/api/3/issue/{issue}/comment",
        query=("expand", "orderBy", "maxResults"),
        scopes=JIRA_READS,
    )
    def jira_comments(self, ask: ServiceAsk, issue: str) -> ServiceReply:
        """List the comments."""
        return ServiceReply({"comments": ask.account["made"], "total": len(ask.account["made"])})

    @route("POST", "/hubspot/crm/v3/objects/{kind}", query=())
    def hubspot(self, ask: ServiceAsk, kind: str) -> ServiceReply:
        """Add a contact or a deal; the key is unique, and so is the address of a contact."""
        if kind not in ("contacts", "deals"):
            raise Rejected(404, "not_found")
        self.account_of(ask.token, (f"crm.objects.{kind}.write",))
        shape = CONTACT if kind == "contacts" else DEAL
        body = self.json_of(ask, {"properties": needed(shape)})
        given = body["properties"]
        if email := given.get("email"):
            given["email"] = email.lower()
        for each in ask.account["made"]:
            if any(_has(each, name, given.get(name)) for name in ("duly_key", "email")):
                said = f"Contact already exists. Existing ID: {each['id']}"
                raise Rejected(409, "CONFLICT", said)
        return ServiceReply(self._made(ask, **body), 201)

    @route("GET", "/hubspot/crm/v3/objects/{kind}/{key}", query=("idProperty", "properties"))
    def contact(self, ask: ServiceAsk, kind: str, key: str) -> ServiceReply:
        """Show a contact or a deal by a unique property."""
        self.account_of(ask.token, (f"crm.objects.{kind}.read",))
        name = ask.query["idProperty"]
        found = [
            each
            for each in ask.account["made"]
            if _has(each, name, key.lower() if name == "email" else key)
        ]
        if not found:
            raise Rejected(404, "not_found")
        return ServiceReply(found[0])

    @route(
        "GET",
        "/hubspot/crm/v3/objects/contacts",
        query=("limit", "after"),
        scopes=("crm.objects.contacts.read",),
    )
    def contacts(self, ask: ServiceAsk) -> ServiceReply:
        """List contacts, at most a hundred on a page."""
        page, following = _page(ask, ask.account["made"], "after", 100)
        more = {} if following is None else {"paging": {"next": {"after": following}}}
        return ServiceReply({"results": page, **more})


def _has(thing: Mapping[str, Any], name: str, value: str | None) -> bool:
    """Tell whether a thing of HubSpot has this value of a property whose values are unique."""
    return value is not None and thing["properties"].get(name) == value


def _token(service: str, line: str) -> str:
    """Return the token that a header holds; empty if its service wants it spelled otherwise."""
    found = re.fullmatch(SPELLINGS.get(service, r"Bearer (\S+)"), line)
    if found is None:
        return ""
    if service != "jira":
        return found[1]
    user, _, token = base64.b64decode(found[1]).decode().partition(":")
    return token if "@" in user else ""


def _page(ask: ServiceAsk, found: list[Any], name: str, size: int) -> tuple[list[Any], str | None]:
    """Return a page behind a cursor, and the cursor of the next."""
    at = int(ask.query.get(name) or 0)
    end = at + min(int(ask.query.get("limit", size)), size)
    return found[at:end], str(end) if end < len(found) else None
