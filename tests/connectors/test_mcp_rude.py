"""MCP servers that will not end, shout, or fork on: the host works, and nothing is left (M8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.connectors.mcp_server import Notes
from tests.connectors.test_mcp import add, agreed, at_work, gone, search, until

MOST_S = 30.0  # ends a test that would wait without an end


def server_of(folder: Path) -> int:
    return int((folder / "started").read_text().split()[-1])


def are_left(folder: Path) -> list[str]:
    """List the processes that were started for a folder, by what the kernel says of them."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0") if each.name.isdigit() else []
        except OSError:  # it has just ended
            continue
        if str(folder).encode() in words:
            found.append(each.name)
    return found


@pytest.mark.parametrize("manner", ["deaf", "shouts", "forks on"])
async def test_a_rude_server_is_used_and_leaves_nothing(manner: str, tmp_path: Path) -> None:
    """M8: neither the end of its input nor SIGTERM ends it; its children flee; it floods."""
    (tmp_path / "manner").write_text(manner)
    async with asyncio.timeout(MOST_S):
        async with at_work(agreed(tmp_path)) as registry:
            await search(registry)
            assert (await add(registry))["text"] == "added"
            server = server_of(tmp_path)
            assert Notes(tmp_path).notes() == ["milk"]
        await gone(server)
        await until(lambda: not are_left(tmp_path))
