"""What an extension says of itself in its `manifest.yaml`, and in which order extensions load (B9).

Law 1: a manifest is taken whole or refused with the place and what to write there; an unknown key,
       handler or kind of value is refused by its name.
Law 2: an extension loads after all it depends on. One that cannot is left out, and so are those
       that need it; all others load as if it were not there.
Law 3: no extension is called `duly`, by which the engine itself speaks on the bus (B1, B10).

    id: reminders
    name: Reminders
    version: "1.0"
    entrypoint: main:Reminders
    depends_on: [assistant]
    agent:
      integration_mode: tool
      model: small
      instructions: Say what is due in one sentence.
    events:
      subscribes:
        - {topic: reminder.due, handler: invoke_agent}
    config: {snooze_s: 300}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Never

from duly.config import KIB, Limits
from duly.errors import Invalid
from duly.rules.declaration import NAME
from duly.rules.delivery import check_topic, looks_like_own
from duly.rules.value import (
    DEFAULT_LIMITS,
    Json,
    decode,
    encode,
    is_text,
    nearest,
    refuse_unknown,
)

ROOT: Final = "manifest"
KEYS: Final = ("id", "name", "version", "entrypoint", "depends_on", "agent", "events", "config")
AGENT_KEYS: Final = ("integration_mode", "model", "instructions")
ENTRYPOINT: Final = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
LABEL_CHARS: Final = 100  # the name, the version, the model and the integration mode
ENTRYPOINT_CHARS: Final = 200
INSTRUCTIONS_BYTES: Final = 32 * KIB
DEPENDENCIES_MAX: Final = 50
SUBSCRIPTIONS_MAX: Final = 100
USER_TOPIC: Final = "user.message"  # what a user says to an agent (B10)


class BuiltIn(StrEnum):
    """What a manifest can let be done with an event; `custom` leaves it to the code."""

    NOTIFY_USER = "notify_user"
    INVOKE_AGENT = "invoke_agent"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Subscribes:
    """One topic, and what is done with its events."""

    topic: str
    handler: BuiltIn


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent is told before it is given an event; `integration_mode` decides nothing."""

    instructions: str
    model: str | None = None
    integration_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """An extension as it describes itself; `config` is its own and is handed to it unread.

    An agent may be a manifest alone: then it has no entrypoint.
    """

    id: str
    name: str
    version: str
    module: str | None  # none: it is an agent without code
    class_name: str | None
    depends_on: tuple[str, ...] = ()
    agent: AgentSettings | None = None
    subscribes: tuple[Subscribes, ...] = ()
    config: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))


# -- Reading one manifest -------------------------------------------------------------------------


def check(tree: object, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Make a manifest of what its file holds, or say which key is wrong and what to write."""
    given = _mapping(tree, ROOT, *KEYS)
    refuse_unknown(given, KEYS, ROOT)
    agent = _agent(given["agent"]) if "agent" in given else None
    is_code = agent is None or "entrypoint" in given
    module, class_name = _entrypoint(given) if is_code else (None, None)
    manifest = Manifest(
        id=_id(given.get("id", ""), f"{ROOT}.id", limits),
        name=_text(given, "name", ROOT),
        version=_text(given, "version", ROOT),
        module=module,
        class_name=class_name,
        depends_on=_depends_on(given.get("depends_on", []), limits),
        agent=agent,
        subscribes=_events(given.get("events", {}), agent, limits),
        config=_config(given.get("config", {}), limits),
    )
    if manifest.id in manifest.depends_on:
        _refuse(f"{ROOT}.depends_on", "depends_on_itself")
    return manifest


def _entrypoint(given: Mapping[str, object]) -> tuple[str, str]:
    found = ENTRYPOINT.fullmatch(_text(given, "entrypoint", ROOT, most=ENTRYPOINT_CHARS))
    if found is None:
        _refuse(
            f"{ROOT}.entrypoint",
            "wrong_value",
            wanted="entrypoint",
            given=str(given["entrypoint"]),
        )
    return found[1], found[2]


def _id(raw: object, path: str, limits: Limits) -> str:
    if not isinstance(raw, str) or NAME.fullmatch(raw) is None or len(raw) > limits.name_chars:
        _refuse(
            path,
            "not_name" if raw else "missing",
            most=limits.name_chars,
        )
    if looks_like_own(raw):
        _refuse(path, "reserved_name", given=raw)
    return raw


def _depends_on(raw: object, limits: Limits) -> tuple[str, ...]:
    path = f"{ROOT}.depends_on"
    ids = _list(raw, path, DEPENDENCIES_MAX)
    found = tuple(_id(each, f"{path}[{index}]", limits) for index, each in enumerate(ids))
    return tuple(dict.fromkeys(found))


def _agent(raw: object) -> AgentSettings:
    path = f"{ROOT}.agent"
    given = _mapping(raw, path, *AGENT_KEYS)
    refuse_unknown(given, AGENT_KEYS, path)
    instructions = given.get("instructions")
    if not isinstance(instructions, str) or not instructions.strip() or not is_text(instructions):
        _refuse(f"{path}.instructions", "blank")
    if len(instructions.encode()) > INSTRUCTIONS_BYTES:
        _refuse(f"{path}.instructions", "too_long", limit=INSTRUCTIONS_BYTES, unit="bytes")
    return AgentSettings(
        instructions,
        _text(given, "model", path) if "model" in given else None,
        _text(given, "integration_mode", path) if "integration_mode" in given else None,
    )


def _events(raw: object, agent: AgentSettings | None, limits: Limits) -> tuple[Subscribes, ...]:
    path = f"{ROOT}.events"
    given = _mapping(raw, path, "subscribes")
    refuse_unknown(given, ("subscribes",), path)
    path = f"{path}.subscribes"
    wanted = _list(given.get("subscribes", []), path, SUBSCRIPTIONS_MAX)
    found: list[Subscribes] = []
    for index, each in enumerate(wanted):
        place = f"{path}[{index}]"
        one = _subscribes(each, place, agent, limits)
        if one in found:
            _refuse(place, "given_twice")
        if one.handler is BuiltIn.INVOKE_AGENT and agent is None:
            _refuse(f"{place}.handler", "agent_missing")
        found.append(one)
    return tuple(found)


def _subscribes(raw: object, path: str, agent: AgentSettings | None, limits: Limits) -> Subscribes:
    """Read one subscription; without a handler it is the code's own (B9).

    Only what the user says to an agent is for the agent itself.
    """
    given = _mapping(raw, path, "topic", "handler")
    refuse_unknown(given, ("topic", "handler"), path)
    try:
        topic = check_topic(given.get("topic"), limits)
    except Invalid as error:
        raise Invalid(code=error.code, path=f"{path}.topic", facts=error.facts) from None
    is_said_to_agent = agent is not None and topic == USER_TOPIC
    default = BuiltIn.INVOKE_AGENT if is_said_to_agent else BuiltIn.CUSTOM
    handler = given.get("handler", default)
    if not isinstance(handler, str) or handler not in list(BuiltIn):
        given_handler = str(handler)[:LABEL_CHARS]
        _refuse(f"{path}.handler", "not_one_of", given=given_handler, known=[*BuiltIn])
    return Subscribes(topic, BuiltIn(handler))


def _config(raw: object, limits: Limits) -> Mapping[str, Json]:
    """Copy what the extension's author set; it is JSON, like everything that is kept (T8)."""
    path = f"{ROOT}.config"
    _mapping(raw, path)
    text = encode(raw, path, limit_bytes=limits.state_bytes, depth=limits.json_depth)
    copied = decode(text)
    assert isinstance(copied, dict)
    return MappingProxyType(copied)


def _mapping(raw: object, path: str, *fields: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        _refuse(path, "wrong_value", wanted="object", kind=_kind(raw), fields=[*fields])
    for key in raw:
        if not isinstance(key, str):
            _refuse(path, "wrong_key", given=str(key)[:LABEL_CHARS], kind=_kind(key))
    return raw


def _list(raw: object, path: str, most: int) -> list[object]:
    if not isinstance(raw, list):
        _refuse(path, "wrong_value", wanted="list", kind=_kind(raw))
    if len(raw) > most:
        _refuse(path, "too_many", limit=most, unit="entries")
    return raw


def _text(given: Mapping[str, object], key: str, path: str, *, most: int = LABEL_CHARS) -> str:
    """Read one line that a person can read."""
    raw, path = given.get(key), f"{path}.{key}"
    if raw is None:
        _refuse(path, "missing")
    if not isinstance(raw, str):
        # YAML makes a number of 1.0 and a truth of yes.
        _refuse(path, "not_quoted", key=key, given=str(raw)[:20], kind=_kind(raw))
    if not raw.strip() or not raw.isprintable() or len(raw) > most:
        _refuse(path, "wrong_length", least=1, most=most, of="printable")
    return raw


def _kind(value: object) -> str:
    return type(value).__name__


def _refuse(path: str, code: str, **facts: object) -> Never:
    raise Invalid(code=code, path=path, facts=facts)


# -- Which load, and in which order ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """The extensions that can load, each after all it needs; the others' ids, and why."""

    loads: tuple[Manifest, ...]
    left_out: Mapping[str, Invalid]


def order(manifests: Iterable[Manifest]) -> Order:
    """Decide the order of loading: by dependency, and otherwise as they were given."""
    waiting = {each.id: each for each in manifests}
    left_out = _missing(waiting)
    loads: list[Manifest] = []
    ready: set[str] = set()
    while able := [each for each in waiting.values() if ready.issuperset(each.depends_on)]:
        # One at a time: those that could load already go before those that can load now.
        loads.append(able[0])
        ready.add(able[0].id)
        del waiting[able[0].id]
    for each in waiting.values():
        if each.id not in left_out:
            left_out[each.id] = _why_not(each, waiting)
    return Order(tuple(loads), left_out)


def _missing(known: Mapping[str, Manifest]) -> dict[str, Invalid]:
    """Say of those whose own dependency is not there which one it is."""
    found = {}
    for each in known.values():
        absent = [needed for needed in each.depends_on if needed not in known]
        if absent:
            others = (other for other in known if other != each.id)
            found[each.id] = Invalid(
                code="no_dependency", subject=absent[0], facts=nearest(absent[0], others)
            )
    return found


def _why_not(manifest: Manifest, stuck: Mapping[str, Manifest]) -> Invalid:
    """Follow what holds an extension back: a circle it stands in, or an error of another one."""
    trail = [manifest.id]
    while True:
        needed = next((each for each in stuck[trail[-1]].depends_on if each in stuck), None)
        if needed is None:
            return needs_broken(manifest.depends_on, stuck)
        if needed == manifest.id:
            return Invalid(code="circle", path="depends_on", facts={"circle": [*trail, needed]})
        if needed in trail:
            return needs_broken(manifest.depends_on, stuck)
        trail.append(needed)


def needs_broken(depends_on: Iterable[str], broken: Iterable[str]) -> Invalid:
    """Say which dependency an extension waits for in vain."""
    lost = set(broken)
    needed = next(each for each in depends_on if each in lost)
    return Invalid(code="dependency_not_loaded", subject=needed)
