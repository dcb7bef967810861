"""Slack's Web API on loopback, as https://docs.slack.dev/reference/methods describes it.

Served are chat.postMessage, chat.update, reactions.add, reactions.get, conversations.list,
conversations.history, conversations.replies, files.list, files.info, files.getUploadURLExternal,
files.completeUploadExternal and auth.test. As there, a refusal is `ok: false` with status 200, and
a rate limit is status 429 with `Retry-After`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import wall_ms
from duly.testing.doubles.shape import TextOf, needed

CHANNEL: Final = "C024BE91L"
BOT: Final = "U0BOT"
METADATA: Final = {"event_type": needed(str), "event_payload": needed({"key": str})}
POST: Final = {
    "channel": needed(str),
    "text": needed(TextOf(40_000)),
    "thread_ts": str,
    "mrkdwn": bool,
    "parse": TextOf(4, ("none", "full")),
    "unfurl_links": bool,
    "unfurl_media": bool,
    "metadata": METADATA,
}
UPDATE: Final = {
    "channel": needed(str),
    "ts": needed(str),
    "text": needed(TextOf(4_000)),  # a change takes less than a new message
    "parse": TextOf(4, ("none", "full")),
    "metadata": METADATA,
}
REACT: Final = {"channel": needed(str), "timestamp": needed(str), "name": needed(TextOf(100))}
COMPLETE: Final = {
    "files": needed([{"id": needed(str), "title": str}]),
    "channel_id": str,
    "thread_ts": str,
}
PAGED: Final = ("channel", "limit", "cursor", "oldest", "latest", "inclusive")
# How Slack spells what the base of all doubles rejects.
WORDS: Final = {
    "unauthorized": "invalid_auth",
    "insufficient_scope": "missing_scope",
    "unsupported_media_type": "invalid_post_type",
    "invalid_request": "invalid_arguments",
    "not_found": "unknown_method",
    "method_not_allowed": "unknown_method",
}


class SlackDouble(ServiceDouble):
    """A workspace with one channel for each token."""

    page_max = 200  # distributed apps get 15

    def new_account(self) -> dict[str, Any]:
        """Return a workspace in which nothing was written."""
        channels = [{"id": CHANNEL, "name": "tea", "topic": {"value": "Tea"}, "is_member": True}]
        files: dict[str, Any] = {"uploads": {}, "files": [], "deleted": []}
        return {"channels": channels, "messages": [], **files, "changes": 0}

    def effects(self, account: dict[str, Any]) -> int:
        """Count what was posted, changed, reacted and uploaded."""
        return int(account["changes"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as Slack does: 200, and a word."""
        if rejected.status == 429:
            said = {"ok": False, "error": "ratelimited"}
            return ServiceReply(said, 429, {"Retry-After": rejected.message})
        word = WORDS.get(rejected.reason, rejected.reason)
        more = {"needed": rejected.message.rpartition(" ")[2].rstrip(".")}
        said = {"ok": False, "error": word}
        if "longer than" in rejected.message:
            said["error"] = "msg_too_long"
        return ServiceReply(said | (more if word == "missing_scope" else {}))

    def write(self, account: str, text: str, **more: Any) -> str:
        """Let a person write into the channel; return the ts."""
        made = self._put(self.account(account), {"user": "U1", "text": text, **more})
        return str(made["ts"])

    # -- Messages ---------------------------------------------------------------------------------

    @route("POST", "/chat.postMessage", scopes=("chat:write",))
    def post(self, ask: ServiceAsk) -> ServiceReply:
        """Post a message."""
        body = self.json_of(ask, POST)
        self._check_channel(ask, body["channel"])
        if not body["text"].strip():
            raise Rejected(200, "no_text")
        thread = body.get("thread_ts")
        if thread is not None and self._find(ask, thread) is None:
            raise Rejected(200, "thread_not_found")
        kept = {name: body[name] for name in ("text", "metadata", "thread_ts") if name in body}
        made = self._put(ask.account, {"user": BOT, "bot_id": "B1", **kept})
        ask.account["changes"] += 1
        return _ok(channel=CHANNEL, ts=made["ts"], message=made)

    @route("POST", "/chat.update", scopes=("chat:write",))
    def update(self, ask: ServiceAsk) -> ServiceReply:
        """Change a message of the app."""
        body = self.json_of(ask, UPDATE)
        self._check_channel(ask, body["channel"])
        found = self._find(ask, body["ts"])
        if found is None:
            raise Rejected(200, "message_not_found")
        if found["user"] != BOT:
            raise Rejected(200, "cant_update_message")
        found["text"] = body["text"]
        found["metadata"] = body.get("metadata")
        found["edited"] = {"user": BOT, "ts": f"{wall_ms() / 1000:.6f}"}
        ask.account["changes"] += 1
        return _ok(channel=CHANNEL, ts=found["ts"], text=found["text"])

    @route("POST", "/reactions.add", scopes=("reactions:write",))
    def react(self, ask: ServiceAsk) -> ServiceReply:
        """React to a message."""
        body = self.json_of(ask, REACT)
        self._check_channel(ask, body["channel"])
        found = self._find(ask, body["timestamp"])
        if found is None:
            raise Rejected(200, "message_not_found")
        reactions = found.setdefault("reactions", [])
        if any(each["name"] == body["name"] for each in reactions):
            raise Rejected(200, "already_reacted")
        reactions.append({"name": body["name"], "users": [BOT], "count": 1})
        ask.account["changes"] += 1
        return _ok()

    @route(
        "GET", "/reactions.get", scopes=("reactions:read",), query=("channel", "timestamp", "full")
    )
    def reactions(self, ask: ServiceAsk) -> ServiceReply:
        """Show the reactions to a message."""
        self._check_channel(ask, ask.query["channel"])
        found = self._find(ask, ask.query["timestamp"])
        if found is None:
            raise Rejected(200, "message_not_found")
        return _ok(type="message", channel=CHANNEL, message=found)

    @route(
        "GET",
        "/conversations.history",
        scopes=("channels:history",),
        query=(*PAGED, "include_all_metadata"),
    )
    def history(self, ask: ServiceAsk) -> ServiceReply:
        """List the messages of a channel, the newest first, without those of threads."""
        self._check_channel(ask, ask.query.get("channel", ""))
        found = [each for each in ask.account["messages"] if "thread_ts" not in each]
        return self._page(ask, found[::-1])

    @route(
        "GET",
        "/conversations.replies",
        scopes=("channels:history",),
        query=(*PAGED, "ts", "include_all_metadata"),
    )
    def replies(self, ask: ServiceAsk) -> ServiceReply:
        """List a message and what answers it, the oldest first."""
        self._check_channel(ask, ask.query.get("channel", ""))
        ts = ask.query.get("ts", "")
        if self._find(ask, ts) is None:
            raise Rejected(200, "thread_not_found")
        found = [
            each for each in ask.account["messages"] if ts in (each["ts"], each.get("thread_ts"))
        ]
        return self._page(ask, found)

    @route("GET", "/conversations.list", scopes=("channels:read",))
    def channels(self, ask: ServiceAsk) -> ServiceReply:
        """List the channels."""
        found, at = ask.account["channels"], int(ask.query.get("cursor") or 0)
        end = at + min(int(ask.query.get("limit", 100)), self.page_max)
        cursor = str(end) if end < len(found) else ""
        return _ok(channels=found[at:end], response_metadata={"next_cursor": cursor})

    @route("GET", "/auth.test")
    def who(self, ask: ServiceAsk) -> ServiceReply:
        """Say who asks."""
        return _ok(user_id=BOT, bot_id="B1", team="Tea")

    # -- Files ------------------------------------------------------------------------------------

    @route("GET", "/files.list", scopes=("files:read",), query=("channel", "count", "page"))
    def files(self, ask: ServiceAsk) -> ServiceReply:
        """List the files of a channel, the newest first."""
        found, size = ask.account["files"][::-1], int(ask.query.get("count", 100))
        number = int(ask.query.get("page", 1))
        page = found[(number - 1) * size : number * size]
        return _ok(files=page, paging={"page": number, "pages": -(-len(found) // size)})

    @route("GET", "/files.info", scopes=("files:read",), query=("file",))
    def info(self, ask: ServiceAsk) -> ServiceReply:
        """Show one file that was completed."""
        if ask.query.get("file") in ask.account["deleted"]:
            raise Rejected(200, "file_deleted")
        found = [each for each in ask.account["files"] if each["id"] == ask.query.get("file")]
        if not found:
            raise Rejected(200, "file_not_found")
        return _ok(file=found[0])

    @route(
        "GET", "/files.getUploadURLExternal", scopes=("files:write",), query=("filename", "length")
    )
    def begin(self, ask: ServiceAsk) -> ServiceReply:
        """Name a place for the bytes of a file."""
        if not ask.query.get("filename") or int(ask.query.get("length", 0)) < 1:
            raise Rejected(200, "missing_argument")
        number = len(ask.account["uploads"]) + 1
        made = {"name": ask.query["filename"], "size": int(ask.query["length"]), "bytes": None}
        name = f"F{number:03}"
        ask.account["uploads"][name] = made
        url = f"http://{ask.headers['host']}/upload/{ask.token}/{name}"
        return _ok(upload_url=url, file_id=name)

    @route("POST", "/upload/{token}/{name}", is_open=True)
    def take(self, ask: ServiceAsk, token: str, name: str) -> ServiceReply:
        """Take the bytes of a file."""
        upload = self.account(self.account_of(token, ()))["uploads"].get(name)
        if upload is None or len(ask.body) != upload["size"]:
            return ServiceReply({"ok": False}, 400)  # this address is not of the Web API
        upload["bytes"] = ask.body
        return ServiceReply(b"OK")

    @route("POST", "/files.completeUploadExternal", scopes=("files:write",))
    def complete(self, ask: ServiceAsk) -> ServiceReply:
        """Put a file into a channel."""
        body = self.json_of(ask, COMPLETE)
        self._check_channel(ask, body.get("channel_id", ""))
        (one,) = body["files"]
        upload = ask.account["uploads"].get(one["id"])
        if upload is None or upload["bytes"] is None:
            raise Rejected(200, "file_not_found")
        made = {"id": one["id"], "name": upload["name"], "title": one.get("title", "")}
        made |= {"mimetype": "application/pdf", "size": upload["size"], "user": BOT}
        shares = {"public": {CHANNEL: [{"ts": f"{wall_ms() / 1000:.6f}"}]}}
        ask.account["files"].append({**made, "channels": [CHANNEL], "shares": shares})
        ask.account["changes"] += 1
        return _ok(files=[made])

    # -- Within -----------------------------------------------------------------------------------

    def _check_channel(self, ask: ServiceAsk, channel: str) -> None:
        known = [each for each in ask.account["channels"] if each["id"] == channel]
        if not known:
            raise Rejected(200, "channel_not_found")
        if not known[0]["is_member"]:
            raise Rejected(200, "not_in_channel")

    def _find(self, ask: ServiceAsk, ts: str) -> dict[str, Any] | None:
        found: Iterable[dict[str, Any]] = ask.account["messages"]
        return next((each for each in found if each["ts"] == ts), None)

    def _put(self, account: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        messages = account["messages"]
        last = float(messages[-1]["ts"]) if messages else 0.0
        made = {
            "type": "message",
            "ts": f"{max(wall_ms() / 1000, last + 0.00001):.6f}",
            **message,
        }
        messages.append(made)
        return made

    def _page(self, ask: ServiceAsk, found: list[dict[str, Any]]) -> ServiceReply:
        """Return a page of messages between two moments; metadata only to those who ask."""
        oldest, latest = (
            float(ask.query.get(name, each)) for name, each in (("oldest", 0), ("latest", 1e12))
        )
        is_inclusive = ask.query.get("inclusive") == "true"
        chosen = [
            each
            for each in found
            if oldest < float(each["ts"]) < latest
            or (is_inclusive and float(each["ts"]) in (oldest, latest))
        ]
        at = int(ask.query.get("cursor") or 0)
        limit = min(int(ask.query.get("limit", 100)), self.page_max)
        page, following = chosen[at : at + limit], at + limit
        if ask.query.get("include_all_metadata") != "true":
            page = [{name: each[name] for name in each if name != "metadata"} for each in page]
        cursor = str(following) if following < len(chosen) else ""
        return _ok(messages=page, has_more=bool(cursor), response_metadata={"next_cursor": cursor})


def _ok(**more: Any) -> ServiceReply:
    return ServiceReply({"ok": True, **more})
