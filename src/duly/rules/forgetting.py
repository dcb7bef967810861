"""What it means to forget an input: its contents go, what decides something later stays (H5, A6).

Law 1: nothing that is open or unknown is touched. `NotOver` says what is in the way.
Law 2: topic, message id and final status of every event, and key, state, times and digests of every
       change stay, so nothing is done again and seals can still be checked (T5, L7, L15).
Law 3: where a text was erased, one sentence says when and by whom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from duly.rules.kept import KeptLog, LogLine
from duly.rules.schedule import moment
from duly.rules.value import encode

# What stands where the arguments of a call stood: an object, as arguments are.
ERASED_ARGS: Final = '{"removed":"on request"}'
BY_CHARS_MAX: Final = 200
TITLE_CHARS_MIN: Final = 12  # a shorter title is too common to look for in other texts
ID_CHARS_MIN: Final = 6  # so is a shorter message id: `1`, `text`
PAYLOAD_BYTES_MAX: Final = 4000
TITLES_MAX: Final = 10  # that are shown before something is erased
_BLOB: Final = re.compile(r'"blob":\s?"([0-9a-f]{64})"')
_WILD: Final = re.compile(r"([\\%_])")


class NotOver(StrEnum):
    """What of an input is not over yet."""

    EVENT = "event"
    RUN = "run"
    MUTATION = "mutation"
    DELIVERY = "delivery"
    DEFERRED = "deferred"
    ALLOWANCE = "allowance"


@dataclass(frozen=True, slots=True)
class OtherCopy:
    """An input of another workflow that was made from an erased event of the bus."""

    workflow: str
    topic: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Forgettable:
    """What would be erased with an input: how much, and the titles of what a person knows by one.

    `title` is that of the input; `erased` is the sentence that stands in its place, if it was
    erased before. `events` are the titles of events that came of it, `changes` those of changes, at
    most `TITLES_MAX` of each; the counts are whole, and `event_count` counts the input too.
    """

    workflow: str
    topic: str
    message_id: str
    title: str
    erased: str | None
    event_count: int
    run_count: int
    mutation_count: int
    bus_event_count: int
    events: tuple[str, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was erased with an input, and which copies are not in reach of it.

    `states` names handlers whose present state speaks of it, `elsewhere` inputs of other workflows
    that came from the same event of the bus, `kept_blobs` blobs that something open needs too, and
    `backups` the backups and exports since it came in. `erased_before` is the sentence of an
    earlier erasing. With an id that is too short, runs that
    only mention it were not looked for (`is_looked_for`).
    """

    workflow: str
    topic: str
    message_id: str
    events: int = 0
    runs: int = 0
    mutations: int = 0
    bus_events: int = 0
    questions: int = 0
    blobs: int = 0
    kept_blobs: int = 0
    states: tuple[str, ...] = ()
    elsewhere: tuple[OtherCopy, ...] = ()
    backups: tuple[str, ...] = ()
    is_looked_for: bool = True
    erased_before: str | None = None

    @property
    def counts(self) -> dict[str, int]:
        """How much was erased, by its name."""
        names = [each.name for each in fields(self)]
        found = {name: getattr(self, name) for name in names[3:9]}
        return {name: count for name, count in found.items() if count}


def say_erased(by: str, at_ms: int) -> str:
    """Say when and by whom a text was erased; it must pass for a title."""
    return f"Erased on {moment(at_ms).date().isoformat()} by {by[:BY_CHARS_MAX]}"


def erased_log(sentence: str, at_ms: int) -> str:
    """Write the log of a run whose own was erased."""
    text = KeptLog((LogLine(at_ms, "duly", sentence),)).text
    assert text is not None
    return text


def erased_payload(sentence: str) -> str:
    """Write the payload of an event of the bus whose own was erased."""
    return encode(
        {"removed": "on request", "text": sentence}, "payload", limit_bytes=PAYLOAD_BYTES_MAX
    )


def is_common(message_id: str) -> bool:
    """Whether an id is so short that a text with it may speak of something else."""
    return len(message_id) < ID_CHARS_MIN


def naming(message_id: str) -> str:
    """Make the pattern that finds an id as a whole string of a JSON text."""
    return f"%{_plain(encode(message_id, 'id', limit_bytes=PAYLOAD_BYTES_MAX))}%"


def as_key(message_id: str) -> str:
    """Spell an id as the name of a field of a JSON text, which says nothing of an input."""
    return f"{encode(message_id, 'id', limit_bytes=PAYLOAD_BYTES_MAX)}:"


def titling(title: str) -> str | None:
    """Make the pattern that finds a title anywhere in a JSON text; none for one too common."""
    if len(title) < TITLE_CHARS_MIN:
        return None
    return f"%{_plain(encode(title, 'title', limit_bytes=PAYLOAD_BYTES_MAX)[1:-1])}%"


def blobs_named(texts: Iterable[str | None]) -> frozenset[str]:
    """List the digests of the blobs that texts name (K15)."""
    return frozenset(digest for text in texts if text for digest in _BLOB.findall(text))


def _plain(text: str) -> str:
    return _WILD.sub(r"\\\1", text)
