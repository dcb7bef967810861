"""What Slack says and reads: the words of its refusals, its texts, and the shapes of its things.

Law 1: `ok: false` with a word that is known says what became of a change. Another word says
       nothing, and the change is unknown (L4).
Law 2: a text is a text: `&`, `<` and `>` are escaped, so it has no mention, no link of its own and
       no mark-up (K12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, TypedDict

from duly.connectors.token_service import list_at, text_at
from duly.errors import AuthNeeded, PermissionDenied, Refused, Transient, UnknownOutcome
from duly.rules.schedule import moment
from duly.rules.value import Json

CHANNEL: Final = re.compile(r"[CDG][A-Z0-9]{2,30}")
TS: Final = re.compile(r"[0-9]{1,12}\.[0-9]{6}")
TEXT_CHARS_MAX: Final = 40_000  # as it is sent
CHANGED_CHARS_MAX: Final = 4_000  # the same, of a message that is changed
EVENT: Final = "duly_call"
ESCAPES: Final[Mapping[str, str]] = MappingProxyType({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

AUTH: Final = """
    not_authed invalid_auth account_inactive token_revoked token_expired org_login_required
    two_factor_setup_required
"""
PERMISSION: Final = """
    missing_scope no_permission not_in_channel is_archived restricted_action access_denied
    ekm_access_denied team_access_not_granted not_allowed_token_type enterprise_is_restricted
    restricted_action_read_only_channel restricted_action_thread_only_channel
    restricted_action_non_threadable_channel restricted_action_thread_locked cant_update_message
    edit_window_closed posting_to_general_channel_denied posting_to_channel_denied
    app_access_restricted channel_is_limited_access message_limit_exceeded no_access thread_locked
    file_uploads_disabled file_uploads_except_images_disabled file_upload_size_restricted
    file_type_not_allowed storage_limit_reached external_channel_migrating
    slack_connect_file_link_sharing_blocked slack_connect_file_upload_sharing_blocked
"""
BUSY: Final = "ratelimited rate_limited accesslimited"
REFUSED: Final = """
    channel_not_found thread_not_found message_not_found msg_too_long no_text invalid_arguments
    invalid_arg_name invalid_array_arg invalid_charset invalid_form_data invalid_post_type
    invalid_json json_not_object missing_post_type invalid_metadata_format metadata_too_large
    invalid_metadata_schema metadata_must_be_sent_from_app cannot_reply_to_message
    messages_tab_disabled bad_timestamp invalid_name no_item_specified too_many_emoji
    too_many_reactions file_not_found file_deleted invalid_cursor invalid_limit invalid_ts_latest
    invalid_ts_oldest invalid_channel malware_detected not_found not_reactable unknown_method
    method_deprecated missing_argument team_not_found file_is_deleted channels_limit_exceeded
    method_not_supported_for_channel_type
"""


class SlackChannel(TypedDict):
    """A channel that the app can see."""

    id: str
    name: str
    topic: str
    is_member: bool


class SlackMessage(TypedDict):
    """A message as it stands in a channel; `thread` is the message that it answers."""

    id: str
    user: str
    text: str
    sent_at: str
    thread: str
    files: int


class SlackPosted(TypedDict):
    """Where a message is."""

    channel: str
    ts: str


class SlackFile(TypedDict):
    """A file of a channel."""

    id: str
    name: str
    type: str
    size: int
    user: str


class SlackUploaded(TypedDict):
    """The result of an upload."""

    file: str


def slack_error(name: str, method: str, answer: Json, *, is_change: bool) -> Exception:
    """Return what a refusal means (law 1)."""
    word = text_at(answer, "error")[:100]
    needed = text_at(answer, "needed")[:100]
    said = f"{method}: Slack answered {word or 'without ok'}" + (f" ({needed})" if needed else "")
    if word in AUTH.split():
        return AuthNeeded(f"{said}.", connect=name)
    if word in PERMISSION.split():
        return PermissionDenied(f"{said}.")
    if word in REFUSED.split():
        return Refused(f"{said}.")
    if word in BUSY.split():
        return Transient(f"{said}.", outcome="refused") if is_change else Transient(f"{said}.")
    return UnknownOutcome(f"{said}.") if is_change else Transient(f"{said}.")


def escape(text: str) -> str:
    """Write a text so that Slack shows it and reads nothing in it (law 2)."""
    return "".join(ESCAPES.get(each, each) for each in text)


def unescape(text: str) -> str:
    """Read a text as a person sees it."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def message_body(channel: str, text: str, chars_max: int = TEXT_CHARS_MAX) -> dict[str, Json]:
    """Write what a message says, and the place of its key."""
    sent = escape(text)
    if not text.strip() or len(sent) > chars_max:
        raise Refused(f"text: it has 1 to {chars_max:,} characters as it is sent.")
    return {
        "channel": channel_id(channel),
        "text": sent,
        "parse": "none",
        "metadata": {"event_type": EVENT, "event_payload": {}},
    }


def channel_id(channel: str) -> str:
    """Return the id of a channel, or refuse what is none."""
    if not CHANNEL.fullmatch(channel):
        raise Refused("channel: write the id of a channel, such as C024BE91L, not its name.")
    return channel


def stamp(name: str, value: str) -> str:
    """Return the ts of a message, or refuse what is none."""
    if not TS.fullmatch(value):
        raise Refused(f"{name}: write the ts of a message, such as 1503435956.000247.")
    return value


def messages_of(answer: Json) -> list[Any]:
    """Return the messages of an answer."""
    return [each for each in list_at(answer, "messages") if TS.fullmatch(text_at(each, "ts"))]


def slack_message(each: Any) -> SlackMessage:
    """Return a message as scripts see it."""
    ts, thread = text_at(each, "ts"), text_at(each, "thread_ts")
    at = moment(int(ts.partition(".")[0]) * 1000)
    return {
        "id": ts,
        "user": text_at(each, "user") or text_at(each, "bot_id"),
        "text": unescape(text_at(each, "text")),
        "sent_at": at.isoformat().replace("+00:00", "Z"),
        "thread": "" if thread == ts else thread,
        "files": len(list_at(each, "files")),
    }
