"""Slack: messages that are posted, changed and found again, reactions, files.

    [connectors.slack]
    use = "slack"               # then: duly secret set slack token   (xoxb-…)

Law 1: the key of a call is in the metadata of the message, and a search of the history finds it.
Law 2: a message that another call changed since is neither changed nor not changed by this one: a
       person decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from duly.connectors.base import (
    SEND_S,
    Applied,
    Call,
    NotApplied,
    Page,
    Unsure,
    Verdict,
    mutation,
    read,
)
from duly.connectors.json_answer import pick
from duly.connectors.key_place import KeyPlace, sent_after, spell
from duly.connectors.rest import FIND_S, PAGES_MAX, READ_S
from duly.connectors.slack_text import (
    CHANGED_CHARS_MAX,
    TS,
    SlackChannel,
    SlackFile,
    SlackMessage,
    SlackPosted,
    SlackUploaded,
    channel_id,
    message_body,
    messages_of,
    slack_error,
    slack_message,
    stamp,
    unescape,
)
from duly.connectors.token_service import TokenService, list_at, number_at, text_at
from duly.connectors.transport import HttpRequest
from duly.errors import (
    Invalid,
    NotSent,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.blob import Blob
from duly.rules.url import Url, read_url
from duly.rules.value import Json

EMOJI: Final = re.compile(r"[a-z0-9_+'-]{1,100}(?:::skin-tone-[2-6])?")
NAME_CHARS_MAX: Final = 200
PAGE: Final = 100
NOTHING_YET: Final = "0.000000"  # a cursor before every message
ANSWER_MAX: Final = 200
KEY: Final = KeyPlace("field", "metadata.event_payload.key")
KEY_AT: Final = "metadata.event_payload.key"
MARK: Final = "{key_short}"  # of a call, beside the file that it began to upload
FILES_HOST: Final = ".slack.com"


class Slack(TokenService):
    """One app in a workspace; `secret` names its bot token."""

    name = "slack"
    home = "https://slack.com/api"

    # -- Reads ------------------------------------------------------------------------------------

    @read
    async def channels(self, after: str | None = None) -> Page[SlackChannel]:
        """List the channels.

        Returns a page of {id, name, topic, is_member}.
        """
        query: dict[str, Json] = {
            "types": "public_channel,private_channel",
            "exclude_archived": True,
            "limit": ANSWER_MAX,
        }
        answer = await self._look("conversations.list", query | _cursor(after))
        items: list[SlackChannel] = [
            {
                "id": text_at(each, "id"),
                "name": text_at(each, "name")[:NAME_CHARS_MAX],
                "topic": unescape(text_at(each, "topic.value")),
                "is_member": pick(each, "is_member") is True,
            }
            for each in list_at(answer, "channels")
        ]
        following = text_at(answer, "response_metadata.next_cursor") or None
        return Page(items, last_cursor=following, has_more=following is not None)

    @read
    async def history(
        self, channel: str, after: str | None = None, thread: str | None = None
    ) -> Page[SlackMessage]:
        """List the messages of a channel, or of a thread, the oldest first.

        Returns a page of {id, user, text, sent_at, thread, files}; without `after` the newest ones.
        `id` is what other tools take as `ts` or `thread`. `thread` is the `id` of the message that
        this one answers, else empty.
        """
        if after is not None and not TS.fullmatch(after):
            raise Refused(f"after is {after[:50]!r}, which is no cursor of messages.")
        is_since = after is not None
        found, is_end = await self._messages(channel, thread, oldest=after, is_whole=is_since)
        if is_since and not is_end:
            most = f"more than {PAGES_MAX * ANSWER_MAX:,} messages since"
            raise Refused(f"{channel} has {most}. Look more often, or begin without after.")
        found.sort(key=lambda each: tuple(map(int, text_at(each, "ts").split("."))))
        page = found[:PAGE] if is_since else found[-PAGE:]
        # Where nothing was, the next look reads all that came since (K11).
        last = text_at(page[-1], "ts") if page else after or NOTHING_YET
        is_more = is_since and len(found) > PAGE
        return Page([slack_message(each) for each in page], last_cursor=last, has_more=is_more)

    @read
    async def files(self, channel: str, after: str | None = None) -> Page[SlackFile]:
        """List the files of a channel, the newest first.

        Returns a page of {id, name, type, size, user}.
        """
        number = int(after) if after and after.isdecimal() and len(after) < 6 else 1
        query: dict[str, Json] = {"channel": channel_id(channel), "count": PAGE, "page": number}
        answer = await self._look("files.list", query)
        items: list[SlackFile] = [
            {
                "id": text_at(each, "id"),
                "name": text_at(each, "name")[:NAME_CHARS_MAX],
                "type": text_at(each, "mimetype"),
                "size": number_at(each, "size"),
                "user": text_at(each, "user"),
            }
            for each in list_at(answer, "files")
        ]
        is_more = number < number_at(answer, "paging.pages")
        # The newest are on the first page, so the next look begins there.
        return Page(items, last_cursor=str(number + 1) if is_more else None, has_more=is_more)

    # -- Messages ---------------------------------------------------------------------------------

    @mutation(
        noun="message",
        lag_s=60,
        key_in="metadata",
        asked="by_search",
        deleted="unseen",
        labels={"channel": "Channel", "text": "Message", "thread": "In the thread"},
        editable=("text",),
    )
    async def post(
        self, call: Call, channel: str, text: str, thread: str | None = None
    ) -> SlackPosted:
        """Post a message of plain text into a channel, or into a thread of it.

        Returns {channel, ts}.
        """
        body: dict[str, Json] = {**message_body(channel, text), "mrkdwn": False}
        body |= {"unfurl_links": False, "unfurl_media": False}
        if thread is not None:
            body["thread_ts"] = stamp("thread", thread)
        answer = await self._do(call, "chat.postMessage", body)
        place, ts = self.made(call, answer, "channel", "ts")
        return {"channel": place, "ts": ts}

    @post.reconcile
    async def post_happened(self, call: Call) -> Verdict:
        """Look through the messages since the first send for the key."""
        channel, thread = str(call.args["channel"]), call.args.get("thread")
        found, is_end = await self._messages(
            channel,
            thread if isinstance(thread, str) else None,
            oldest=f"{sent_after(call).timestamp():.6f}",
            is_whole=True,
            is_proof=True,
        )
        own = next((each for each in found if pick(each, KEY_AT) == call.key), None)
        if own is None:
            most = PAGES_MAX * ANSWER_MAX
            return NotApplied() if is_end else Unsure(f"it is not among the newest {most:,}")
        return Applied({"channel": channel, "ts": text_at(own, "ts")})

    @post.trial
    def post_tried(self) -> Mapping[str, Json] | None:
        """Posts one message into a channel that you name."""
        return None

    @mutation(
        noun="message",
        lag_s=60,
        key_in="metadata",
        asked="exactly",
        deleted="seen",
        labels={"channel": "Channel", "ts": "Message", "text": "New text"},
        editable=("text",),
    )
    async def update(self, call: Call, channel: str, ts: str, text: str) -> SlackPosted:
        """Replace the text of a message that the app posted.

        Returns {channel, ts}.
        """
        body = {**message_body(channel, text, CHANGED_CHARS_MAX), "ts": stamp("ts", ts)}
        answer = await self._do(call, "chat.update", body)
        place, at = self.made(call, answer, "channel", "ts")
        return {"channel": place, "ts": at}

    @update.reconcile
    async def update_happened(self, call: Call) -> Verdict:
        """Look whether the message has the key of this call."""
        channel, ts = str(call.args["channel"]), str(call.args["ts"])
        query: dict[str, Json] = {"channel": channel, "ts": ts, "limit": 1, "inclusive": True}
        query |= {"oldest": ts, "latest": ts, "include_all_metadata": True}
        answer = await self._look("conversations.replies", query, is_proof=True)
        own = next((each for each in messages_of(answer) if text_at(each, "ts") == ts), None)
        if own is None:
            return Unsure("the message is gone")
        if pick(own, KEY_AT) == call.key:
            return Applied({"channel": channel, "ts": ts})
        if isinstance(pick(own, "edited"), dict):
            return Unsure("the message was changed by another call, before or after this one")
        return NotApplied()

    @mutation(
        risk="low",
        noun="reaction",
        lag_s=60,
        key_in="id",
        asked="exactly",
        deleted="seen",
        labels={"channel": "Channel", "ts": "Message", "emoji": "Reaction"},
    )
    async def react(self, call: Call, channel: str, ts: str, emoji: str) -> None:
        """Put a reaction under a message: `emoji="white_check_mark"`."""
        if not EMOJI.fullmatch(emoji):
            raise Refused("emoji: write its name without colons, such as white_check_mark.")
        body: dict[str, Json] = {"channel": channel_id(channel), "timestamp": stamp("ts", ts)}
        body["name"] = emoji
        await self._do(call, "reactions.add", body, done=("already_reacted",))

    @react.reconcile
    async def react_happened(self, call: Call) -> Verdict:
        """Look whether the app's own reaction is under the message."""
        me = text_at(await self._look("auth.test", {}, is_proof=True), "user_id")
        query: dict[str, Json] = {"channel": call.args["channel"], "timestamp": call.args["ts"]}
        answer = await self._look("reactions.get", query | {"full": True}, is_proof=True)
        if text_at(answer, "message.ts") != call.args["ts"]:
            return Unsure("Slack does not show the message")
        for each in list_at(answer, "message.reactions"):
            if text_at(each, "name") == call.args["emoji"] and me in list_at(each, "users"):
                return Applied()
        return NotApplied() if me else Unsure("Slack does not say which user the app is")

    @mutation(
        noun="file",
        lag_s=60,
        timeout_s=120,
        key_in="handle",
        asked="exactly",
        deleted="unseen",
        labels={"channel": "Channel", "file": "File", "title": "Title", "thread": "In the thread"},
    )
    async def upload(
        self, call: Call, channel: str, file: Blob, title: str = "", thread: str | None = None
    ) -> SlackUploaded:
        """Upload a blob into a channel.

        Returns {file}.
        """
        data = await self.open_blob(file)
        if not data:
            raise Refused("file: it has no bytes, and Slack takes no empty file.")
        query: dict[str, Json] = {"filename": file["name"] or "file", "length": len(data)}
        body: dict[str, Json] = {"channel_id": channel_id(channel)}
        if thread is not None:
            body["thread_ts"] = stamp("thread", thread)
        try:
            answer = await self._look("files.getUploadURLExternal", query)
            place, made = text_at(answer, "upload_url"), text_at(answer, "file_id")
            request = HttpRequest("POST", self._upload_url(place), {}, data)
            sent = await self.transport.change(request, timeout_s=SEND_S)
        except (Transient, UnknownOutcome) as error:
            # Bytes that are not completed are in no channel, and Slack drops them.
            raise NotSent(str(error)) from error
        if sent.status != 200 or not made:
            raise NotSent(f"{request.shown}: the server answered {sent.status}.")
        await call.keep([spell(MARK, call.key), made])
        body["files"] = [{"id": made, "title": title or file["name"] or "file"}]
        await self._do(call, "files.completeUploadExternal", body, is_marked=False)
        return {"file": made}

    @upload.reconcile
    async def upload_happened(self, call: Call) -> Verdict:
        """Look whether the file of the first step was completed."""
        own = _upload_of(call)
        if own is None:
            return NotApplied()  # a file is completed only after its id was kept
        query: dict[str, Json] = {"file": own}
        gone = ("file_not_found", "file_deleted")
        answer = await self._look("files.info", query, is_proof=True, none=gone)
        if answer == "file_deleted":
            return Unsure("the file was deleted since")
        if answer == "file_not_found":
            return NotApplied()
        places = [*list_at(answer, "file.channels"), *list_at(answer, "file.groups")]
        shares = pick(answer, "file.shares")
        inner = shares.values() if isinstance(shares, dict) else ()
        places += [name for each in inner if isinstance(each, dict) for name in each]
        if call.args["channel"] in places:
            return Applied({"file": own})
        return Unsure("the file is there, and not in the channel")

    # -- Within -----------------------------------------------------------------------------------

    async def _do(
        self,
        call: Call,
        method: str,
        body: Mapping[str, Json],
        *,
        done: tuple[str, ...] = (),
        is_marked: bool = True,
    ) -> Json:
        """Send a change; `done` are words of a refusal that say it is so already."""
        has_metadata = is_marked and "metadata" in body
        key = KEY if has_metadata else None
        answer = await self.change(call, "POST", f"/{method}", body=dict(body), key=key)
        if pick(answer, "ok") is not True and text_at(answer, "error") not in done:
            raise slack_error(self.name, method, answer, is_change=True)
        return answer

    async def _look(
        self,
        method: str,
        query: Mapping[str, Json],
        *,
        is_proof: bool = False,
        none: tuple[str, ...] = (),
    ) -> Json:
        """Ask; the word itself where the service says one of these."""
        limit_s = FIND_S if is_proof else READ_S
        answer = await self.fetch(f"/{method}", query, timeout_s=limit_s, is_proof=is_proof)
        if pick(answer, "ok") is True:
            return answer
        if (word := text_at(answer, "error")) in none:
            return word
        raise slack_error(self.name, method, answer, is_change=False)

    async def _messages(
        self,
        channel: str,
        thread: str | None,
        *,
        oldest: str | None,
        is_whole: bool,
        is_proof: bool = False,
    ) -> tuple[list[Any], bool]:
        """Read the messages since a moment, or the newest page of all; tell whether to the end."""
        method = "conversations.history" if thread is None else "conversations.replies"
        query: dict[str, Json] = {"channel": channel_id(channel), "limit": ANSWER_MAX}
        if thread is not None:
            query["ts"] = stamp("thread", thread)
        if oldest is not None:
            query["oldest"] = oldest
        if is_proof:
            query["include_all_metadata"] = True
        found: list[Any] = []
        after: str | None = None
        for _ in range(PAGES_MAX if is_whole else 1):
            answer = await self._look(method, query | _cursor(after), is_proof=is_proof)
            if is_proof and not isinstance(pick(answer, "messages"), list):
                raise Transient(f"{method}: the answer has no list of messages.")
            found += messages_of(answer)
            after = text_at(answer, "response_metadata.next_cursor") or None
            if is_proof and after is None and pick(answer, "has_more") is True:
                raise Transient(f"{method}: the list goes on, and the answer does not say where.")
            if after is None:
                break
        return [each for each in found if text_at(each, "ts") != oldest], after is None

    def _upload_url(self, text: str) -> Url:
        """Return where bytes are uploaded: at the service itself, or at a host of Slack."""
        try:
            found = read_url(text)
        except Invalid:
            raise Transient("Slack named no place for the file.") from None
        is_own = found.origin == self.base.origin
        if not is_own and not (found.scheme == "https" and found.host.endswith(FILES_HOST)):
            raise Transient(f"Slack named {found.origin} for the file, which is not its own.")
        return found


def _upload_of(call: Call) -> str | None:
    """Return the file that this very call began to upload; None if it kept none."""
    match call.handle:
        case [str(mark), str(own)] if mark == spell(MARK, call.key):
            return own
        case str(own):  # kept by a version that wrote no mark
            return own
    return None


def _cursor(after: str | None) -> dict[str, Json]:
    return {} if after is None else {"cursor": after}
