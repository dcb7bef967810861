"""Follows a value back to its event: whether the part that a text names can be there.

Law: a part is reported as missing only if the text proves it. A payload is known when every publish
into its topic writes it out and nothing is published from outside. The data of prepare is known
when every return writes it out. Any other value may hold anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from duly.rules.access import Step
from duly.script.outline import EVENT, PREPARED, Handler, Origin, Outline, Use, Value, walk

EVENT_FIELDS: Final = ("topic", "message_id", "id", "title", "payload")

# The fields of a value; None where they are unknown.
Known: TypeAlias = "frozenset[str] | None"


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A part that is not there: its name, what should have had it, and what is there instead."""

    name: str
    holder: str
    fields: tuple[str, ...]


def payloads(outline: Outline) -> dict[str, Known]:
    """Return, by topic, the fields its payloads have when they come from this text."""
    shapes: dict[str, Known] = {}
    for function in outline.functions.values():
        for node in walk(function.body):
            if isinstance(node, Use) and node.path == "publish" and node.positional:
                payload = None if node.is_open else node.named.get("payload")
                is_known = payload is not None and payload.fields is not None
                for topic in (each.text for each in node.positional[0].choices):
                    if topic is None:
                        return {}  # It may go anywhere.
                    is_ours = is_known and topic not in outline.ingress
                    if payload is None or not is_ours or payload.is_open:
                        shapes[topic] = None
                    elif (before := shapes.get(topic, frozenset())) is not None:
                        shapes[topic] = before | frozenset(payload.fields or ())
    return shapes


def find_missing(
    outline: Outline, shapes: Mapping[str, Known], handler: Handler, origin: Origin
) -> MissingPart | None:
    """Return the part of a path from an event or from `prepared` that is missing, if any."""
    match origin:
        case (str(root), topic, "payload", name, *_) if root == EVENT:
            holder = f'The payload of "{topic}"'
            return _lacks(name, holder, shapes.get(topic))
        case (str(root), _, name, *_) if root == EVENT:
            return _lacks(name, "An event", frozenset(map(outline.spell, EVENT_FIELDS)))
        case (str(root), "data", *path) if root == PREPARED and path:
            key = handler.steps.get(Step.PREPARE)
            answers = [] if key is None else outline.functions[key].results
            found = [_find_in(outline, shapes, handler, each, path) for each in answers]
            whole = [each for each in found if each is not None]
            # The result with the most fields is the one that has something to do.
            longest = max(whole, key=lambda each: len(each.fields), default=None)
            return longest if len(whole) == len(found) else None
    return None


def _find_in(
    outline: Outline, shapes: Mapping[str, Known], handler: Handler, answer: Value, path: list[str]
) -> MissingPart | None:
    """Follow a path into one result of prepare."""
    at = None if answer.fields is None else answer.fields.get("data")
    for index, name in enumerate(path):
        if at is None or at.is_open:
            return None
        if at.origin is not None:
            return find_missing(outline, shapes, handler, (*at.origin, *path[index:]))
        if at.fields is None:
            return None
        if name not in at.fields:
            return _lacks(name, "The data that prepare returns", frozenset(at.fields))
        at = at.fields[name]
    return None


def _lacks(name: str, holder: str, fields: Known) -> MissingPart | None:
    if fields is None or name in fields:
        return None
    return MissingPart(name, holder, tuple(sorted(fields)))
