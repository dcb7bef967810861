"""A host of the project beside the project's own: for what needs its tools but not its store.

Law 1  The project's store is not opened, not locked and not made: a running host does not notice.
Law 2  What is made here is gone when the command ends.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from duly.api.build import build_host
from duly.api.project import Project
from duly.errors import Invalid
from duly.host import Host
from duly.rules.source import SUFFIXES, Language, Source

STDIN: Final = "-"


@asynccontextmanager
async def open_aside(project: Project) -> AsyncIterator[Host]:
    """Open a host with the project's tools and policy on a store of its own."""
    with TemporaryDirectory(prefix="duly-") as folder:
        url = f"sqlite:///{folder}/aside.db"
        config = replace(project.config, url=url, repairer=None)
        host = build_host(replace(project, config=config), with_extensions=False)
        async with host:
            yield host


def read_source(path: str, *, language: str | None, most_bytes: int) -> Source:
    """Read a file, or standard input for `-`; without `language` its ending says it."""
    word = language or SUFFIXES.get(Path(path).suffix)
    if word is None:
        facts = {"file": path, "known": list(SUFFIXES)}
        raise Invalid(code="no_language", path="source", facts=facts)
    try:
        if path == STDIN:
            content = sys.stdin.buffer.read(most_bytes + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(most_bytes + 1)
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        facts = {"cause": reason}
        raise Invalid(code="unreadable", path="source", subject=path, facts=facts) from None
    if len(content) > most_bytes:
        most = {"limit": most_bytes, "unit": "bytes"}
        raise Invalid(code="too_long", path="source", subject=path, facts=most)
    return Source(Language(word), text, "stdin" if path == STDIN else path)
