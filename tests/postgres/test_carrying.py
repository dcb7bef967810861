"""A workflow goes from a file to a server and to another file; nothing is done again (H1, H5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.host import Host
from tests.postgres.stand import KEY, Outside, database, deploy, opened
from tests.postgres.world import Place


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


async def test_a_workflow_is_carried_to_a_server_and_back_to_a_file(
    place: Place, tmp_path: Path
) -> None:
    """H1, H5, T5: with real texts, examined by each store; what waited is done once."""
    outside = Outside()
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    async with Host(f"sqlite:///{tmp_path}/a.db", connectors=[outside]) as host:
        await deploy(host)
        await host.publish("notes", "note", title="done — ü and 漢字", message_id="1")
        await host.drain()
        await host.pause("notes")
        await host.publish("notes", "note", title="waits", message_id="2")
        made = await host.export(first, hand_over=True)
        keys = [each.key for each in await host.mutations("notes")]
    with database(place) as url:
        async with opened(url, outside) as host:
            taken = await host.import_(first)
            assert (taken.lines, taken.unsealed) == (made.lines - 2, 0)
            assert (await host.workflow("notes")).reason.code == "imported"
            verified = await host.verify()
            assert (verified.ok, verified.imported) == (True, 1)
            await host.resume("notes")
            told = await host.publish("notes", "note", title="again", message_id="1")
            assert told == "dropped"  # counted on the event that is done (T5)
            await host.drain()
            assert outside.posts == ["done — ü and 漢字", "waits"]
            await host.export(second, hand_over=True)
            assert (await host.workflow("notes")).reason.code == "handed_over"
    async with Host(f"sqlite:///{tmp_path}/b.db", connectors=[outside]) as host:
        await host.import_(second)
        await host.resume("notes")
        await host.drain()
        assert [each.key for each in await host.mutations("notes")][1:] == keys
        assert (await host.verify()).imported == 2
    assert len(outside.posts) == 2
