"""`duly bus journal`: a person is not drowned in what the host tells itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duly.api.build import build_host
from duly.faces.cli import bus
from duly.rules.announcement import Topic
from tests.faces.cli_stand import answer, call, make, project

OWN = 7


async def _announce(folder: Path) -> None:
    """Let an event of a person's be followed by the host's own."""
    async with build_host(project(folder)) as host:
        await host.bus.emit("tea.ready", {"cups": 2}, source="kettle")
        for _ in range(OWN):
            await host.deploy(folder / "workflows" / "checks.js", by="anna")
        await host.bus.emit("tea.drunk", {"cups": 0}, source="ada")
        await host.pause("checks")
        await host.drain()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make(tmp_path_factory.mktemp("bus") / "project")
    asyncio.run(_announce(made))
    return made


def heads(text: str) -> list[str]:
    return [line.split()[1] for line in text.splitlines() if line[0] != " "]


def test_what_the_host_announced_and_nobody_took_is_left_out_and_counted(folder: Path) -> None:
    """B11, U6: `--all` and JSON have everything, and so has a list that names the topic."""
    told = call(folder, "bus", "journal")
    assert heads(told.stdout) == ["tea.drunk", "tea.ready"]
    assert told.stderr == f"{OWN} of the host's own are not shown; --all shows them.\n"
    everything = call(folder, "bus", "journal", "--all")
    assert len(heads(everything.stdout)) == OWN + 2
    assert everything.stderr == ""
    assert len(answer(folder, "bus", "journal")) == OWN + 2
    named = call(folder, "bus", "journal", "--topic", Topic.DEPLOYED)
    assert heads(named.stdout) == [Topic.DEPLOYED] * OWN


def test_pages_are_walked_until_enough_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14: within a limit, behind which it is said where to go on."""
    monkeypatch.setattr(bus, "PAGE", 2)
    told = call(folder, "bus", "journal", "--limit", "2")
    assert heads(told.stdout) == ["tea.drunk", "tea.ready"]
    first = call(folder, "bus", "journal", "--limit", "1")
    assert (heads(first.stdout), first.stderr) == (["tea.drunk"], "")
    monkeypatch.setattr(bus, "LOOKED_MAX", 4)
    some = call(folder, "bus", "journal")
    assert heads(some.stdout) == ["tea.drunk"]
    oldest = answer(folder, "bus", "journal")[3]["id"]
    assert some.stderr.splitlines() == [
        "3 of the host's own are not shown; --all shows them.",
        f"No further back was looked than event {oldest}: `--before {oldest}` goes on.",
    ]
    behind = call(folder, "bus", "journal", "--before", str(oldest))
    assert heads(behind.stdout) == ["tea.ready"] or "No further back" in behind.stderr


@pytest.mark.parametrize("limit", ["0", "1001"])
def test_a_limit_that_is_none_is_refused_as_ever(folder: Path, limit: str) -> None:
    """B14: looking through pages must not hide it."""
    assert call(folder, "bus", "journal", "--limit", limit).exit_code == 1
    assert call(folder, "bus", "journal", "--all", "--limit", limit).exit_code == 1


def test_what_somebody_took_is_shown_whoever_said_it() -> None:
    """B11: undelivered is the host's word, and a person's event is theirs."""
    own = {"source": "duly", "undelivered": False}
    assert bus.is_shown(own)
    assert not bus.is_shown({**own, "undelivered": True})
    assert bus.is_shown({"source": "ada", "undelivered": True})


def test_a_bus_that_is_not_held_is_said_to_be_so(folder: Path) -> None:
    """H5: and nothing was changed."""
    assert call(folder, "bus", "resume").stdout == "The bus is not held.\n"
