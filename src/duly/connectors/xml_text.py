"""Reads XML of strangers: no document type, no entities, nothing from elsewhere, not too deep.

A host runs this in a locked process (`reader.py`, K7).
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

DEPTH_MAX: Final = 100


class XmlRefused(Exception):
    """It is XML that is not read."""


def read_tree(data: bytes) -> Element:
    """Build the tree of a document without a document type."""
    builder, depth = TreeBuilder(), 0
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(*_: object) -> None:
        raise XmlRefused("it has a document type, which could declare entities")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEPTH_MAX:
            raise XmlRefused(f"it is nested deeper than {DEPTH_MAX}")
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.Parse(data, True)
    return builder.close()


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition(" ")[2]


def text_at(element: Element, *path: str) -> str:
    """Return the text of the first element at a path of names; empty if there is none."""
    for name in path:
        found = next((each for each in element if local_name(each) == name), None)
        if found is None:
            return ""
        element = found
    return (element.text or "").strip()
