"""Blobs: bytes that travel as handles (K15).

Law 1: a handle is `{"blob": digest, "name": …, "type": …, "size": …}`. The digest is the SHA-256 of
       the bytes, in hexadecimal; scripts, events and the ledger hold handles, and never the bytes.
Law 2: a handle is worth nothing by itself: it can be used by the workflow that was given the blob,
       and by no other. To every other workflow the blob does not exist.
Law 3: a blob that nothing open speaks of is removed when it was not used for some days; its digest
       and size stay (H5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypedDict

from duly.errors import Invalid
from duly.rules.catalog import Tool
from duly.rules.value import Json

BLOBS_MAX: Final = 10_000  # of one workflow; its scripts get room for few of them
PART_BYTES: Final = 256 * 1024  # the largest part of a blob in the store
NAME_CHARS_MAX: Final = 255
TYPE_CHARS_MAX: Final = 100
ANY_TYPE: Final = "application/octet-stream"
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,48}/[a-z0-9][a-z0-9!#$&^_.+-]{0,48}")
FIELDS: Final = ("blob", "name", "size", "type")
# What would make a name a path, or another line.
UNNAMED: Final = re.compile(r"[\x00-\x1f\x7f/\\\u2028\u2029\u202a-\u202e\u2066-\u2069]")
UNNAMED_BLOB: Final = "unnamed"


class BlobStatus(StrEnum):
    """How far a blob is: only one that is kept can be seen."""

    WRITING = "writing"
    KEPT = "kept"
    LEAVING = "leaving"
    REMOVED = "removed"


class Blob(TypedDict):
    """Bytes as a script and a tool name them: digest, name, type and size."""

    blob: str
    name: str
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class BlobUse:
    """A blob that a call names, and at which argument."""

    path: str
    digest: str
    size: int


def make_handle(data: bytes, name: str, kind: str = "") -> Blob:
    """Write the handle of bytes; a name that cannot be shown or would be a path is mended."""
    kind = kind.partition(";")[0].strip().lower()
    return {
        "blob": sha256(data).hexdigest(),
        "name": plain_name(name),
        "type": kind if TYPE.fullmatch(kind) else ANY_TYPE,
        "size": len(data),
    }


def plain_name(name: str) -> str:
    """Return a name that is one name, on one line, of a length that file systems take."""
    shown = UNNAMED.sub("_", name).encode("utf-8", "replace").decode().strip()
    while len(shown.encode()) > NAME_CHARS_MAX:
        stem, dot, ending = shown.rpartition(".")
        shown = f"{stem[:-1]}{dot}{ending}" if stem and len(ending) < 20 else shown[:-1]
    return UNNAMED_BLOB if shown in ("", ".", "..") else shown


def read_handle(value: Json, path: str) -> Blob:
    """Check a handle that a script gives; whose it is is asked elsewhere (law 2)."""
    if not isinstance(value, dict) or tuple(sorted(value)) != FIELDS:
        raise _wrong(path)
    digest, name, kind, size = (value[each] for each in ("blob", "name", "type", "size"))
    is_text = isinstance(digest, str) and isinstance(name, str) and isinstance(kind, str)
    if not is_text or type(size) is not int or size < 0:
        raise _wrong(path)
    assert isinstance(digest, str)
    assert isinstance(name, str)
    assert isinstance(kind, str)
    if not DIGEST.fullmatch(digest) or not TYPE.fullmatch(kind) or plain_name(name) != name:
        raise _wrong(path)
    return {"blob": digest, "name": name, "type": kind, "size": size}


def blobs_in(tool: Tool, args: Mapping[str, Json]) -> Iterator[BlobUse]:
    """List the blobs that the arguments of a call name; refuse what is no handle."""
    for parameter in tool.parameters:
        given = args.get(parameter.name)
        if not parameter.is_blob or given is None:
            continue
        path = f"{tool.name}.{parameter.name}"
        many = given if isinstance(given, list) else [given]
        for place, each in enumerate(many):
            where = f"{path}[{place}]" if isinstance(given, list) else path
            handle = read_handle(each, where)
            yield BlobUse(where, handle["blob"], handle["size"])


def no_blob(path: str) -> Invalid:
    """Say that a workflow has no such blob, whether it never existed or is another's (law 2)."""
    return Invalid(code="no_blob", path=path)


def _wrong(path: str) -> Invalid:
    return Invalid(code="wrong_value", path=path, facts={"wanted": "blob"})
