"""What else waits for a person (F8), and why an event of the bus stands as it does (B13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HELD: Final = (
    "[The event bus shows {copied_at}, since the store has lost its log{?log_lost}"
    "|The event bus shows {copied_at}, since the server lost confirmed changes{?writes_lost}"
    "|The event bus shows {copied_at}, since a standby was promoted that lacks confirmed changes"
    "{?standby_behind}"
    "|The event bus may lack what is newer than {copied_at}, since a standby was promoted"
    "{?standby_promoted}"
    "|The event bus was restored from a backup of {copied_at}]"
)
SHORT: Final[Mapping[str, str]] = {
    "stale": "Pending for more than {days} days: {counts}",
    "silent": "Nothing came in for more than {days} days",
    "orphaned": "Left behind by version {version}: {counts}",
    "proposal": "Another script, version {version}, is proposed and not in use",
    "stray": "A fault of Duly holds {inputs}",
    "bus_held": f"{_HELD} and delivers nothing",
    "undelivered": "Not delivered on the bus: {counts}",
    "unreadable": "{counts} cannot be read",
    "no_backup": "No backup since {since}[: {error}]",
    "proposed_source": "[{author} proposes a script for {name}|A script is proposed for {name}]",
    "delivery_held": "Waits until you resume the bus, which may not know what it has delivered.",
    "subscriber_away": "Waits for the subscriber {subscriber}, which is not connected here.",
    "subscriber_stuck": (
        "Waits for a call of {subscriber} to end, which was cancelled and has not stopped."
    ),
    "attempt_ahead": "Waits for its attempt {attempt}.",
    "in_turn": "Waits for its turn with {subscriber}.",
    "being_told": "The subscriber {subscriber} is being called.",
    "event_waits": "{waits}",
    "event_queued": "It waits for its turn; no subscriber was called yet.",
    "event_heard": "It ended on {at}: {subscribers} handled it.",
    "event_unheard": "It ended on {at}: nothing subscribes to it.",
    "event_given_up": "It was given up on {at}.[ {errors}.]",
    "event_gone": (
        "It is not here any more: it was over and retention removed it, or it came after the "
        "backup that was restored."
    ),
}

LONG: Final[Mapping[str, str]] = {
    "stale": (
        "Pending for more than {days} days: {counts}, the oldest {oldest}, since {since}. "
        "Find out why the script leaves them, or skip them."
    ),
    "no_backup": (
        "No backup could be written[ to {folder}] since {since}[: {error}]. Older ones stay. Make "
        "room, or name another folder in the settings; it is tried again every 10 minutes."
    ),
    "silent": (
        "Nothing has come in since {since}; the settings expect something within {days} days. "
        "Look whether its source still sends, or let it look now."
    ),
    "orphaned": (
        "Left behind: {counts}, the oldest {oldest}; version {version} does not take them. "
        "Skip them, or deploy a version that takes them."
    ),
    "proposal": (
        "Another script, version {version}, was proposed on {since} and is not in use. "
        "Compare it with what is in use, then adopt it, decline it, or deploy your own."
    ),
    "stray": (
        "No one works on {inputs} any more, and still nothing else can: a fault of Duly. "
        "Check the store and report what is found; nothing is lost and nothing is done twice."
    ),
    "bus_held": (
        f"{_HELD} and delivers nothing: what it "
        "was to deliver then may have been delivered since. Look at what waits there, cancel what "
        "must not happen again, then resume it."
    ),
    "undelivered": (
        "Not delivered on the bus: {counts}, the oldest for {receiver}[, with {error}]. "
        "Fix the receiver, then have them delivered again, or discard them."
    ),
    "unreadable": (
        "{counts} cannot be read, the first {secret} of {connection}. "
        "Open the host with the key they were sealed with, set them again, or drop them."
    ),
    "proposed_source": (
        "[{author} proposed a script for {name}|A script was proposed for {name}] on {since}"
        "[, in place of version {replaces}]"
        "[, and says: {note}]. Read it, then adopt it or decline it; it grants nothing."
    ),
}
