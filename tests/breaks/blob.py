"""Breaks of blobs: whose they are, when they are seen, what keeps them, what is sent (K15)."""

from __future__ import annotations

from typing import Any

from duly.engine import blobs
from duly.rules.blob import BlobStatus
from tests.breaks import Break

BLOBS = "tests/engine/test_blobs.py"
EXAM = "tests/store/test_exam_blob.py"


async def _has_all(self: Any, use: Any) -> bool:
    return True


async def _open_any(self: blobs.WorkflowBlobs, handle: Any) -> bytes:
    pieces: list[bytes] = []
    while (
        piece := await self.store.get_blob_part(
            self.live.fence.workflow_id, handle["blob"], len(pieces)
        )
    ) is not None:
        pieces.append(piece)
    return b"".join(pieces)


BREAKS = (
    Break(
        "K15",
        "duly.engine.blobs",
        "WorkflowBlobs.has",
        _has_all,
        (f"{BLOBS}::test_a_mutation_with_a_foreign_blob_is_never_written_down",),
        "a handle is used without asking whose it is",
    ),
    Break(
        "K15",
        "duly.engine.blobs",
        "WorkflowBlobs.open",
        _open_any,
        (f"{BLOBS}::test_a_blob_that_is_damaged_in_the_store_is_not_used",),
        "the digest of what was read is not compared",
    ),
    Break(
        "K15",
        "duly.store.blob",
        "is_named",
        lambda *_: False,
        (f"{BLOBS}::test_a_call_that_waits_for_a_person_keeps_its_blob",),
        "what something open names is removed",
    ),
    Break(
        "K15",
        "duly.store.blob",
        "_find",
        lambda tx, workflow_id, digest: BlobStatus.KEPT,
        (EXAM,),
        "a blob counts as whole before its last part is there",
    ),
)
