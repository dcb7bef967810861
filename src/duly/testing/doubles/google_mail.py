"""Gmail, as https://developers.google.com/workspace/gmail/api/reference/rest says.

A draft has an id of its own and a message with the label DRAFT. When it is sent the draft is gone,
and there is a new message with another id and the label SENT, in the same thread
(https://developers.google.com/workspace/gmail/api/guides/drafts).
"""

from __future__ import annotations

import base64
import binascii
from email import message_from_bytes
from email.policy import default
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.shape import TextOf, needed

ME: Final = "/gmail/v1/users/me"
AUTH: Final = "https://www.googleapis.com/auth/"
READ: Final = tuple(f"{AUTH}gmail.{each}" for each in ("readonly", "modify"))
COMPOSE: Final = tuple(f"{AUTH}gmail.{each}" for each in ("compose", "modify"))
MODIFY: Final = (f"{AUTH}gmail.modify",)
SYSTEM: Final = ("INBOX", "SENT", "DRAFT", "STARRED", "UNREAD", "TRASH", "SPAM", "IMPORTANT")
RAW_CHARS_MAX: Final = 48 * 1024 * 1024
RECEIVERS_MAX: Final = 500
PLAIN: Final = ("fields", "alt", "prettyPrint")
DRAFT: Final = {"message": needed({"raw": needed(TextOf(RAW_CHARS_MAX)), "threadId": str})}
HISTORY_FIRST: Final = 1000


def new_mail() -> dict[str, Any]:
    """Return an empty account."""
    labels = {each: each for each in SYSTEM}
    return {"messages": {}, "drafts": {}, "labels": labels, "history": [], "oldest": 0}


class GmailRoutes(ServiceDouble):
    """Messages, drafts, threads, labels and the history."""

    def put_mail(self, account: str, raw: bytes, *labels: str) -> str:
        """Let a mail arrive; return its id."""
        with self._door:
            return _add(self.account(account), raw, [*(labels or ("INBOX", "UNREAD"))])

    def sent_mails(self, account: str) -> list[bytes]:
        """Return the mails that were really sent."""
        found = self.account(account)["messages"].values()
        return [each["raw"] for each in found if "SENT" in each["labelIds"]]

    @route("GET", f"{ME}/profile", scopes=(*READ, *COMPOSE), query=PLAIN)
    def profile(self, ask: ServiceAsk) -> ServiceReply:
        """Tell where the history stands."""
        total = len(ask.account["messages"])
        return ServiceReply({"messagesTotal": total, "historyId": _now(ask.account)})

    @route("GET", f"{ME}/labels", scopes=READ, query=PLAIN)
    def labels(self, ask: ServiceAsk) -> ServiceReply:
        """List the labels."""
        found = [{"id": own, "name": name} for name, own in ask.account["labels"].items()]
        return ServiceReply({"labels": found})

    @route(
        "GET",
        f"{ME}/messages",
        scopes=READ,
        query=(*PLAIN, "labelIds", "maxResults", "pageToken", "q", "includeSpamTrash"),
    )
    def messages(self, ask: ServiceAsk) -> ServiceReply:
        """List messages, the newest first; `q` is not looked at beyond its age."""
        wanted = {value for name, value in ask.pairs if name == "labelIds"}
        found = [
            {"id": each["id"], "threadId": each["threadId"]}
            for each in reversed(ask.account["messages"].values())
            if wanted <= set(each["labelIds"]) and "DRAFT" not in each["labelIds"]
        ]
        return ServiceReply(page_of(ask, found, "messages"))

    @route(
        "GET",
        f"{ME}/messages/{{own}}",
        scopes=READ,
        query=(*PLAIN, "format", "metadataHeaders"),
    )
    def message(self, ask: ServiceAsk, own: str) -> ServiceReply:
        """Show one message: minimal, with its headers, or raw."""
        return ServiceReply(_shown(_message(ask, own), ask))

    @route(
        "GET",
        f"{ME}/threads/{{own}}",
        scopes=READ,
        query=(*PLAIN, "format", "metadataHeaders"),
    )
    def thread(self, ask: ServiceAsk, own: str) -> ServiceReply:
        """Show the messages of a thread."""
        found = [each for each in ask.account["messages"].values() if each["threadId"] == own]
        if not found:
            raise Rejected(404, "notFound", "Requested entity was not found.")
        return ServiceReply({"id": own, "messages": [_shown(each, ask) for each in found]})

    @route(
        "GET",
        f"{ME}/history",
        scopes=READ,
        query=(*PLAIN, "startHistoryId", "historyTypes", "labelId", "maxResults", "pageToken"),
    )
    def history(self, ask: ServiceAsk) -> ServiceReply:
        """List what happened since; 404 if that is too long ago."""
        start = ask.query.get("startHistoryId", "")
        if not start.isdecimal():
            raise Rejected(400, "invalidArgument", "Invalid startHistoryId")
        if int(start) < ask.account["oldest"]:
            raise Rejected(404, "notFound", "Requested entity was not found.")
        label = ask.query.get("labelId")
        found = [
            each
            for each in ask.account["history"]
            if int(each["id"]) > int(start) and label in (None, *each["labels"])
        ]
        shown = [{name: each[name] for name in each if name != "labels"} for each in found]
        return ServiceReply({**page_of(ask, shown, "history"), "historyId": _now(ask.account)})

    @route("POST", f"{ME}/drafts", scopes=COMPOSE, query=PLAIN)
    def create_draft(self, ask: ServiceAsk) -> ServiceReply:
        """Make a draft."""
        body = self.json_of(ask, DRAFT)
        raw = _raw(body["message"]["raw"])
        own = _add(ask.account, raw, ["DRAFT"])
        draft = f"r{len(ask.account['messages'])}"
        ask.account["drafts"][draft] = own
        return ServiceReply({"id": draft, "message": _named(ask.account["messages"][own])})

    @route("POST", f"{ME}/drafts/send", scopes=COMPOSE, query=PLAIN)
    def send_draft(self, ask: ServiceAsk) -> ServiceReply:
        """Send a draft: it is gone then, and there is a new message in its thread."""
        body = self.json_of(ask, {"id": needed(str)})
        own = ask.account["drafts"].pop(body["id"], None)
        if own is None:
            raise Rejected(404, "notFound", "Requested entity was not found.")
        draft = ask.account["messages"].pop(own)
        sent = _add(ask.account, draft["raw"], ["SENT"], draft["threadId"])
        ask.account["changes"] += 1
        return ServiceReply(_named(ask.account["messages"][sent]))

    @route("POST", f"{ME}/messages/{{own}}/modify", scopes=MODIFY, query=PLAIN)
    def modify(self, ask: ServiceAsk, own: str) -> ServiceReply:
        """Set labels and take them away."""
        body = self.json_of(ask, {"addLabelIds": [str], "removeLabelIds": [str]})
        found = _message(ask, own)
        known = set(ask.account["labels"].values())
        add, remove = body.get("addLabelIds", []), body.get("removeLabelIds", [])
        for each in (*add, *remove):
            if each not in known:
                raise Rejected(400, "invalidArgument", f"Invalid label: {each}")
        kept = [each for each in found["labelIds"] if each not in remove]
        wanted = list(dict.fromkeys([*kept, *add]))
        if wanted != found["labelIds"]:
            found["version"] += 1
        found["labelIds"] = wanted
        ask.account["changes"] += 1
        return ServiceReply(_named(found))


def page_of(ask: ServiceAsk, found: list[Any], name: str) -> dict[str, Any]:
    """Return one page of a list, and the token of the next."""
    size = int(ask.query.get("maxResults") or ask.query.get("pageSize") or 100)
    token = ask.query.get("pageToken", "")
    if token and not token.startswith("page-"):
        raise Rejected(400, "invalidArgument", "Invalid pageToken")
    at = int(token.removeprefix("page-") or 0)
    page: dict[str, Any] = {name: found[at : at + size]} if found else {}
    return {**page, "nextPageToken": f"page-{at + size}"} if at + size < len(found) else page


def _add(account: dict[str, Any], raw: bytes, labels: list[str], thread: str = "") -> str:
    account["count"] += 1
    own = f"{account['count']:016x}"
    made = {"id": own, "threadId": thread or own, "labelIds": labels, "raw": raw, "version": 1}
    account["messages"][own] = made
    entry = {"id": str(HISTORY_FIRST + account["count"]), "labels": labels}
    added = [{"message": {**_named(made)}}]
    account["history"].append({**entry, "messages": [_named(made)], "messagesAdded": added})
    return own


def _now(account: dict[str, Any]) -> str:
    return str(HISTORY_FIRST + account["count"])


def _named(message: dict[str, Any]) -> dict[str, Any]:
    return {name: message[name] for name in ("id", "threadId", "labelIds")}


def _message(ask: ServiceAsk, own: str) -> dict[str, Any]:
    found: dict[str, Any] | None = ask.account["messages"].get(own)
    if found is None:
        raise Rejected(404, "notFound", "Requested entity was not found.")
    return found


def _shown(message: dict[str, Any], ask: ServiceAsk) -> dict[str, Any]:
    form = ask.query.get("format", "full")
    if form not in ("minimal", "metadata", "raw", "full"):
        raise Rejected(400, "invalidArgument", f"Invalid value for format: {form}")
    shown = {**_named(message), "historyId": f"{int(message['id'], 16)}{message['version']:04}"}
    if form == "raw":
        return {**shown, "raw": base64.urlsafe_b64encode(message["raw"]).decode()}
    parsed = message_from_bytes(message["raw"], policy=default)
    body = parsed.get_body(("plain",))
    shown["snippet"] = "" if body is None else str(body.get_content())[:100].strip()
    if form == "minimal":
        return shown
    wanted = {value.lower() for name, value in ask.pairs if name == "metadataHeaders"}
    headers = [
        {"name": name, "value": str(value)}
        for name, value in parsed.items()
        if not wanted or name.lower() in wanted
    ]
    return {**shown, "payload": {"mimeType": parsed.get_content_type(), "headers": headers}}


def _raw(text: str) -> bytes:
    try:
        data = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Rejected(400, "invalidArgument", "Invalid value for ByteString") from None
    parsed = message_from_bytes(data, policy=default)
    receivers = [*parsed.get_all("to", []), *parsed.get_all("cc", [])]
    addresses = [one for each in receivers for one in each.addresses]
    if not addresses or len(addresses) > RECEIVERS_MAX:
        raise Rejected(400, "invalidArgument", "Recipient address required")
    return data
