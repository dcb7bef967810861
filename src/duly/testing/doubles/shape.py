"""What a service accepts, as a value: a double rejects everything else, as the real one does.

    DRAFT = {"message": needed({"raw": needed(str), "threadId": str})}
    misfit(body, DRAFT)     # None, or where it does not fit and why

A field that is not named here is unknown, and rejected.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

FieldShape: TypeAlias = "type | TextOf | Needed | OneOf | dict[str, Any] | list[Any] | None"
ANYTHING: Final = None  # every JSON value


@dataclass(frozen=True, slots=True)
class TextOf:
    """A text of so many characters, which may have to be one of a few words, or one line."""

    chars_max: int
    words: Collection[str] = ()
    chars_min: int = 0
    is_line: bool = False


@dataclass(frozen=True, slots=True)
class Needed:
    """A field that must be there."""

    shape: FieldShape


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value that fits one of these."""

    shapes: tuple[FieldShape, ...]


def needed(shape: FieldShape) -> Needed:
    """Say that a field must be there."""
    return Needed(shape)


def misfit(value: Any, shape: FieldShape, path: str = "") -> str | None:
    """Return why a value does not fit a shape, with its place; None if it fits."""
    if shape is ANYTHING:
        return None
    if isinstance(shape, Needed):
        return misfit(value, shape.shape, path)
    if isinstance(shape, OneOf):
        found = [misfit(value, each, path) for each in shape.shapes]
        return None if None in found else found[0]
    if isinstance(shape, dict):
        return _misfit_object(value, shape, path)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path or 'body'}: expected a list"
        places = (misfit(each, shape[0], f"{path}[{at}]") for at, each in enumerate(value))
        return next((each for each in places if each is not None), None)
    if isinstance(shape, TextOf):
        return _misfit_text(value, shape, path)
    is_number = shape in (int, float) and isinstance(value, int | float)
    is_whole = shape is not int or isinstance(value, int)
    is_kind = (is_number and is_whole) or isinstance(value, shape)
    if not is_kind or (isinstance(value, bool) and shape is not bool):
        return f"{path or 'body'}: expected {shape.__name__}"
    return None


def _misfit_object(value: Any, shape: dict[str, Any], path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path or 'body'}: expected an object"
    before = f"{path}." if path else ""
    for name in value:
        if name not in shape:
            return f"{before}{name}: unknown field"
    for name, inner in shape.items():
        if name not in value:
            if isinstance(inner, Needed):
                return f"{before}{name}: required"
            continue
        if (found := misfit(value[name], inner, f"{before}{name}")) is not None:
            return found
    return None


def _misfit_text(value: Any, shape: TextOf, path: str) -> str | None:
    if not isinstance(value, str):
        return f"{path}: expected a string"
    if len(value) > shape.chars_max:
        return f"{path}: longer than {shape.chars_max} characters"
    if len(value) < shape.chars_min:
        return f"{path}: shorter than {shape.chars_min} characters"
    if shape.is_line and len(value.splitlines()) > 1:
        return f"{path}: it contains newline characters"
    if shape.words and value not in shape.words:
        return f"{path}: must be one of {', '.join(sorted(shape.words))}"
    return None
