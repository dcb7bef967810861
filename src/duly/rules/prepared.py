"""What `prepare` answers, whether its reservations can be had, and what the later steps are given.

Law 1  The answer is read whole before anything is reserved; a wrong field is named (C4).
Law 2  Reservations are all or nothing, by the table (C5).
Law 3  What mutate and next see is the stored copy of this answer, with the clock and the seed
       that were stored beside it (C6, C10, C12, C13).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from duly.config import Limits
from duly.errors import Invalid
from duly.rules.access import Step, check_subscribed
from duly.rules.event import EventStatus, parse_message_id, parse_title
from duly.rules.value import (
    DEFAULT_LIMITS,
    Json,
    as_mapping,
    canonical,
    encode,
    refuse_unknown,
)
from duly.rules.word import Outcome

SEED_BYTES: Final = 6  # both languages hold 48 bits exactly


@dataclass(frozen=True, slots=True)
class Reservation:
    """The events of one topic that a run will consume."""

    topic: str
    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked answer of `prepare`; `wake_at_raw` is not looked at, since it never fails (S6)."""

    reservations: tuple[Reservation, ...] = ()
    data_text: str = "{}"
    title: str | None = None
    ui_text: str | None = None
    wake_at_raw: object = None

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is reserved, so that mutate is skipped (C7)."""
        return not self.reservations


def parse_prepared(
    raw: object, subscribed: Collection[str], limits: Limits = DEFAULT_LIMITS
) -> Prepared:
    """Read what `prepare` returned; every shape error names its field (C4)."""
    fields = as_mapping(raw, "prepare", "reservations", "data", "ui", "wake_at")
    refuse_unknown(fields, ("reservations", "data", "ui", "wake_at"), "prepare")
    if "reservations" not in fields:
        path = "prepare.reservations"
        raise Invalid(code="missing", path=path)
    reservations = _parse_reservations(fields["reservations"], subscribed, limits)
    data_text = _encode(fields.get("data", {}), "prepare.data", limits)
    if "ui" not in fields:
        return Prepared(reservations, data_text, wake_at_raw=fields.get("wake_at"))
    shown = as_mapping(fields["ui"], "prepare.ui", "title")
    title = parse_title(shown.get("title"), "prepare.ui.title", limits)
    ui_text = _encode(fields["ui"], "prepare.ui", limits)
    return Prepared(reservations, data_text, title, ui_text, fields.get("wake_at"))


def _encode(value: object, path: str, limits: Limits) -> str:
    return encode(value, path, limit_bytes=limits.data_bytes, depth=limits.json_depth)


def _parse_reservations(
    raw: object, subscribed: Collection[str], limits: Limits
) -> tuple[Reservation, ...]:
    """Gather the ids by topic, each once; a topic without ids reserves nothing."""
    ids_of: dict[str, dict[str, None]] = {}
    room = limits.reservations_per_run
    for index, each in enumerate(_as_list(raw, "prepare.reservations")):
        path = f"prepare.reservations[{index}]"
        fields = as_mapping(each, path, "topic", "ids")
        refuse_unknown(fields, ("topic", "ids"), path)
        topic = fields.get("topic")
        if not isinstance(topic, str):
            raise Invalid(code="not_text", path=f"{path}.topic")
        check_subscribed(f"{path}.topic", topic, subscribed)
        ids = ids_of.setdefault(topic, {})
        for place, message_id in enumerate(_as_list(fields.get("ids"), f"{path}.ids")):
            if type(message_id) is str and message_id in ids:
                continue
            known = parse_message_id(message_id, f"{path}.ids[{place}]", limits)
            room -= known not in ids
            if room < 0:
                raise _too_many(limits.reservations_per_run)
            ids[known] = None
    return tuple(Reservation(topic, tuple(ids)) for topic, ids in ids_of.items() if ids)


def _too_many(most: int) -> Invalid:
    return Invalid(
        code="too_many", path="prepare.reservations", facts={"limit": most, "unit": "events"}
    )


def _as_list(raw: object, path: str) -> list[object]:
    if not isinstance(raw, list):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "list"})
    return raw


# -- Whether the reservations can be had (C5) ---------------------------------------------------


class Offered(StrEnum):
    """What this prepare was shown of an event while it was pending, against what is stored now."""

    NEVER = "never"
    AS_IT_IS = "as it is"
    AS_IT_WAS = "as it was"


class Judgement(StrEnum):
    """What becomes of a reservation; of several the last in this order holds for all."""

    RESERVE = "reserve"
    AGAIN = "again"
    REFUSE = "refuse"


# What the table does not list is refused: unknown, reserved and consumed events, and a skipped
# one that was never offered. A person may skip or replace an event under a running prepare.
JUDGEMENTS: Final[Mapping[tuple[EventStatus | None, Offered], Judgement]] = MappingProxyType(
    {
        (EventStatus.PENDING, Offered.NEVER): Judgement.RESERVE,
        (EventStatus.PENDING, Offered.AS_IT_IS): Judgement.RESERVE,
        (EventStatus.PENDING, Offered.AS_IT_WAS): Judgement.AGAIN,
        (EventStatus.SKIPPED, Offered.AS_IT_IS): Judgement.AGAIN,
        (EventStatus.SKIPPED, Offered.AS_IT_WAS): Judgement.AGAIN,
    }
)


def judge_reservation(
    found: EventStatus | None, content: int | None, offered_content: int | None
) -> Judgement:
    """Judge one id: status and content number now, and the number it had as pending (C5)."""
    if offered_content is None:
        offered = Offered.NEVER
    else:
        offered = Offered.AS_IT_IS if content == offered_content else Offered.AS_IT_WAS
    return JUDGEMENTS.get((found, offered), Judgement.REFUSE)


def judge_all(judgements: Iterable[Judgement]) -> Judgement:
    """Judge a whole set: all or nothing, and a mistake of the script outweighs a change (C5)."""
    order = list(Judgement)
    return max(judgements, key=order.index, default=Judgement.RESERVE)


# -- What the later steps are given -------------------------------------------------------------


def script_text(prepared: Prepared) -> str:
    """Write the answer as it is stored, and as mutate and next see it (C6).

    Its parts were checked and written before; they are copied, not read again.
    """
    view: dict[str, object] = {
        "reservations": [
            {"topic": each.topic, "ids": each.message_ids} for each in prepared.reservations
        ],
        "data": msgspec.Raw(prepared.data_text),
    }
    if prepared.ui_text is not None:
        view["ui"] = msgspec.Raw(prepared.ui_text)
    return msgspec.json.encode(view).decode()


def mutation_result(outcome: Outcome, result: Json = None) -> dict[str, Json]:
    """Write what next is told of the mutation; only an applied one has a result (C10, L9)."""
    if outcome is Outcome.APPLIED:
        return {"status": outcome.value, "result": result}
    return {"status": outcome.value}


# The steps whose clock stands still and whose chance is seeded (C13).
FROZEN: Final = frozenset({Step.MUTATE, Step.NEXT})


@dataclass(frozen=True, slots=True)
class StepClock:
    """What a step knows of time and chance; the same in every attempt that does not start fresh."""

    now_ms: int
    is_frozen: bool
    seed: int | None


def step_clock(step: Step, *, now_ms: int, prepared_at_ms: int, first_run: str) -> StepClock:
    """Return the clock and the seed a step runs with (C13)."""
    if step in FROZEN:
        return StepClock(prepared_at_ms, True, seed(first_run, step))
    return StepClock(now_ms, False, None)


def seed(first_run: str, step: Step) -> int:
    """Make the seed of a step out of the first run of the chain, and nothing else (C13)."""
    return int.from_bytes(sha256(canonical([first_run, step.value])).digest()[:SEED_BYTES])
