"""What an extension says of itself in its `manifest.yaml`, and in which order extensions load (B9).

Law 1: a manifest is taken whole or refused with the place and what to write there; a key, a handler
       or a kind of value that nobody reads is refused by its name.
Law 2: an extension loads after all it depends on. One that cannot is left out, and so is whoever
       needs it; all others load as if it were not there.
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
from duly.rules.value import DEFAULT_LIMITS, Json, decode, encode, is_text, refuse_unknown, suggest

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
    given = _mapping(tree, ROOT, "Write keys and values, beginning with `id: my-extension`.")
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
        _refuse(f"{ROOT}.depends_on", "names the extension itself", "Take it out.")
    return manifest


def _entrypoint(given: Mapping[str, object]) -> tuple[str, str]:
    found = ENTRYPOINT.fullmatch(_text(given, "entrypoint", ROOT, most=ENTRYPOINT_CHARS))
    if found is None:
        _refuse(
            f"{ROOT}.entrypoint",
            f"is {str(given['entrypoint'])!a}",
            "Name a module of this folder and its class, like `main:Reminders`.",
        )
    return found[1], found[2]


def _id(raw: object, path: str, limits: Limits) -> str:
    if not isinstance(raw, str) or NAME.fullmatch(raw) is None or len(raw) > limits.name_chars:
        _refuse(
            path,
            "is no name" if raw else "is missing",
            f"Write 1 to {limits.name_chars} letters, digits, dots, underscores or hyphens.",
        )
    if looks_like_own(raw):
        _refuse(path, f'is "{raw}", by which the host itself speaks', "Choose another one.")
    return raw


def _depends_on(raw: object, limits: Limits) -> tuple[str, ...]:
    path = f"{ROOT}.depends_on"
    ids = _list(raw, path, DEPENDENCIES_MAX, "Write a list of extension ids.")
    found = tuple(_id(each, f"{path}[{index}]", limits) for index, each in enumerate(ids))
    return tuple(dict.fromkeys(found))


def _agent(raw: object) -> AgentSettings:
    path = f"{ROOT}.agent"
    given = _mapping(raw, path, f"Write {', '.join(AGENT_KEYS)} below it.")
    refuse_unknown(given, AGENT_KEYS, path)
    instructions = given.get("instructions")
    if not isinstance(instructions, str) or not instructions.strip() or not is_text(instructions):
        _refuse(f"{path}.instructions", "is missing or no text", "Say what the agent is to do.")
    if len(instructions.encode()) > INSTRUCTIONS_BYTES:
        _refuse(f"{path}.instructions", f"has more than {INSTRUCTIONS_BYTES} bytes", "Shorten it.")
    return AgentSettings(
        instructions,
        _text(given, "model", path) if "model" in given else None,
        _text(given, "integration_mode", path) if "integration_mode" in given else None,
    )


def _events(raw: object, agent: AgentSettings | None, limits: Limits) -> tuple[Subscribes, ...]:
    path = f"{ROOT}.events"
    advice = "Write `subscribes:` and a list of {topic, handler} below it."
    given = _mapping(raw, path, advice)
    refuse_unknown(given, ("subscribes",), path)
    path = f"{path}.subscribes"
    wanted = _list(given.get("subscribes", []), path, SUBSCRIPTIONS_MAX, advice)
    found: list[Subscribes] = []
    for index, each in enumerate(wanted):
        place = f"{path}[{index}]"
        one = _subscribes(each, place, agent, limits)
        if one in found:
            _refuse(place, f"subscribes to {one.topic} by {one.handler} again", "Take it out.")
        if one.handler is BuiltIn.INVOKE_AGENT and agent is None:
            _refuse(f"{place}.handler", "is invoke_agent", "Add `agent:` with its instructions.")
        found.append(one)
    return tuple(found)


def _subscribes(raw: object, path: str, agent: AgentSettings | None, limits: Limits) -> Subscribes:
    """Read one subscription; without a handler it is the code's own (B9).

    Only what the user says to an agent is for the agent itself.
    """
    given = _mapping(raw, path, "Write a topic, and a handler if it is not the code's own.")
    refuse_unknown(given, ("topic", "handler"), path)
    try:
        topic = check_topic(given.get("topic"), limits)
    except Invalid as error:
        raise Invalid(f"{path}.topic: {error}", path=f"{path}.topic") from None
    is_said_to_agent = agent is not None and topic == USER_TOPIC
    default = BuiltIn.INVOKE_AGENT if is_said_to_agent else BuiltIn.CUSTOM
    handler = given.get("handler", default)
    if not isinstance(handler, str) or handler not in list(BuiltIn):
        what = f"is {handler[:LABEL_CHARS]!a}" if isinstance(handler, str) else "is no text"
        _refuse(f"{path}.handler", what, suggest(str(handler), list(BuiltIn)))
    return Subscribes(topic, BuiltIn(handler))


def _config(raw: object, limits: Limits) -> Mapping[str, Json]:
    """Copy what the extension's author set; it is JSON, like everything that is kept (T8)."""
    path = f"{ROOT}.config"
    _mapping(raw, path, "Write names and values below it.")
    text = encode(raw, path, limit_bytes=limits.state_bytes, depth=limits.json_depth)
    copied = decode(text)
    assert isinstance(copied, dict)
    return MappingProxyType(copied)


def _mapping(raw: object, path: str, advice: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        _refuse(path, f"is {_kind(raw)}", advice)
    for key in raw:
        if not isinstance(key, str):
            _refuse(path, f"has the key {key!r}, which is {_kind(key)}", "Put it in quotes.")
    return raw


def _list(raw: object, path: str, most: int, advice: str) -> list[object]:
    if not isinstance(raw, list):
        _refuse(path, f"is {_kind(raw)}", advice)
    if len(raw) > most:
        _refuse(path, f"has more than {most} entries", "Shorten it.")
    return raw


def _text(given: Mapping[str, object], key: str, path: str, *, most: int = LABEL_CHARS) -> str:
    """Read one line that a person can read."""
    raw, path = given.get(key), f"{path}.{key}"
    if raw is None:
        _refuse(path, "is missing", f"Write `{key}:` and a text.")
    if not isinstance(raw, str):
        # YAML makes a number of 1.0 and a truth of yes.
        _refuse(path, f"is {_kind(raw)}", f'Put it in quotes: {key}: "{str(raw)[:20]}".')
    if not raw.strip() or not raw.isprintable() or len(raw) > most:
        _refuse(path, "is no readable line", f"Write 1 to {most} printable characters.")
    return raw


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "a truth value"}
    known = {**kinds, int: "a number", float: "a number", type(None): "empty"}
    return known.get(type(value), f"a {type(value).__name__}")


def _refuse(path: str, what: str, advice: str) -> Never:
    raise Invalid(f"{path} {what}. {advice}", path=path)


# -- Which load, and in which order ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """The extensions that can load, each after all it needs; the others' ids, and why."""

    loads: tuple[Manifest, ...]
    left_out: Mapping[str, str]


def order(manifests: Iterable[Manifest]) -> Order:
    """Decide the order of loading: by dependency, and otherwise as they were given."""
    waiting = {each.id: each for each in manifests}
    left_out = _missing(waiting)
    loads: list[Manifest] = []
    ready: set[str] = set()
    while able := [each for each in waiting.values() if ready.issuperset(each.depends_on)]:
        # One at a time: whoever could load already keeps its place before whoever now can.
        loads.append(able[0])
        ready.add(able[0].id)
        del waiting[able[0].id]
    for each in waiting.values():
        if each.id not in left_out:
            left_out[each.id] = _why_not(each, waiting)
    return Order(tuple(loads), left_out)


def _missing(known: Mapping[str, Manifest]) -> dict[str, str]:
    """Say of those whose own dependency is not there which one it is."""
    found = {}
    for each in known.values():
        absent = [needed for needed in each.depends_on if needed not in known]
        if absent:
            found[each.id] = (
                f'It depends on "{absent[0]}", which is not there. '
                f"{suggest(absent[0], (other for other in known if other != each.id))}"
            )
    return found


def _why_not(manifest: Manifest, stuck: Mapping[str, Manifest]) -> str:
    """Follow what holds an extension back: a circle it stands in, or somebody else's trouble."""
    trail = [manifest.id]
    while True:
        needed = next((each for each in stuck[trail[-1]].depends_on if each in stuck), None)
        if needed is None:
            return needs_broken(manifest.depends_on, stuck)
        if needed == manifest.id:
            circle = " → ".join([*trail, needed])
            return f"It depends on itself: {circle}. Take one of these out of depends_on."
        if needed in trail:
            return needs_broken(manifest.depends_on, stuck)
        trail.append(needed)


def needs_broken(depends_on: Iterable[str], broken: Iterable[str]) -> str:
    """Say which dependency an extension waits for in vain."""
    lost = set(broken)
    needed = next(each for each in depends_on if each in lost)
    return f'It needs "{needed}", which is not loaded. See to that one first.'
