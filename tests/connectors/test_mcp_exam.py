"""The exam for the network over a tool of an MCP server: what is said is true (M8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from duly.connectors.mcp import Mcp
from duly.connectors.mcp_lock import write_lock
from duly.connectors.mcp_tool import read_list
from duly.rules.pin import agree
from duly.testing import WEB_REPLIES, NetworkReport, examine_network
from tests.connectors.mcp_server import TOOLS, Notes, Site

HOST = "127.0.0.1"
HARMLESS = ("answers 404 No", "sends the request twice")  # before the call
PREPARING = 4  # the handshake, its end, and two pages of the list
ARGS = {"text": "milk"}
# What is said and true, if the fault is met by the call itself; it cannot be asked afterwards.
SAID = {
    "the last bytes of the answer are lost": "unknown, it was done",
    "the answer makes no sense": "unknown, it was done",
    "the server answers 503 No, after it did it": "unknown, it was done",
    "the server answers 503 No, and does nothing": "unknown, nothing was done",
    "the server answers 200 Well, after it did it": "unknown, it was done",
    "the server answers 400 No, and does nothing": "unknown, nothing was done",
    "the server answers 401 No, and does nothing": "unknown, nothing was done",
    "the server answers 404 No, and does nothing": "unknown, nothing was done",
    "the server answers 429 Wait with a time, and does nothing": "unknown, nothing was done",
}


def pinned(folder: Path) -> Path:
    lock = folder / "notes.lock.json"
    write_lock(lock, agree({}, read_list(TOOLS), ()))
    return lock


def count(folder: Path) -> int:
    return len(Notes(folder).notes())


@pytest.fixture
def exam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., NetworkReport]:
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.15)
    monkeypatch.setattr("duly.testing.network.CUTS", 2)

    def take(*, streams: bool, skips: int) -> NetworkReport:
        place = tmp_path / f"exam-{skips}"
        place.mkdir()
        site = Site(place, streams=streams)

        def reach(folder: Path, port: int) -> Mcp:
            return Mcp(
                lock=pinned(folder),
                url=f"http://{HOST}:{port}/mcp",
                headers={"X-Shelf": folder.name},
                allow=[HOST],
                name="notes",
            )

        try:
            return examine_network(
                reach,
                "add_note",
                ARGS,
                server=(HOST, site.server_address[1]),
                effects=count,
                folder=place,
                replies=WEB_REPLIES,
                skips=skips,
            )
        finally:
            site.close()

    return take


@pytest.mark.parametrize("streams", [False, True], ids=["messages", "streams"])
def test_a_call_over_a_broken_network_tells_the_truth(
    exam: Callable[..., NetworkReport], streams: bool
) -> None:
    """M8, L4, K2: cut, lost, silent, in drops, senseless, without end, and every status."""
    report = exam(streams=streams, skips=PREPARING)
    assert report.points > 30
    for fault, said in SAID.items():
        assert f"When {fault}: it said {said}, reconcile said Unsure." in report.sentences


@pytest.mark.parametrize("skips", [0, PREPARING - 1], ids=["handshake", "list"])
def test_what_breaks_before_the_call_has_sent_nothing(
    exam: Callable[..., NetworkReport], skips: int
) -> None:
    """M8, L4: it is said to be not sent; a session that is gone is begun anew, and then called."""
    report = exam(streams=False, skips=skips)
    assert "unknown" not in str(report)
    done = [each for each in report.sentences if "it was done" in each]
    assert [each for each in done if not any(fault in each for fault in HARMLESS)] == []
