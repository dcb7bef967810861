"""The blobs of a workflow, as the calls of one run reach them (K15).

Law 1: a blob is whole in the store before its handle is returned. A crash in between leaves parts
       that nothing sees.
Law 2: a call opens the blobs of its own workflow. What another workflow has does not exist here.
Law 3: the bytes that are opened have the digest they are asked for, or the store is damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

from duly.config import Limits
from duly.connectors.blob import BlobBox, MemoryBlobs, too_large
from duly.engine.live import Live
from duly.env import Env
from duly.errors import Invalid, NotSent, Refused, StoreError
from duly.rules.blob import BLOBS_MAX, PART_BYTES, Blob, BlobUse, blobs_in, make_handle, no_blob
from duly.rules.catalog import Tool
from duly.rules.schedule import DAY_MS
from duly.rules.value import Json
from duly.store import Store
from duly.store.blob import BlobPlace

HALF_MS: Final = DAY_MS  # a blob that is being written for longer is not written any more


class StepBlobs(BlobBox, Protocol):
    """The blobs that the calls of a step reach."""

    async def has(self, use: BlobUse) -> bool:
        """Tell whether the workflow has a blob that a call names."""


@dataclass(slots=True)
class RehearsedBlobs(MemoryBlobs):
    """The blobs of a rehearsal: nothing is written, and every handle may be named."""

    kept: dict[str, bytes] = field(default_factory=dict)

    async def has(self, use: BlobUse) -> bool:
        """Let every handle be named: nothing is sent with it."""
        return True


@dataclass(slots=True)
class WorkflowBlobs:
    """The blobs of the workflow of one run; it counts how many the run was given."""

    store: Store
    env: Env
    limits: Limits
    live: Live

    async def has(self, use: BlobUse) -> bool:
        """Tell whether the workflow was given this blob, and keep it for another while."""
        now, workflow_id = self.env.now_ms(), self.live.fence.workflow_id
        return await self.store.use_blob(workflow_id, use.digest, now=now) == use.size

    async def keep(self, data: bytes, name: str, kind: str) -> Blob:
        """Write bytes into the store, and return their handle."""
        if len(data) > self.limits.blob_bytes:
            raise too_large(self.limits.blob_bytes)
        if self.live.blobs >= self.limits.blobs_per_run:
            raise Refused(f"A run gets at most {self.limits.blobs_per_run} blobs.")
        self.live.blobs += 1
        handle = await self.env.compute(lambda: make_handle(data, name, kind))
        try:
            await self._write(handle["blob"], data)
        except Invalid as error:
            raise Refused(str(error)) from error
        except StoreError as error:
            raise NotSent(f"The blob could not be kept: {error}") from error
        return handle

    async def _write(self, digest: str, data: bytes) -> None:
        store, fence, size = self.store, self.live.fence, len(data)
        now, room = self.env.now_ms(), self.limits.blobs_bytes
        if await store.begin_blob(fence, digest, size, now=now, room_bytes=room, most=BLOBS_MAX):
            return
        for number, at in enumerate(range(0, size, PART_BYTES)):
            body = data[at : at + PART_BYTES]
            await store.keep_blob_part(fence.workflow_id, digest, number, body)
        await store.finish_blob(fence.workflow_id, digest, now=self.env.now_ms())

    async def open(self, blob: Blob) -> bytes:
        """Read all parts of a blob of this workflow."""
        workflow_id, digest = self.live.fence.workflow_id, blob["blob"]
        pieces: list[bytes] = []
        try:
            size = await self.store.find_blob(workflow_id, digest)
            if size is None or size != blob["size"]:
                raise Refused("This workflow has no such blob.")
            for number in range(-(-size // PART_BYTES)):
                piece = await self.store.get_blob_part(workflow_id, digest, number)
                pieces.append(piece or b"")
        except StoreError as error:
            raise NotSent(f"The blob could not be read: {error}") from error
        data = b"".join(pieces)
        if await self.env.compute(lambda: sha256(data).hexdigest()) != digest:
            raise Refused(f"The blob {blob['name']!r} is damaged in the store.")
        return data


async def check_blobs(blobs: StepBlobs, tool: Tool, args: Mapping[str, Json]) -> None:
    """Refuse a call that names a blob which its workflow was not given (K15)."""
    for use in blobs_in(tool, args):
        if not await blobs.has(use):
            raise no_blob(use.path)


@dataclass(frozen=True, slots=True)
class Swept:
    """How many blobs one turn took away, and where to go on; None at the end."""

    count: int
    next: BlobPlace | None


async def sweep(store: Store, after: BlobPlace, *, now_ms: int, days: int) -> Swept:
    """Take one short turn of removing old blobs."""
    if await store.drop_blob_parts():
        return Swept(0, after)
    found = await store.old_blobs(
        after, kept_before=now_ms - days * DAY_MS, half_before=now_ms - HALF_MS
    )
    count = 0
    for each in found:
        if not each.is_named:
            count += await store.leave_blob(each.workflow_id, each.digest, used_at=each.used_at)
    if not found:
        return Swept(0, None)
    return Swept(count, BlobPlace(found[-1].used_at, found[-1].workflow_id, found[-1].digest))
