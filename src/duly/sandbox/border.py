"""The names we own, on both sides of the border (X3).

Law 1: on our side names are snake_case, on the script's side they are spelled as its language
       does. Only names we own are translated; what a payload, a result or a state holds is not.
Law 2: a name is looked up, never converted back. An unknown name passes as it was written, and its
       reader refuses it by that spelling.

    JavaScript                                     here
    ctx.sheets.appendRow({spreadsheetId: "S1"})    sheets.append_row, spreadsheet_id="S1"
    ctx.publish("t", {messageId: "1", title: "x"}) publish, "t", message_id="1", title="x"
    return {reservations, data, wakeAt}            {"reservations", "data", "wake_at"}
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

import msgspec

from duly.rules.access import Step
from duly.rules.catalog import Catalog, camel
from duly.rules.value import Json

PAGE_MARK: Final = "$page"
# A payload is a field of a call's one object, and that one of its arguments; data is a field of
# what prepare returns. So the border lets that much more through. The code that takes a payload, a
# state or data out of it counts a hundred levels there (T8).
WRAPPING_DEPTH: Final = 2

# What `ctx` itself offers, in JavaScript's spelling.
OWN_CALLS: Final = MappingProxyType(
    {"publish": "publish", "peek": "peek", "getByIds": "get_by_ids", "get_by_ids": "get_by_ids"}
)
OWN_FIELDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"publish": {"messageId": "message_id"}, "peek": {}}
)
SCHEDULE_FIELDS: Final = MappingProxyType({"onDeploy": "on_deploy"})
PREPARED_FIELDS: Final = MappingProxyType({"wakeAt": "wake_at"})
EVENT_CALLS: Final = frozenset({"peek", "get_by_ids"})

NOTHING: Final = msgspec.Raw(b"null")
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EVENTS: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])

Asked = tuple[str, tuple[Json, ...], dict[str, Json]]


def from_javascript_call(catalog: Catalog, path: str, args: list[Json]) -> Asked:
    """Translate a call: its name, and the names in its one object."""
    own = OWN_CALLS.get(path)
    if own is not None:
        return _own_call(own, args)
    tool = catalog.names.get(path)
    spelled = tool.name if tool is not None else path
    if len(args) != 1 or not isinstance(args[0], dict):
        return spelled, tuple(args), {}
    parameters = () if tool is None else tool.parameters
    return spelled, (), _rename(args[0], {camel(each.name): each.name for each in parameters})


def _own_call(name: str, args: list[Json]) -> Asked:
    if name in OWN_FIELDS and len(args) == 2 and isinstance(args[1], dict):
        return name, (args[0],), _rename(args[1], OWN_FIELDS[name])
    return name, tuple(args), {}


def from_javascript_result(step: Step, value: Json) -> Json:
    """Translate what a step returned; only a prepare result has a name of ours."""
    if step is Step.PREPARE and isinstance(value, dict):
        return _rename(value, PREPARED_FIELDS)
    return value


def from_javascript_declaration(declared: Json) -> Json:
    """Translate what a workflow declares; only a schedule has a name of ours."""
    producers = declared.get("producers") if isinstance(declared, dict) else None
    if not isinstance(declared, dict) or not isinstance(producers, dict):
        return declared
    return {**declared, "producers": {name: _producer(each) for name, each in producers.items()}}


def _producer(declared: Json) -> Json:
    schedule = declared.get("schedule") if isinstance(declared, dict) else None
    if not isinstance(declared, dict) or not isinstance(schedule, dict):
        return declared
    return {**declared, "schedule": _rename(schedule, SCHEDULE_FIELDS)}


def to_javascript(path: str, answer: msgspec.Raw) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Translate an answer; a page is a list, and the rest of it become the list's properties.

    Only the names we own are read; what they hold passes as the text it is.
    """
    if path in EVENT_CALLS:
        return _events(answer, "messageId"), NOTHING
    page = _page(answer)
    if page is None:
        return answer, NOTHING
    rest = {camel(key): each for key, each in page.items() if key not in ("items", PAGE_MARK)}
    return page["items"], _write(rest)


def to_python(path: str, answer: msgspec.Raw) -> msgspec.Raw:
    """Translate an answer; a page is the object it is, without its mark."""
    if path in EVENT_CALLS:
        return _events(answer, "message_id")
    page = _page(answer)
    if page is None:
        return answer
    return _write({key: each for key, each in page.items() if key != PAGE_MARK})


def written(answer: Json | msgspec.Raw) -> msgspec.Raw:
    """Write an answer, unless it was written before."""
    return answer if isinstance(answer, msgspec.Raw) else _write(answer)


def dice(seed: int) -> tuple[int, int, int, int]:
    """Make four words of 32 bits out of a seed of any size."""
    drawn = sha256(str(seed).encode()).digest()
    words = [int.from_bytes(drawn[at : at + 4], "big") for at in range(0, 16, 4)]
    return words[0], words[1], words[2], words[3]


def _write(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _page(answer: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """Read the fields of a page, as text; another answer has no mark, and is not read at all."""
    if b'"$page"' not in bytes(answer):
        return None
    try:
        fields = _FIELDS.decode(answer)
    except msgspec.ValidationError:
        return None
    is_marked = bytes(fields.get(PAGE_MARK, NOTHING)) == b"true"
    is_list = bytes(fields.get("items", NOTHING)).startswith(b"[")
    return fields if is_marked and is_list else None


def _events(answer: msgspec.Raw, spelling: str) -> msgspec.Raw:
    """Show events as T7 lists them; `id` is another name of the message id."""
    try:
        events = _EVENTS.decode(answer)
    except msgspec.ValidationError:
        return answer  # the engine answers `peek` and `get_by_ids` with events only
    return _write([_event(each, spelling) for each in events])


def _event(event: dict[str, msgspec.Raw], spelling: str) -> dict[str, msgspec.Raw]:
    message_id = event.get("message_id", NOTHING)
    return {
        "topic": event.get("topic", NOTHING),
        spelling: message_id,
        "id": message_id,
        "title": event.get("title", NOTHING),
        "payload": event.get("payload", NOTHING),
    }


def _rename(given: dict[str, Json], names: Mapping[str, str]) -> dict[str, Json]:
    """Spell the names we own our way; one given in both spellings stays, to be refused as such."""
    return {
        (names[name] if name in names and names[name] not in given else name): value
        for name, value in given.items()
    }
