"""Where a connector keeps and opens blobs while it works for a workflow (K15).

Law 1: a connector never sees whose blobs it opens. The host says for which workflow a call is made,
       and the call reaches the blobs of that workflow alone.
Law 2: `keep_blob` returns when the blob is in the store, so a handle that reaches a script has its
       bytes. `open_blob` returns exactly the bytes of the digest, or raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

from duly.errors import Refused
from duly.rules.blob import Blob, make_handle

TRIAL_BYTES: Final = b"A trial of Duly. Delete it.\n"
BLOB_BYTES_MAX: Final = 25 * 1024 * 1024  # the default of `limits.blob_bytes`


class BlobBox(Protocol):
    """The blobs of one workflow."""

    async def keep(self, data: bytes, name: str, kind: str) -> Blob:
        """Keep bytes and return their handle."""

    async def open(self, blob: Blob) -> bytes:
        """Return the bytes of a handle; raise Refused if the workflow has no such blob."""


class MemoryBlobs:
    """Blobs without a store: for tests of connectors, and for rehearsals."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def keep(self, data: bytes, name: str, kind: str = "") -> Blob:
        """Keep bytes and return their handle."""
        return self.put(data, name, kind)

    async def open(self, blob: Blob) -> bytes:
        """Return the bytes of a handle."""
        data = self.kept.get(blob["blob"])
        if data is None or len(data) != blob["size"]:
            raise Refused("This workflow has no such blob.")
        return data

    def put(self, data: bytes, name: str, kind: str = "") -> Blob:
        """Keep bytes at once and return their handle."""
        if len(data) > BLOB_BYTES_MAX:
            raise too_large(BLOB_BYTES_MAX)
        handle = make_handle(data, name, kind)
        self.kept[handle["blob"]] = data
        return handle


_BOX: Final[ContextVar[BlobBox | None]] = ContextVar("blobs", default=None)


def box() -> BlobBox:
    """Return the blobs that the running call may use."""
    found = _BOX.get()
    if found is None:
        raise Refused("Blobs are kept and opened while a call of a workflow is made.")
    return found


@contextmanager
def using_blobs(blobs: BlobBox | None) -> Iterator[None]:
    """Let the calls that are begun in this block use these blobs."""
    before = _BOX.set(blobs)
    try:
        yield
    finally:
        _BOX.reset(before)


def trial_blob() -> Blob:
    """Return the handle of the one blob that a trial of a tool can use (K10)."""
    return make_handle(TRIAL_BYTES, "trial.txt", "text/plain")


def trial_box() -> MemoryBlobs:
    """Return the blobs of a trial, which belongs to no workflow."""
    made = MemoryBlobs()
    made.put(TRIAL_BYTES, "trial.txt", "text/plain")
    return made


def too_large(limit: int) -> Refused:
    """Say that bytes are more than one blob may have (N)."""
    return Refused(f"A blob has at most {limit:,} bytes.")
