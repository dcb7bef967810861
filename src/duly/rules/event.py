"""Events: what may be published, what becomes of it, and what a script sees of it (T).

Law 1  A publication is checked whole before any of it is kept; the same message published twice
       is one event (T5).
Law 2  The status moves only along the table; consumed and skipped are final (T4).
Law 3  Nothing here is random: a message without an id is named by its content (T3), an event
       from the bus by its number there (T10).

Names are snake_case: the border of each language translates its own (`messageId`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, cast
from unicodedata import category

import msgspec

from duly.config import Limits
from duly.errors import IllegalTransition, Invalid, do
from duly.rules.declaration import TopicDeclaration
from duly.rules.kept import DULY, LogLine, read_log
from duly.rules.shown import is_seen
from duly.rules.value import (
    DEFAULT_LIMITS,
    INTEGER_MAX,
    Json,
    as_mapping,
    check_column,
    digest,
    encode,
    refuse_unknown,
)

PEEK_LIMIT_DEFAULT: Final = 100
BUS_TEXT_CHARS: Final = 120


class EventStatus(StrEnum):
    """Where an event stands (T4)."""

    PENDING = "pending"
    RESERVED = "reserved"
    CONSUMED = "consumed"
    SKIPPED = "skipped"


class EventMove(StrEnum):
    """What can happen to an event; scripts cause none of it directly."""

    RESERVE = "reserve"
    RELEASE = "release"
    CONSUME = "consume"
    SKIP = "skip"


MOVES: Final[Mapping[tuple[EventStatus, EventMove], EventStatus]] = MappingProxyType(
    {
        (EventStatus.PENDING, EventMove.RESERVE): EventStatus.RESERVED,
        (EventStatus.PENDING, EventMove.SKIP): EventStatus.SKIPPED,
        (EventStatus.RESERVED, EventMove.CONSUME): EventStatus.CONSUMED,
        (EventStatus.RESERVED, EventMove.SKIP): EventStatus.SKIPPED,
        (EventStatus.RESERVED, EventMove.RELEASE): EventStatus.PENDING,
    }
)


def move(status: EventStatus, event_move: EventMove) -> EventStatus:
    """Return the status after a move; a move the table does not have is our own bug (T4)."""
    try:
        return MOVES[status, event_move]
    except KeyError:
        raise IllegalTransition(
            code="bug", facts={"detail": "event", "status": status, "move": event_move}
        ) from None


# -- Publishing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publication:
    """A checked message: `digest` is the same for the same title and payload (T5)."""

    topic: str
    message_id: str
    title: str
    payload_text: str
    digest: str


def parse_publication(topic: str, raw: object, limits: Limits = DEFAULT_LIMITS) -> Publication:
    """Check what a script or an outside caller publishes into a declared topic (T3, T7, T8)."""
    fields = as_mapping(raw, "publish", "message_id", "title", "payload")
    refuse_unknown(fields, ("message_id", "title", "payload"), "publish")
    title = parse_title(fields.get("title"), "publish.title", limits)
    payload_text = encode(
        fields.get("payload"),
        "publish.payload",
        limit_bytes=limits.payload_bytes,
        depth=limits.json_depth,
    )
    payload = cast(Json, fields.get("payload"))  # it has just been checked
    if fields.get("message_id") is None:
        message_id = derive_message_id(topic, payload)
    else:
        message_id = parse_message_id(fields["message_id"], "publish.message_id", limits)
    return Publication(topic, message_id, title, payload_text, digest([title, payload]))


def parse_title(raw: object, path: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """Check a title: something to read, on one line (T3)."""
    if not isinstance(raw, str):
        raise Invalid(code="not_text", path=path)
    if len(raw) > limits.title_chars:
        raise Invalid(
            code="too_long", path=path, facts={"limit": limits.title_chars, "unit": "characters"}
        )
    if raw.isascii() and raw.isprintable() and raw.strip():
        return raw
    if any(_is_control(character) for character in raw):
        raise Invalid(code="control_character", path=path)
    if _is_blank(raw):
        raise Invalid(code="blank", path=path)
    return raw


def parse_message_id(raw: object, path: str, limits: Limits = DEFAULT_LIMITS) -> str:
    """Check a message id; an integer becomes its digits (T3)."""
    if type(raw) is int and abs(raw) <= INTEGER_MAX:
        return str(raw)
    if not isinstance(raw, str):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "message_id"})
    return check_column(raw, path, limits.message_id_chars)


def derive_message_id(topic: str, payload: Json) -> str:
    """Name a message by its content, so that publishing it again gives the same event (T3)."""
    return f"content:{digest([topic, payload])}"


# What both languages write where a value was missing; whole words, since a sender may be called so.
MISSING_VALUE: Final = re.compile(r"\b(?:undefined|NaN|None|null)\b|\[object Object\]")


def missing_value(publication: Publication) -> str | None:
    """Find the trace of a missing value in an id or a title; its author is told, no more (T3)."""
    for words in (publication.message_id, publication.title):
        found = MISSING_VALUE.search(words)
        if found is not None:
            return found[0]
    return None


class Republish(StrEnum):
    """What a publish did to the event of its message id (T5)."""

    NEW = "new"
    REPLACED = "replaced"
    SAME = "same"
    BESIDE = "beside"
    FROZEN = "frozen"
    DROPPED = "dropped"


# Keyed by the event's status, None where there is none, and whether its content is the same.
REPUBLISH: Final[Mapping[tuple[EventStatus | None, bool], Republish]] = MappingProxyType(
    {
        (None, False): Republish.NEW,
        (EventStatus.PENDING, True): Republish.SAME,
        (EventStatus.PENDING, False): Republish.REPLACED,
        (EventStatus.RESERVED, True): Republish.SAME,
        (EventStatus.RESERVED, False): Republish.BESIDE,
        (EventStatus.CONSUMED, True): Republish.FROZEN,
        (EventStatus.CONSUMED, False): Republish.DROPPED,
        (EventStatus.SKIPPED, True): Republish.FROZEN,
        (EventStatus.SKIPPED, False): Republish.DROPPED,
    }
)

# What takes the counter's next number and wakes the consumer (T5, S3).
CHANGES: Final = frozenset({Republish.NEW, Republish.REPLACED})

# What leaves a content in the store that was not there before; anything else changes no event.
KEPT: Final = CHANGES | {Republish.BESIDE}


def on_republish(status: EventStatus | None, is_same_content: bool) -> Republish:
    """Decide what a publish does; "same" means the newest content, the one kept beside included."""
    try:
        return REPUBLISH[status, is_same_content]
    except KeyError:
        raise IllegalTransition(code="bug", facts={"detail": "no_content"}) from None


def add_warning(logs: str | None, text: str, now: int) -> str:
    """Add a line of the host to what a run logged (T5).

    The line is there in any case, also past the limit of the run's log.
    """
    before = read_log(logs)
    after = replace(before, lines=(*before.lines, LogLine(now, DULY, text))).text
    assert after is not None, text
    return after


@dataclass(frozen=True, slots=True)
class PublishBudget:
    """How much a run has published so far (N)."""

    count: int = 0
    payload_bytes: int = 0

    def spend(self, publication: Publication, limits: Limits = DEFAULT_LIMITS) -> PublishBudget:
        """Count one more publication, or refuse it."""
        count = self.count + 1
        payload_bytes = self.payload_bytes + len(publication.payload_text.encode())
        if count > limits.publishes_per_run:
            most = limits.publishes_per_run
            raise Invalid(code="too_many", path="publish", facts={"limit": most, "unit": "events"})
        if payload_bytes > limits.publish_bytes_per_run:
            most = limits.publish_bytes_per_run
            raise Invalid(code="too_many", path="publish", facts={"limit": most, "unit": "bytes"})
        return PublishBudget(count, payload_bytes)


# -- Reading ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Peek:
    """A checked question for pending events of one topic, in the order of their numbers (T6)."""

    topic: str
    limit: int
    after: str | None = None


def parse_peek(
    topic: str, limit: object = None, after: object = None, limits: Limits = DEFAULT_LIMITS
) -> Peek:
    """Check the arguments of a peek; the limit is 100 unless told (T6)."""
    if limit is None:
        limit = min(PEEK_LIMIT_DEFAULT, limits.peek_events)
    if type(limit) is not int or not 1 <= limit <= limits.peek_events:
        most = limits.peek_events
        raise Invalid(code="out_of_range", path="peek.limit", facts={"least": 1, "most": most})
    if after is not None:
        after = parse_message_id(after, "peek.after", limits)
    return Peek(topic, limit, after)


def count_fitting(sizes_bytes: Iterable[int], bytes_max: int) -> int:
    """Return how many of the events, in order, fit into one peek (T6).

    The first always fits: otherwise an event larger than a page would be stuck in silence.
    """
    count = total_bytes = 0
    for size_bytes in sizes_bytes:
        total_bytes += size_bytes
        if count and total_bytes > bytes_max:
            break
        count += 1
    return count


def parse_ids(raw: object, limits: Limits = DEFAULT_LIMITS) -> tuple[str, ...]:
    """Check the ids of a `getByIds`; more than a peek shows are refused, never cut (T7)."""
    path = "get_by_ids.ids"
    if not isinstance(raw, list) or len(raw) > limits.peek_events:
        most = limits.peek_events
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "message_ids", "most": most})
    return tuple(
        parse_message_id(each, f"{path}[{place}]", limits) for place, each in enumerate(raw)
    )


def check_fitting(size_bytes: int, bytes_max: int) -> None:
    """Refuse an answer that is too large as a whole: a shorter one would look complete (T7)."""
    if size_bytes > bytes_max:
        raise Invalid(
            code="answer_too_long",
            path="get_by_ids",
            facts={"given": size_bytes, "limit": bytes_max},
        )


def show_events(events: Iterable[tuple[str, str, str, str]]) -> bytes:
    """Write events (topic, message id, title, payload as text) exactly as a script sees them (T7).

    `id` is another name of the message id. The payloads are copied, never read: a few megabytes
    of them can hold millions of values (X2).
    """
    shown = [
        {
            "topic": topic,
            "message_id": message_id,
            "id": message_id,
            "title": title,
            "payload": msgspec.Raw(payload_text),
        }
        for topic, message_id, title, payload_text in events
    ]
    return msgspec.json.encode(shown)


# -- Causes -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Caused:
    """An event's number and the numbers of the inputs it comes from; none means it is an input."""

    seq: int
    caused_by: tuple[int, ...] = ()


def roots(reserved: Sequence[Caused]) -> tuple[int, ...]:
    """Return what an event published by `next` comes from; nothing: it is its own root (T9)."""
    found = {seq for event in reserved for seq in event.caused_by or (event.seq,)}
    return tuple(sorted(found))


# -- From outside (T10) -------------------------------------------------------------------------


def check_ingress(
    topic: TopicDeclaration, way: Literal["request", "bus"], bus_topic: str = ""
) -> None:
    """Refuse a publisher the topic does not let in: a request of a person, or a bus topic."""
    if way == "request" and not topic.ingress:
        raise Invalid(code="no_ingress", path=topic.name, next=do("deploy", "source"))
    if way == "bus" and (topic.bus is None or topic.bus != bus_topic):
        raise Invalid(code="not_listening", path=topic.name, facts={"bus_topic": bus_topic})


def bus_publication(
    topic: str,
    *,
    bus_topic: str,
    source: str,
    event_id: int,
    payload: Mapping[str, Json],
    limits: Limits = DEFAULT_LIMITS,
) -> Publication:
    """Make a bus event into a publication; its number on the bus names it for good (T10)."""
    title = bus_title(bus_topic, source, event_id, payload, limits)
    raw = {"message_id": f"bus:{event_id}", "title": title, "payload": dict(payload)}
    return parse_publication(topic, raw, limits)


def bus_title(
    bus_topic: str,
    source: str,
    event_id: int,
    payload: Mapping[str, Json],
    limits: Limits = DEFAULT_LIMITS,
) -> str:
    """Find a title for a bus event; it is cut to fit, since no author is there to correct it."""
    spoken = (
        _one_line(payload.get("title"), limits.title_chars),
        _one_line(payload.get("text"), min(BUS_TEXT_CHARS, limits.title_chars)),
        _one_line(f"{bus_topic} from {source} (bus:{event_id})", limits.title_chars),
    )
    return next(words for words in spoken if words)


def _one_line(raw: object, most_chars: int) -> str:
    if not isinstance(raw, str):
        return ""
    # Control characters and line ends become spaces; joiners inside an emoji may stay.
    plain = "".join(" " if _is_control(each) else each for each in raw[: 4 * most_chars])
    line = " ".join(plain.split())
    if _is_blank(line):
        return ""
    return line if len(line) <= most_chars else line[: most_chars - 1] + "…"


# Embeddings, overrides and isolates turn a line around; a person would approve other words.
TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _is_control(character: str) -> bool:
    return category(character) in ("Cc", "Cs", "Zl", "Zp") or character in TURNS


def _is_blank(text: str) -> bool:
    return not any(is_seen(character) and not character.isspace() for character in text)
