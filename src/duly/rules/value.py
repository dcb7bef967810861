"""Strict JSON: the only kind of value that crosses a border or reaches the store (T8).

Law 1: a value is checked before it is written; what breaks T8 is refused with the path to it.
Law 2: `decode(encode(value))` is the value again, to the last bit, on every store. The text holds
       no NUL, since the encoder escapes it and PostgreSQL could not keep it.
Law 3: equal content has one digest. It is taken over RFC 8785 bytes, for which the order of keys
       means nothing and 1 and 1.0 are the same number, as they are in JavaScript.

The check counts at least one byte for every value it meets, so that a small object that refers to
the same list again and again is refused long before it would fill the memory.

Most values are small and sound. A plain loop tells so; only where it cannot, the walk that names
the place of what is wrong looks again. Likewise for the bytes that are hashed: for texts, whole
numbers and ASCII keys the standard encoder writes what RFC 8785 asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from json import JSONEncoder
from math import inf, isfinite
from typing import Any, Final, Never, TypeAlias

import msgspec
import rfc8785

from duly.config import Limits
from duly.errors import Invalid

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

INTEGER_MAX: Final = 2**53 - 1
AT_MS_MAX: Final = 253_402_300_799_999  # the last moment of the year 9999, the last that is a date
DEFAULT_LIMITS: Final = Limits()
DEPTH_MAX: Final = DEFAULT_LIMITS.json_depth
PATH_KEY_CHARS: Final = 40
LIGHT_VALUES: Final = 5_000  # a few milliseconds of checking
SUGGESTIONS_MAX: Final = 10
SMALL_VALUES: Final = 1_000  # so many are checked by the plain loop

_sorted = JSONEncoder(
    ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":")
).encode


def check_json(
    value: object, path: str = "value", *, limit_bytes: int, depth: int = DEPTH_MAX
) -> None:
    """Refuse a value that is not strict JSON or is longer than the limit."""
    encode(value, path, limit_bytes=limit_bytes, depth=depth)


def encode(value: object, path: str = "value", *, limit_bytes: int, depth: int = DEPTH_MAX) -> str:
    """Check a value and write it as compact JSON text, keys in the order they came."""
    if not _is_sound(value, limit_bytes, depth):
        _Walk(path, limit_bytes, depth).visit(value)
    text = msgspec.json.encode(value)
    if len(text) > limit_bytes:
        raise _too_long(path, limit_bytes)
    return text.decode()


def decode(text: str, path: str = "value") -> Json:
    """Read JSON text; it is as strict as its writer was, so check what a stranger wrote."""
    try:
        value: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Invalid(code="not_json", path=path, facts={"cause": str(error)}) from error
    return value


def is_light(value: object, most: int = LIGHT_VALUES, *, most_chars: float = inf) -> bool:
    """Tell whether a value has so few parts that checking them all takes a moment.

    Looking stops at the limit, also in a value that holds itself. Texts count as one part; where
    they are looked into, `most_chars` is how long all of them are together.
    """
    holders = [value]
    while holders:
        holder = holders.pop()
        if type(holder) is str:
            most_chars -= len(holder)
        elif type(holder) is dict or type(holder) is list:
            most -= len(holder)
        if most < 0 or most_chars < 0:
            return False
        if type(holder) is dict:
            most_chars -= sum(len(each) for each in holder if type(each) is str)
            holders.extend(holder.values())
        elif type(holder) is list:
            holders.extend(holder)
    return most_chars >= 0


def copy(value: Json) -> Json:
    """Return a checked value once more, so that a stranger may change it."""
    copied: Json = msgspec.json.decode(msgspec.json.encode(value))
    return copied


def canonical(value: Json) -> bytes:
    """Write a checked value as the bytes that are hashed (RFC 8785)."""
    return _sorted(value).encode() if _is_simple(value) else rfc8785.dumps(value)


def digest(value: Json) -> str:
    """Return the SHA-256 of a checked value, in hexadecimal."""
    return sha256(canonical(value)).hexdigest()


def refuse_unknown(given: Iterable[object], known: Iterable[str], path: str) -> None:
    """Refuse the first field that is not known, and name the one that was probably meant."""
    names = list(known)
    for name in given:
        if name not in names:
            place = f"{path}.{str(name)[:PATH_KEY_CHARS]}"
            raise Invalid(code="unknown_field", path=place, facts=nearest(str(name), names))


def nearest(name: str, known: Iterable[str]) -> dict[str, object]:
    """Return the facts about a name that is not known: the one probably meant, or some others."""
    names = sorted(known)
    close = get_close_matches(name[:PATH_KEY_CHARS], names, n=1)
    if close:
        return {"near": close[0]}
    return {"known": names[:SUGGESTIONS_MAX], "count": len(names)}


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names was probably meant, or name some."""
    names = sorted(known)
    close = get_close_matches(name[:PATH_KEY_CHARS], names, n=1)
    if close:
        return f'Did you mean "{close[0]}"?'
    more = ", …" if len(names) > SUGGESTIONS_MAX else ""
    return f"Known: {', '.join(names[:SUGGESTIONS_MAX])}{more}." if names else "There is none."


def _too_long(path: str, limit_bytes: int) -> Invalid:
    return Invalid(code="too_long", path=path, facts={"limit": limit_bytes, "unit": "bytes"})


def _is_sound(value: object, room_bytes: int, depth: int) -> bool:
    """Tell whether a value is small and strict JSON; if not, it may be either.

    It looks at one depth after the other: what holds itself is too deep.
    """
    left = SMALL_VALUES
    level: list[Any] = [value]
    for place in range(depth + 1):
        deeper: list[Any] = []
        for each in level:
            kind = type(each)
            if kind is str:
                room_bytes -= len(each)
                if room_bytes < 0 or not (each.isascii() or is_text(each)):
                    return False
            elif kind is dict or kind is list:
                left -= len(each)
                if left < 0 or place == depth:
                    return False
                if kind is dict:
                    for key in each:
                        if type(key) is not str:
                            return False
                        room_bytes -= len(key)
                        if room_bytes < 0 or not (key.isascii() or is_text(key)):
                            return False
                    deeper += each.values()
                else:
                    deeper += each
            elif kind is int:
                if not -INTEGER_MAX <= each <= INTEGER_MAX:
                    return False
            elif kind is float:
                if not isfinite(each):
                    return False
            elif each is not None and kind is not bool:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _is_simple(value: object) -> bool:
    """Tell whether a checked value has only texts, whole numbers and keys in ASCII."""
    holders: list[Any] = [value]
    for each in holders:
        kind = type(each)
        if kind is dict:
            if not all(map(str.isascii, each)):
                return False
            holders += each.values()
        elif kind is list or kind is tuple:
            holders += each
        elif kind is float or (kind is int and not -INTEGER_MAX <= each <= INTEGER_MAX):
            return False
    return True


@dataclass(slots=True)
class _Walk:
    """One pass over a value; `trail` is where it stands, `around` what it stands in."""

    root: str
    limit_bytes: int
    depth: int
    room_bytes: int = 0
    trail: list[str | int] = field(default_factory=list)
    around: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.room_bytes = self.limit_bytes

    def visit(self, value: object) -> None:
        """Check one value and all it holds; only the exact types of JSON pass."""
        self.take(1)
        if type(value) is str:
            self.visit_text(value)
        elif type(value) is int:
            if abs(value) > INTEGER_MAX:
                self.refuse("too_large_number")
        elif type(value) is float:
            if not isfinite(value):
                self.refuse("not_finite", given=str(value))
        elif type(value) is list:
            self.enter(value, enumerate(value))
        elif type(value) is dict:
            self.enter(value, value.items())
        elif value is not None and type(value) is not bool:
            self.refuse("wrong_value", wanted="json", kind=type(value).__name__)

    def enter(self, holder: object, items: Iterable[tuple[object, object]]) -> None:
        """Check what an object or a list holds; its depth is bounded, so the recursion is."""
        if id(holder) in self.around:
            self.refuse("contains_itself")
        if len(self.trail) >= self.depth:
            self.refuse("too_deep", limit=self.depth)
        self.around.add(id(holder))
        for key, value in items:
            if type(key) is str:
                self.visit_text(key)
            elif type(holder) is dict:
                self.refuse("wrong_key", kind=type(key).__name__)
            self.trail.append(key)  # type: ignore[arg-type]  # a string, or the index in a list
            self.visit(value)
            self.trail.pop()
        self.around.discard(id(holder))

    def visit_text(self, text: str) -> None:
        """Check a string or a key."""
        self.take(len(text))
        if not is_text(text):
            self.refuse("half_character")

    def take(self, count: int) -> None:
        """Count bytes that the text will have at least."""
        self.room_bytes -= count
        if self.room_bytes < 0:
            raise _too_long(self.root, self.limit_bytes)

    def refuse(self, code: str, **facts: object) -> Never:
        """Raise, naming where the walk stands."""
        path = self.root + "".join(_part(key) for key in self.trail)
        raise Invalid(code=code, path=path, facts=facts)


def check_column(raw: str, path: str, most_chars: int) -> str:
    """Refuse a text that is too long for its column, or that PostgreSQL does not keep in one."""
    if not 1 <= len(raw) <= most_chars:
        raise Invalid(code="wrong_length", path=path, facts={"least": 1, "most": most_chars})
    if "\0" in raw or not is_text(raw):
        raise Invalid(code="half_character", path=path)
    return raw


def is_text(text: str) -> bool:
    """Tell whether a string can be written as UTF-8, that is, has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _part(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if key.isidentifier() and len(key) <= PATH_KEY_CHARS:
        return f".{key}"
    return f"[{key[:PATH_KEY_CHARS]!a}]"


def as_mapping(raw: object, path: str, *fields: str) -> Mapping[str, object]:
    """Read an object; `fields` names what it may hold, for the author who gave something else."""
    if type(raw) is not dict or not all(type(key) is str for key in raw):
        raise Invalid(
            code="wrong_value", path=path, facts={"wanted": "object", "fields": [*fields]}
        )
    return raw
