"""Reads a list of objects as S3-compatible servers write it; in a locked process (K7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus
from xml.parsers import expat

from duly.connectors.xml_text import XmlRefused, local_name, read_tree, text_at
from duly.rules.value import INTEGER_MAX

ROOT: Final = "ListBucketResult"
WARM: Final = b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>"


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of a list."""

    key: str
    size: int
    etag: str
    modified_at: str


@dataclass(frozen=True, slots=True)
class ObjectList:
    """One page of a list, or what is wrong with it; `token` leads to the next."""

    objects: tuple[ListedObject, ...] = ()
    token: str | None = None
    problem: str | None = None


def read_list(data: bytes) -> ObjectList:
    """Read one page of a list."""
    try:
        root = read_tree(data)
        if local_name(root) != ROOT:
            return ObjectList(problem="it is no list of objects")
        is_url = text_at(root, "EncodingType") == "url"
        objects = tuple(
            ListedObject(
                unquote_plus(key) if is_url else key,  # a space is written as a plus sign
                _size(text_at(each, "Size")),
                text_at(each, "ETag").strip('"'),
                text_at(each, "LastModified"),
            )
            for each in root
            if local_name(each) == "Contents" and (key := text_at(each, "Key"))
        )
        is_more = text_at(root, "IsTruncated") == "true"
        return ObjectList(objects, text_at(root, "NextContinuationToken") if is_more else None)
    except (XmlRefused, expat.ExpatError, ValueError) as error:
        return ObjectList(problem=f"it is malformed ({error})"[:200])


def _size(text: str) -> int:
    size = int(text or 0)
    if not 0 <= size <= INTEGER_MAX:
        raise ValueError("an object has a size that cannot be")
    return size


def warm_up() -> None:
    """Import what the reader imports late: a locked process can import nothing."""
    read_list(WARM)
