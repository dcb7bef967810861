"""Blobs: bytes of a workflow, in parts, by their digest (K15).

Law 1: a blob is written in parts, each a transaction of its own, so that no other verb waits long.
       Until the last part is there nothing sees it.
Law 2: the same digest is the same bytes. A write that is repeated, or made twice at the same time,
       leaves what one write leaves.
Law 3: a blob is removed in turns, and only if nothing open speaks of it and it was not used since
       it was looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from duly.errors import Invalid
from duly.rules.blob import BlobStatus
from duly.store import statements
from duly.store.base import Fence, Transaction

PARTS_PER_TURN: Final = 8
OLD_PER_TURN: Final = 20


@dataclass(frozen=True, slots=True)
class OldBlob:
    """A blob that was not used for long, and whether anything open speaks of it."""

    workflow_id: str
    digest: str
    used_at: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Where a walk through the old blobs goes on."""

    used_at: int = -1
    workflow_id: str = ""
    digest: str = ""


def begin_blob(
    tx: Transaction, fence: Fence, digest: str, size: int, *, now: int, room_bytes: int, most: int
) -> bool:
    """Make room for a blob; return whether all of it is there already.

    More than `most` blobs, or `room_bytes` of them, are refused (N).
    """
    statements.check(tx, fence)
    workflow_id = fence.workflow_id
    if tx.run("use_blob", workflow_id=workflow_id, digest=digest, now=now):
        return True
    if _find(tx, workflow_id, digest) is not BlobStatus.WRITING:
        ((count, total),) = tx.all("sum_blobs", workflow_id=workflow_id)
        if count >= most:
            raise Invalid(code="too_many", path="blob", facts={"limit": most, "unit": "blobs"})
        if int(total) + size > room_bytes:
            raise Invalid(code="blobs_full", path="blob", facts={"limit": room_bytes})
    tx.write("open_blob", workflow_id=workflow_id, digest=digest, size=size, now=now)
    return False


def keep_blob_part(
    tx: Transaction, workflow_id: str, digest: str, number: int, body: bytes
) -> None:
    """Write one part of a blob that was begun."""
    if _find(tx, workflow_id, digest) not in (BlobStatus.WRITING, BlobStatus.KEPT):
        statements.must_change(0, "The blob")
    tx.write("insert_blob_part", workflow_id=workflow_id, digest=digest, number=number, body=body)


def finish_blob(tx: Transaction, workflow_id: str, digest: str, *, now: int) -> None:
    """Let a blob be seen, if all of it is there."""
    if _find(tx, workflow_id, digest) is BlobStatus.KEPT:
        return  # another writer of the same bytes was faster
    changed = tx.run("finish_blob", workflow_id=workflow_id, digest=digest, now=now)
    statements.must_change(changed, "The blob")


def use_blob(tx: Transaction, workflow_id: str, digest: str, *, now: int) -> int | None:
    """Return the size of a blob that a call names, and keep it for another while; None if none."""
    if not tx.run("use_blob", workflow_id=workflow_id, digest=digest, now=now):
        return None
    return find_blob(tx, workflow_id, digest)


def find_blob(tx: Transaction, workflow_id: str, digest: str) -> int | None:
    """Return the size of a blob; None if the workflow has none of this digest that is whole."""
    found = tx.one("get_blob", workflow_id=workflow_id, digest=digest)
    is_kept = found is not None and found[1] == BlobStatus.KEPT
    return int(found[0]) if found is not None and is_kept else None


def get_blob_part(tx: Transaction, workflow_id: str, digest: str, number: int) -> bytes | None:
    """Read one part; None behind the last, and of a blob that the workflow does not have."""
    found = tx.one("get_blob_part", workflow_id=workflow_id, digest=digest, number=number)
    return None if found is None else bytes(found[0])


def oldest_blob(tx: Transaction) -> int | None:
    """Read when the blob was last used that waits for the longest time; None without any."""
    ((at,),) = tx.all("oldest_blob")
    return None if at is None else int(at)


def old_blobs(
    tx: Transaction,
    after: BlobPlace,
    *,
    kept_before: int,
    half_before: int,
    limit: int = OLD_PER_TURN,
) -> tuple[OldBlob, ...]:
    """List blobs that were not used since a moment, and whether anything open names them.

    One that is still being written since `half_before` is not written any more.
    """
    rows = tx.all(
        "old_blobs",
        before=max(kept_before, half_before),
        kept_before=kept_before,
        after_at=after.used_at,
        after_workflow=after.workflow_id,
        after_digest=after.digest,
        limit=limit,
    )
    return tuple(
        OldBlob(workflow_id, digest, at, _is_needed(tx, workflow_id, digest, BlobStatus(status)))
        for workflow_id, digest, at, status in rows
    )


def leave_blob(tx: Transaction, workflow_id: str, digest: str, *, used_at: int) -> bool:
    """Take a blob away; return whether it was still unused. Its parts go in turns."""
    return bool(tx.run("leave_blob", workflow_id=workflow_id, digest=digest, used_at=used_at))


def drop_blob_parts(tx: Transaction, *, limit: int = PARTS_PER_TURN) -> bool:
    """Remove a few parts of a blob that was taken away; return whether there was anything left."""
    found = tx.one("next_leaving_blob")
    if found is None:
        return False
    workflow_id, digest, was_whole = found
    if not tx.run("hold_leaving_blob", workflow_id=workflow_id, digest=digest):
        return True  # it is written again, by a host that was quicker: its parts are wanted
    dropped = tx.run("drop_blob_parts", workflow_id=workflow_id, digest=digest, limit=limit)
    if dropped < limit:
        end = "end_blob" if was_whole else "drop_blob"
        statements.must_change(tx.run(end, workflow_id=workflow_id, digest=digest), "The blob")
    return True


def _find(tx: Transaction, workflow_id: str, digest: str) -> BlobStatus | None:
    found = tx.one("get_blob", workflow_id=workflow_id, digest=digest)
    return None if found is None else BlobStatus(found[1])


def _is_needed(tx: Transaction, workflow_id: str, digest: str, status: BlobStatus) -> bool:
    # Of one that is being written no handle was ever given.
    return status is not BlobStatus.WRITING and is_named(tx, workflow_id, digest)


def is_named(tx: Transaction, workflow_id: str, digest: str) -> bool:
    """Tell whether anything open speaks of a blob."""
    return tx.one("is_blob_named", workflow_id=workflow_id, naming=f"%{digest}%") is not None
