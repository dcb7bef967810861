"""The calls that a test makes to files, and what it finds in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duly
from duly.connectors import Files
from tests.connectors.sheets import SENT_AT


def call(path: str = "a/note.txt", text: str = "hi", key: str = "k1") -> duly.Call:
    args = {"path": path, "text": text}
    return duly.Call("files.write", args, key=key, workflow="w", attempt=1, sent_at=SENT_AT)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


async def write(files: Files, **words: str) -> Any:
    made = call(**words)
    return await files.write(made, **made.args)  # type: ignore[arg-type]


async def all_names(files: Files, pattern: str = "*") -> list[str]:
    after, names = None, []
    while True:
        page = await files.search(pattern, after)
        names += [each["path"] for each in page.items]
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            return names
