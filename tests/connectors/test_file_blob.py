"""Files as blobs: read and written by their handles, once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import Files
from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.blob import MemoryBlobs, using_blobs
from duly.testing import examine, look_at_disk

pytestmark = pytest.mark.anyio


async def test_a_file_travels_as_a_blob(tmp_path: Path) -> None:
    """K15: read and written by its handle, bytes and all, with a type by its name."""
    (tmp_path / "a.pdf").write_bytes(b"%PDF\0")
    files = Files(tmp_path)
    with using_blobs(MemoryBlobs()):
        found = await files.get("a.pdf")
        assert found is not None
        assert (found["name"], found["type"], found["size"]) == ("a.pdf", "application/pdf", 5)
        assert await files.get("none.pdf") is None
        at = datetime(2026, 1, 1, tzinfo=UTC)
        args: dict[str, Any] = {"path": "b/c.pdf", "file": found}
        call = Call("files.put", args, key="k1", workflow="w", attempt=1, sent_at=at)
        assert await files.put_happened(call) == NotApplied()
        written = await files.put(call, **args)
        assert await files.put_happened(call) == Applied(written)
        other = {**args, "file": {**found, "blob": "0" * 64}}
        assert isinstance(await files.put_happened(replace(call, args=other)), Unsure)
    assert (tmp_path / "b" / "c.pdf").read_bytes() == b"%PDF\0"


def test_a_blob_is_written_once(tmp_path: Path) -> None:
    """L5, L7: killed at every line, the receipt says what happened."""
    blobs = MemoryBlobs()
    file: Any = blobs.put(b"one", "one.txt")
    with using_blobs(blobs):
        report = examine(
            Files,
            "put",
            {"path": "one.txt", "file": file},
            other_args={"path": "two.txt", "file": file},
            effects=lambda folder: len(list(folder.glob("*.txt"))),
            folder=tmp_path,
            modules=["duly.connectors.folder"],
            look=look_at_disk,
        )
    assert report.applied > 2
